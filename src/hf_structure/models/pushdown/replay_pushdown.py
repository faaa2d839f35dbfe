"""
The stacks of whole texts, all tokens at once.

The simple form is [`~hf_structure.algorithms.stack.replay_stacks`], which pushes token by token. No loop is needed
because attachments alone tell what is on a stack: token `k` reaches down to token `k - attachment[k]`, and a
constituent stays on the stack until its end is within the reach of a later token.

Dimensions: B texts, Q new tokens (queries), tokens all tokens so far.
"""

import torch
from torch import nn

from hf_structure.algorithms.stack import Stacks


def replay_texts(
    attachments: torch.Tensor, is_token: torch.Tensor, stacks: Stacks
) -> tuple[torch.Tensor, torch.Tensor, Stacks]:
    """
    Replays the attachments `(batch_size, queries)` of new tokens, with a mask of that shape, 1 for tokens and 0 for
    padding, after the tokens in `stacks`.

    Returns:
        As from [`~hf_structure.algorithms.stack.replay_stacks`]: candidates and tapes, both `(batch_size, queries,
        tokens)`, and the stacks after the last token.
    """
    stacks = stacks.with_room(stacks.ends.shape[1] + attachments.shape[1])
    queries = attachments.shape[1]
    token = torch.arange(stacks.ends.shape[1], device=attachments.device)  # (tokens,)
    index = token[-queries:].unsqueeze(1)  # (Q, 1)
    reach = index - attachments.unsqueeze(2)  # (B, Q, 1)
    reduces = ((attachments > 0) & is_token.bool()).unsqueeze(2)  # (B, Q, 1)
    pops = reduces & (token >= reach) & (token < index)  # (B, Q, tokens): if it is on the stack
    # Every token is pushed, and stays until the first token that pops it.
    is_pushed = stacks.ends | nn.functional.pad(is_token.bool(), (len(token) - queries, 0))  # (B, tokens)
    is_gone = (pops.cumsum(1) - pops.long()) > 0  # (B, Q, tokens): before the query
    ends = is_pushed.unsqueeze(1) & (token < index) & ~is_gone  # (B, Q, tokens): before the query

    lowest = ends & (ends.cumsum(2) == 1)
    is_last = (lowest & (token == reach)).any(2, keepdim=True)  # only the last token is reduced with the lowest
    candidates = torch.where(is_last, lowest, ends & ~lowest) | ((token == index) & ~is_last)  # (B, Q, tokens)

    below = ends & (token < reach)
    first = (below * (token + 1)).amax(2, keepdim=True)  # (B, Q, 1): the first token of the new constituent
    # Each constituent popped merges all tokens after it once more; the topmost one, which ends before the query, is
    # merged with the query itself.
    earlier = ends & pops & (token < index - 1)
    merges = earlier.cumsum(2) - earlier.long() + 1  # (B, Q, tokens)
    is_inside = reduces & (token >= first) & (token <= index)
    tapes = stacks.depths.unsqueeze(1) + (merges * is_inside).cumsum(1)  # (B, Q, tokens)
    return candidates, tapes, Stacks(is_pushed & ~pops.any(1), tapes[:, -1])
