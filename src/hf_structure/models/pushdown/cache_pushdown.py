"""The cache of a Pushdown-LM that reads or builds stacks: keys and values, and the stacks so far."""

from typing import Any, Protocol

import torch
from torch import nn

from hf_structure.algorithms.stack import Stacks
from hf_structure.models.pushdown.attachments_pushdown import AttachmentScorer
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.models.pushdown.replay_pushdown import replay_texts
from hf_structure.modules.structured_lm.structure_cache import StructureCache


class StackCache(StructureCache):
    """[`~transformers.DynamicCache`] with the stacks over the tokens in it."""

    _structure = "stack"
    _of_tokens = ("attachments", "is_token", "states", "keys")
    _of_rows = ("stacks",)

    attachments: torch.Tensor  # (batch_size, seq_len)
    is_token: torch.Tensor  # (batch_size, seq_len): 1 for tokens, 0 for padding
    states: torch.Tensor  # (batch_size, seq_len, hidden_size): the last layer's
    keys: torch.Tensor  # (batch_size, seq_len, attachment_size): the scorer's
    stacks: Stacks  # after the last token

    def push(self, attachments: torch.Tensor, is_token: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """
        Takes in the attachments of new tokens, `(batch_size, queries)`.

        Returns:
            Candidates of the new tokens, as from [`replay_texts`], and the tapes before and after each, all of shape
            `(batch_size, queries, tokens)`.
        """
        past = Stacks.empty(len(attachments), 0, attachments.device) if self.stacks is None else self.stacks
        candidates, tapes, self.stacks = replay_texts(attachments, is_token, past)
        first = past.with_room(tapes.shape[2]).depths.unsqueeze(1)
        self.append(attachments=attachments, is_token=is_token)
        # A token is attached before it is read, by the tape of the token before it.
        before = torch.cat([first, tapes[:, :-1]], dim=1)  # (B, Q, tokens)
        return candidates, before, tapes

    def _rebuild(self) -> None:
        nothing = Stacks.empty(len(self.attachments), 0, self.attachments.device)
        self.stacks = replay_texts(self.attachments, self.is_token, nothing)[2]


class StackLM(Protocol):
    """The causal language model, as used by beam search and generation."""

    config: PushdownLMConfig
    scorer: AttachmentScorer

    def get_input_embeddings(self) -> nn.Module: ...

    def is_end(self, input_ids: torch.Tensor) -> torch.Tensor: ...

    def predict_structures(self, input_ids: torch.Tensor, **inputs: Any) -> torch.Tensor: ...

    def score_attachments(self, input_ids: torch.Tensor, cache: StackCache) -> torch.Tensor: ...
