"""The cache of a transformer grammar: keys and values of all events, and the machines."""

from typing import Any, Protocol

import torch
from torch import nn

from hf_structure.models.transformer_grammar.configuration_transformer_grammar import TransformerGrammarConfig
from hf_structure.models.transformer_grammar.machine_transformer_grammar import Machine
from hf_structure.modules.structured_lm.structure_cache import StructureCache


class GrammarCache(StructureCache):
    """
    [`~transformers.DynamicCache`] with the machines that have read its contents. There is a key for every event, not
    only for every token.
    """

    _structure = "tree"
    _of_tokens = ("embedded", "word_ids")
    _of_rows = ("machine", "last")

    embedded: torch.Tensor  # (batch_size, tokens, hidden_size): the embeddings of the tokens
    word_ids: torch.Tensor  # (batch_size, tokens): their words
    machine: Machine
    last: torch.Tensor  # (batch_size, hidden_size): the states after the last events

    def crop(self, tokens_to_remove: int) -> None:
        """
        Raises:
            ValueError: always. A machine does not go back.
        """
        raise ValueError("tokens cannot be taken from the cache of a transformer grammar")


class GrammarLM(Protocol):
    """The causal language model, as used by beam search and generation."""

    config: TransformerGrammarConfig
    model: Any  # with `act`, `embed_events` and `what_is_seen`

    def get_input_embeddings(self) -> nn.Module: ...

    def is_end(self, input_ids: torch.Tensor) -> torch.Tensor: ...

    def token_kinds(self, input_ids: torch.Tensor) -> torch.Tensor: ...

    def predict(self, states: torch.Tensor, legal: torch.Tensor) -> Any: ...

    def log_probs_next(self, states: torch.Tensor, legal: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor: ...

    def predict_structures(
        self, input_ids: torch.Tensor, word_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
    ) -> torch.Tensor: ...
