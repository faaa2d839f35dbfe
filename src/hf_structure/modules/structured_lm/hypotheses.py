"""Hypotheses of a beam search: the structures of some sentences so far, and what the model keeps of their tokens."""

from typing import Any, ClassVar

import torch
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam
from hf_structure.modules.structured_lm.backbones import adapter_of, embed, last_norm, layer_inputs, layers_of
from hf_structure.modules.structured_lm.search_cache import RowCache, SharedCache
from hf_structure.modules.structured_lm.tape_attention import TapeLookup
from hf_structure.modules.structured_lm.transformer_xl import TransformerXLModel, causal_mask

LOGIT_ROWS = 256  # hypotheses whose logits are computed at a time


class Hypotheses:
    """
    The hypotheses of some sentences, a row for each. A family adds its structures in a subclass: `output_class` has
    the fields `log_prob`, `token_log_probs`, the structures and their log-probabilities, and `reads_words` tells
    whether sentences come with the word of each token; `predict` is extended to choose before a token comes, `read`
    and `select` to keep more than keys and values.

    Args:
        model (`PreTrainedModel`): A causal language model with a `model.backbone` and an `lm_head`.
        ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): The sentences, padded on the right.
        most (`int`): Most hypotheses at a time.
    """

    output_class: ClassVar[type[ModelOutput]]
    reads_words: ClassVar[bool] = False

    def __init__(self, model: Any, ids: torch.Tensor, most: int):
        self.model = model
        self.ids = ids
        self.backbone = model.model.backbone
        batch, tokens = ids.shape
        self.attention: dict[str, Any] = {}  # how the layers of a Transformer-XL attend
        if isinstance(self.backbone, TransformerXLModel):
            self.keys_values = SharedCache(batch, tokens, most, ids.device)
            self.attention["attend"] = self.keys_values.attend
            self.attention["position_scores"] = self.keys_values.position_scores
        else:
            self.keys_values = RowCache(tokens, most)
        self.tables: dict[int, torch.Tensor] = {}  # by layer: keys of the values of tapes
        self.positions = torch.arange(tokens, device=ids.device).unsqueeze(0)
        self.layers = layers_of(self.backbone)
        self.first = min(model.config.structure_layers, default=len(self.layers))  # that reads tapes
        self.lower = self._lower_layers()
        self.last = ids.new_empty(batch, 0)  # (rows, hidden_size): what the head reads of the last token, once read

    @classmethod
    def room_for(cls, k: int, ids: torch.Tensor, *words: torch.Tensor) -> torch.Tensor:
        """
        Zeros `(batch_size, k, ...)` with room for the structures of all sentences, from their token ids and words; by
        default a number for each token. Raises `ValueError` for sentences that structures cannot be found of.
        """
        return torch.zeros_like(ids).unsqueeze(1).repeat(1, k, 1)  # (B, k, n)

    @classmethod
    def at_tokens(cls, structures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Structures of sentences padded on the right, for those whose tokens were at the places in `order`."""
        return structures

    def predict(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """The hypotheses with the probabilities of the tokens at a place, which come next."""
        return beam.add(self.log_probs(self.ids[beam.sentences, place]))

    def branch(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """What is chosen when the tokens at a place are known, which have not been read yet."""
        raise NotImplementedError

    def lookup(self, place: int, sentences: torch.Tensor) -> TapeLookup:
        """The tapes of the tokens at a place of the hypotheses' sentences, `(rows,)`."""
        raise NotImplementedError

    def structures(self) -> torch.Tensor:
        """`(rows, ...)`: what is returned of hypotheses."""
        raise NotImplementedError

    def _lower_layers(self) -> list[torch.Tensor]:
        """The states below the first layer that reads tapes: the same in all hypotheses of a sentence."""
        states = [embed(self.backbone, self.backbone.get_input_embeddings()(self.ids), self.positions)]
        inputs = layer_inputs(self.backbone, states[0], self.positions)
        inputs["attention_mask"] = causal_mask(None, states[0], 0)
        for layer in self.layers[: self.first]:
            states.append(layer(states[-1], **inputs))
        return states

    def read(self, place: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        """
        Processes the tokens at a place; their states `(rows, 1, hidden_size)` after each layer, as the backbone gives
        hidden states: the last one after the last norm.
        """
        lookup = self.lookup(place, sentences)
        states = [layer[:, place].index_select(0, sentences).unsqueeze(1) for layer in self.lower]  # (rows, 1, size)
        self.keys_values.begin(len(sentences))
        positions = self.positions[:, place : place + 1]
        seen = {"attention_mask": None, "tape_lookup": lookup}  # the newest sees all
        states += self.run_layers(states[-1], positions, **seen)
        self.last = states[-1].squeeze(1)
        return states

    def run_layers(self, states: torch.Tensor, positions: torch.Tensor, **inputs) -> list[torch.Tensor]:
        """States `(rows, 1, hidden_size)` after each layer that reads tapes, the last ones after the last norm."""
        device = states.device
        inputs = layer_inputs(self.backbone, states, positions) | self.attention | inputs
        inputs[adapter_of(self.backbone).cache] = self.keys_values
        after = []
        for layer in self.layers[self.first :]:
            states = layer(states, **inputs)
            after.append(states)
        return [each.to(device) for each in (*after[:-1], last_norm(self.backbone, states))]

    def log_probs(self, tokens: torch.Tensor) -> torch.Tensor:
        """`(rows,)`: log-probabilities of tokens `(rows,)` that come next."""
        logits = (self.model.lm_head(states).float() for states in self.last.split(LOGIT_ROWS))
        parts = zip(logits, tokens.split(LOGIT_ROWS), strict=True)
        return -torch.cat([torch.nn.functional.cross_entropy(*part, reduction="none") for part in parts])

    def select(self, rows: torch.Tensor) -> None:
        """Goes on with some rows, which may come more than once, in this order."""
        self.keys_values.select(rows)
        self.last = self.last.index_select(0, rows)  # (rows, hidden_size)
