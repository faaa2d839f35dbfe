"""Hypotheses of a beam search: the structures of some sentences so far, and the cached keys and values."""

# Dimensions: B sentences, k structures of a sentence, rows hypotheses, n tokens.

from typing import Any, ClassVar

import torch
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam
from hf_structure.modules.structured_lm.backbones import adapter_of, embed, last_norm, layer_inputs, layers_of
from hf_structure.modules.structured_lm.search_cache import RowCache, SharedCache
from hf_structure.modules.structured_lm.tape_attention import TapeLookup
from hf_structure.modules.structured_lm.transformer_xl import TransformerXLModel, causal_mask

LOGIT_ROWS = 256  # hypotheses whose logits, of the whole vocabulary, are computed at a time


class Hypotheses:
    """
    The hypotheses of some sentences, a row for each. A family adds its structures in a subclass: `output_class` has
    the fields `log_prob`, `token_log_probs`, structures and their log-probabilities; `reads_words` is true if it needs
    word ids; `predict` may choose before a token comes, `read` and `select` may keep more than keys and values.

    Args:
        model (`PreTrainedModel`): A causal language model with a `model.backbone` and an `lm_head`.
        ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): The sentences, padded on the right.
        most (`int`): Most hypotheses at a time.
    """

    output_class: ClassVar[type[ModelOutput]]
    reads_words: ClassVar[bool] = False
    cache_class: ClassVar[type[SharedCache]] = SharedCache  # for a Transformer-XL

    def __init__(self, model: Any, ids: torch.Tensor, most: int):
        self.model = model
        self.ids = ids
        self.backbone = model.model.backbone
        batch, tokens = ids.shape
        self.attention: dict[str, Any] = {}  # further inputs of layers
        # The attention of transformers' models reads keys and values in rows; that of a Transformer-XL looks them up,
        # so that hypotheses share them.
        self.keys_values = RowCache(tokens, most)
        if isinstance(self.backbone, TransformerXLModel):
            self.keys_values = shared = self.cache_class(batch, tokens, most, ids.device)
            self.attention = {"attend": shared.attend, "position_scores": shared.position_scores}
        self.tables: dict[int, torch.Tensor] = {}  # by layer: keys of the values of tapes
        self.positions = torch.arange(tokens, device=ids.device).unsqueeze(0)
        self.layers = layers_of(self.backbone)
        self.first = min(model.config.structure_layers, default=len(self.layers))  # that reads tapes
        self.lower = self._lower_layers()
        self.last = ids.new_empty(batch, 0)  # (rows, hidden_size): of the last token, for the head

    @classmethod
    def empty_structures(cls, k: int, ids: torch.Tensor, *words: torch.Tensor) -> torch.Tensor:
        """
        Zeros `(batch_size, k, ...)` for the structures of all sentences, from their token ids and words; by default a
        number for each token. Raises `ValueError` for sentences that can have no structures.
        """
        return torch.zeros_like(ids).unsqueeze(1).repeat(1, k, 1)  # (B, k, n)

    @classmethod
    def at_tokens(cls, structures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Moves structures of sentences padded on the right back to the original positions of tokens, `order`."""
        return structures

    def predict(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """Adds the log-probabilities of the next tokens, at `position`."""
        return beam.add(self.log_probs(self.ids[beam.sentences, position]))

    def branch(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """Branches on what the tokens at `position` add to structures; the tokens have not been read yet."""
        raise NotImplementedError

    def lookup(self, position: int, sentences: torch.Tensor) -> TapeLookup:
        """The tapes of the tokens at `position`, for hypotheses of `sentences` `(rows,)`."""
        raise NotImplementedError

    def structures(self) -> torch.Tensor:
        """`(rows, ...)`: the structures, as they are returned."""
        raise NotImplementedError

    def _lower_layers(self) -> list[torch.Tensor]:
        """States below the first layer that reads tapes, which all hypotheses of a sentence share."""
        states = [embed(self.backbone, self.backbone.get_input_embeddings()(self.ids), self.positions)]
        inputs = layer_inputs(self.backbone, states[0], self.positions)
        inputs["attention_mask"] = causal_mask(None, states[0], 0)
        for layer in self.layers[: self.first]:
            states.append(layer(states[-1], **inputs))
        return states

    def read(self, position: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        """Reads the tokens at `position`; states `(rows, 1, hidden_size)` of all layers, the last after the norm."""
        lookup = self.lookup(position, sentences)
        states = [layer[sentences, position].unsqueeze(1) for layer in self.lower]  # (rows, 1, size)
        self.keys_values.begin(len(sentences))
        positions = self.positions[:, position : position + 1]
        seen = {"attention_mask": None, "tape_lookup": lookup}  # the newest token sees all others
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
        # Layers may be on several devices; structures and logits are computed where the first is.
        return [each.to(device) for each in (*after[:-1], last_norm(self.backbone, states))]

    def log_probs(self, tokens: torch.Tensor) -> torch.Tensor:
        """`(rows,)`: log-probabilities of tokens `(rows,)` that come next."""
        logits = (self.model.lm_head(states).float() for states in self.last.split(LOGIT_ROWS))
        parts = zip(logits, tokens.split(LOGIT_ROWS), strict=True)
        return -torch.cat([torch.nn.functional.cross_entropy(*part, reduction="none") for part in parts])

    def select(self, rows: torch.Tensor) -> None:
        """Reorders hypotheses; rows may repeat."""
        self.keys_values.select(rows)
        self.last = self.last.index_select(0, rows)  # (rows, hidden_size)
