"""
Attachments (section 3.2): a distribution over the last tokens of the constituents to reduce the next token with.

A token `k` that has been chosen, but not read yet, is compared with the last layer's states of the tokens before:

    logit(k, j) = u_k . (W_h h_j + d[W_{k-1}[j]] + W_p r_{k-j}) / sqrt(size),    u_k = MLP([h_{k-1}; x_k])

where W_{k-1} is the tape of the token before, d an embedding of depths and r are sinusoids. For `j = k`, no reduction,
another perceptron of the same input replaces the first two terms.

Dimensions: B texts, Q tokens to be scored (queries), tokens all tokens so far.
"""

from typing import cast

import torch
from torch import nn

from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.modules.affine import all_rows
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.structured_lm.transformer_xl import sinusoids


class AttachmentScorer(nn.Module):
    """Logits of attachments."""

    def __init__(self, config: PushdownLMConfig):
        super().__init__()
        self.hidden_size = config.hidden_size
        self.size = cast(int, config.attachment_size)  # set by the configuration
        self.max_depth = config.max_depth
        self.query_mlp, self.shift_mlp = (
            nn.Sequential(
                nn.Linear(2 * self.hidden_size, self.size),
                nn.ReLU(),
                Dropout(config.attachment_dropout),
                nn.Linear(self.size, self.size),
            )
            for _ in range(2)
        )
        self.token_key = nn.Linear(self.hidden_size, self.size, bias=False)  # W_h
        self.distance_key = nn.Linear(self.hidden_size, self.size, bias=False)  # W_p
        self.depths = nn.Embedding(config.max_depth + 1, self.size)  # d

    def forward(
        self, states: torch.Tensor, embedded: torch.Tensor, keys: torch.Tensor, tapes: torch.Tensor
    ) -> torch.Tensor:
        """
        Args:
            states (`torch.FloatTensor` of shape `(batch_size, queries, hidden_size)`): Of the token before each.
            embedded (`torch.FloatTensor` of that shape): Their own input embeddings.
            keys (`torch.FloatTensor` of shape `(batch_size, tokens, attachment_size)`): From `token_key`, of the
                states of all tokens, the last of which are the queries; nothing is read of a query's own.
            tapes (`torch.LongTensor` of shape `(batch_size, queries, tokens)`): The tape of the token before each.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, queries, tokens)`: of no meaning for tokens still to come.
        """
        inputs = torch.cat([states, embedded.to(states.dtype)], dim=-1)  # (B, Q, 2 * hidden_size)
        query = self.query_mlp(inputs)
        shift = self.shift_mlp(inputs)
        token = torch.arange(keys.shape[1], device=keys.device)
        distance = token[-inputs.shape[1] :].unsqueeze(1) - token  # (Q, tokens)
        # All depths are scored once, and looked up for each pair: there are fewer depths than pairs.
        by_depth = query @ all_rows(self.depths, query.device).to(query.dtype).T  # (B, Q, max_depth + 1)
        scores = query @ keys.transpose(1, 2) + by_depth.gather(-1, tapes.clamp(max=self.max_depth))  # (B, Q, tokens)
        scores = torch.where(distance == 0, (query * shift).sum(-1, keepdim=True), scores)
        # So are the distances, whose keys all queries share.
        positions = self.distance_key(sinusoids(token, self.hidden_size).to(query.dtype))
        distance = distance.clamp(min=0).expand_as(tapes)  # (B, Q, tokens)
        scores = scores + (query @ positions.T).gather(-1, distance)  # (B, Q, tokens)
        return scores.float() * self.size**-0.5
