"""
Beam search over parses (section 3.3): the probability of given sentences, summed over the likeliest trees of each.

A hypothesis is the attachments of the tokens so far. With every token it branches into all constituents on its stack
that the token can be reduced with, and none:

    p(x, y) = prod_k p(x_k | x_<k, W_{k-1}) p(r_k | x_<=k, W_{k-1}),    p(x) >= sum over the beam of p(x, y)     (7)

Attachments and trees are one to one: what is not pruned is counted once.

Dimensions: B sentences, k trees, rows hypotheses, n tokens.
"""

import torch

from hf_structure.algorithms.beam import Beam
from hf_structure.algorithms.stack import Stacks
from hf_structure.models.pushdown.cache_pushdown import StackLM
from hf_structure.models.pushdown.outputs_pushdown import StackBeamOutput
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.modules.structured_lm.search_cache import SharedRows
from hf_structure.modules.structured_lm.tape_attention import TapeLookup


class StackHypotheses(Hypotheses):
    """Hypotheses with their stacks."""

    model: StackLM
    output_class = StackBeamOutput

    def __init__(self, model: StackLM, ids: torch.Tensor, most: int):
        super().__init__(model, ids, most)
        self.is_last = model.is_end(ids)
        self.embedded = model.get_input_embeddings()(ids)
        self.stacks = Stacks.empty(len(ids), ids.shape[1], ids.device)
        self.attachments = torch.zeros_like(ids)  # (rows, seq_len): of the stacks
        # Stored once for all hypotheses that branch from the one that has read the token.
        self.keys = SharedRows(torch.zeros_like(ids), ids.shape[1] * most)  # of the scorer

    @classmethod
    def at_tokens(cls, structures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        order = order.unsqueeze(1).expand_as(structures)  # (B, k, n)
        return torch.zeros_like(structures).scatter(2, order, structures)  # (B, k, n)

    def structures(self) -> torch.Tensor:
        return self.attachments

    def branch(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """A new token is reduced with some constituents, or none."""
        attachments = torch.zeros_like(beam.sentences)
        # The first token has nothing to be reduced with.
        if position:
            log_probs = self.score(position, beam.sentences).log_softmax(-1)
            beam, origins, choices = beam.branch(log_probs, beam_size)
            self.select(origins)
            attachments = position - choices
        self.stacks = self.stacks.push(position, attachments)
        self.attachments[:, position] = attachments
        return beam

    def score(self, position: int, sentences: torch.Tensor) -> torch.Tensor:
        """Logits `(rows, position + 1)` of what the tokens at a position, not read yet, are reduced with."""
        so_far = slice(position + 1)
        candidates = self.stacks.candidates(position, self.is_last[sentences, position])[:, so_far]
        logits = self.model.scorer(
            self.last.unsqueeze(1),
            self.embedded[sentences, position].unsqueeze(1),
            self.keys.tables["keys"][self.keys.indices[:, so_far]],  # (rows, position + 1, attachment_size)
            self.stacks.depths[:, None, so_far],
        )
        return logits.squeeze(1).masked_fill(~candidates, -torch.inf)

    def lookup(self, position: int, sentences: torch.Tensor) -> TapeLookup:
        deepest = self.model.config.max_depth
        depths = self.stacks.depths[:, None, None, : position + 1].clamp(max=deepest)  # (rows, 1, 1, position + 1)
        return TapeLookup.of_some(depths, deepest + 1, self.tables)

    def read(self, position: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        states = super().read(position, sentences)
        keys = self.model.scorer.token_key(self.last)
        self.keys.indices[:, position] = self.keys.new_indices(len(keys))
        self.keys.keep("keys", keys)
        return states

    def select(self, rows: torch.Tensor) -> None:
        super().select(rows)
        self.keys.select(rows)
        self.stacks = self.stacks.select(rows)
        self.attachments = self.attachments.index_select(0, rows)  # (rows, tokens)
