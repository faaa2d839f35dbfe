"""Constituency trees from the hidden states of any causal language model, by the scores of tree regularization."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedConfig, PreTrainedModel

from hf_structure.algorithms.spanning_tree import check_decoder
from hf_structure.algorithms.tree_regularization import (
    Span,
    greedy_spans,
    most_probable_spans,
    state_layer,
    state_size,
)
from hf_structure.models.abilities import Abilities, abilities_of
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.text.pauses import refuse_pauses


class CausalLMForConstituencyParsing(torch.nn.Module):
    """
    A causal language model as a parser, trained with tree regularization or not. It can be passed to [`parse`] with
    its tokenizer.

    Args:
        model (`PreTrainedModel`): A causal language model of transformers.
        layer (`int`, *optional*): Number of layers before the states that are compared, at least 1; by default three
            quarters of all.
        fraction (`float`): Share of the attention heads, of which whole ones count; as many of the first dimensions
            of the states are compared as these heads have.

    Raises:
        ValueError: if the model has no such layer, the fraction is no share of at least one head, or the model reads
            pauses, whose states are not those of words.
    """

    def __init__(self, model: PreTrainedModel, layer: int | None = None, fraction: float = 0.25) -> None:
        super().__init__()
        refuse_pauses(model.config, "does not parse")
        self.model = model
        shape: Any = model.config.get_text_config()
        self.layer = state_layer(shape.num_hidden_layers, layer)
        self.size = state_size(shape.hidden_size, shape.num_attention_heads, fraction)
        # The abilities are those of this parser; the model's own configuration stays as it is.
        self.config: Any = PreTrainedConfig()
        self.config.abilities = Abilities(
            structures=("constituency",),
            decoders=("tree", "argmax"),
            reads="pieces",
            incremental=True,
            max_tokens=abilities_of(model.config).max_tokens,
        )

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def name_or_path(self) -> str | None:
        return self.model.name_or_path

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.model.get_input_embeddings()

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
    ) -> DecoderOutput:
        """
        Binary constituency trees of a batch of sentences.

        Args:
            input_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, tokens)`): Tokens, padded on the
                right.
            word_ids (`torch.LongTensor` of shape `(batch_size, tokens)`): Word of each token, from 1; 0 for the
                beginning and the end, -1 for padding.
            decoder (`"tree"`, `"projective"` or `"argmax"`): The most probable tree, or (`"argmax"`) the best split of
                each span, top-down, as in the paper.
            k (`int`): 1; there is only one tree.
            marginals (`bool`): False; there are no dependencies.

        Raises:
            ValueError: if `decoder`, `k` or `marginals` is not one of these.
        """
        check_decoder(decoder, 1)
        if k != 1 or marginals:
            raise ValueError("a causal language model gives the splits of one tree: leave k and marginals out")
        (trees,) = self.layer_spans(input_ids, attention_mask, word_ids, [self.layer], decoder)
        rows = [torch.tensor(spans, dtype=torch.long).view(-1, 2) for spans in trees]  # (num_spans, 2)
        return DecoderOutput(spans=pad_sequence(rows, True, padding_value=-1))  # (B, num_spans, 2)

    @torch.no_grad()
    def layer_spans(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        layers: Sequence[int],
        decoder: str = "tree",
    ) -> list[list[list[Span]]]:
        """
        Trees by the states after several layers, from one forward pass.

        Args:
            input_ids, attention_mask, word_ids, decoder: See [`decode`].
            layers (`Sequence[int]`): Numbers of layers, from 1.

        Returns:
            `list[list[list[tuple[int, int]]]]`: For each layer and each sentence, its constituents.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        outputs = self.model(**inputs, output_hidden_states=True, use_cache=False)
        # Without the beginning.
        starts = [_word_starts(words) for words in word_ids[:, 1:].tolist()]
        parse = greedy_spans if decoder == "argmax" else most_probable_spans
        trees = []
        for layer in layers:
            states = outputs.hidden_states[layer][:, 1:, : self.size].float().cpu()
            trees.append([parse(row[: each[-1]], each) for row, each in zip(states, starts, strict=True)])
        return trees


def _word_starts(word_ids: Sequence[int]) -> list[int]:
    """Returns the index of the first token of each word, and the number of tokens of words."""
    lengths = [len(list(tokens)) for word, tokens in groupby(word_ids) if word > 0]
    return list(accumulate(lengths, initial=0))
