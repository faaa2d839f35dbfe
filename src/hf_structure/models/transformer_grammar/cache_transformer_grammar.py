"""The cache of a transformer grammar: keys and values of all events, and the machines."""

import torch

from hf_structure.models.transformer_grammar.machine_transformer_grammar import Machine
from hf_structure.modules.structured_lm.structure_cache import StructureCache


class GrammarCache(StructureCache):
    """
    [`~transformers.DynamicCache`] with the machines that have read what is in it. It has a place for every event, of
    which there are more than tokens.
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
