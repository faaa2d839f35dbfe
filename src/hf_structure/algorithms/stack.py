"""
Stacks of constituents that grow token by token, and the tapes read from them (Murty et al. 2023, "Pushdown Layers").

Attachments describe the changes of a stack, see [`~hf_structure.algorithms.attachments`]: a token is pushed, and
reduced with constituents from the top of the stack downwards, up to the one that ends that many tokens before it.
Every reduction increases the *depth* of all tokens of the new constituent by one. The tape of a token is the depth of
all tokens up to it, after it has been reduced.
"""

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Stacks:
    """A batch of stacks over texts of the same number of tokens, padding included."""

    ends: torch.Tensor  # (batch_size, tokens): True where a constituent on the stack ends
    depths: torch.Tensor  # (batch_size, tokens): how often each token has been reduced

    @classmethod
    def empty(cls, batch_size: int, tokens: int, device: torch.device | str | None = None) -> "Stacks":
        """Empty stacks with capacity for a number of tokens."""
        depths = torch.zeros(batch_size, tokens, dtype=torch.long, device=device)
        return cls(torch.zeros_like(depths, dtype=torch.bool), depths)

    def push(self, index: int, attachments: torch.Tensor, is_token: torch.Tensor | None = None) -> "Stacks":
        """
        The stacks after the token at an index. The simple form, for one stack of `(start, end)`:

            start = index
            while attachment and stack and stack[-1].end >= index - attachment:
                start = stack.pop().start
                depths[start : index + 1] += 1
            stack.append((start, index))

        Args:
            index (`int`): Index of the token; all tokens before it have been pushed.
            attachments (`torch.LongTensor` of shape `(batch_size,)`): Tokens back to the end of the last constituent
                that it is reduced with; 0 for none.
            is_token (`torch.BoolTensor` of shape `(batch_size,)`, *optional*): False for padding, which changes
                nothing.
        """
        token = torch.arange(self.ends.shape[1], device=self.ends.device)
        reduces = attachments > 0
        if is_token is not None:
            reduces = reduces & is_token
        below = self.ends & (token < (index - attachments).unsqueeze(1))
        popped = self.ends & ~below & reduces.unsqueeze(1)
        # It begins after the last constituent that stays.
        first = (below * (token + 1)).amax(1, keepdim=True)  # of the new constituent
        earlier = popped & (token < index - 1)
        merges = earlier.cumsum(1) - earlier.long() + 1  # a constituent that starts after a token does not concern it
        inside = (token >= first) & (token <= index) & reduces.unsqueeze(1)
        ends = self.ends & ~popped
        ends[:, index] = True if is_token is None else is_token
        return Stacks(ends, self.depths + merges * inside)

    def candidates(self, index: int, is_last: torch.Tensor) -> torch.Tensor:
        """
        Mask `(batch_size, tokens)` of the candidates that the next token can be reduced with: the last tokens of all
        constituents on the stack but the lowest, which holds the root; or the token itself, for no reduction. The last
        token of a text is reduced with the lowest.

        Args:
            index (`int`): Index of the next token.
            is_last (`torch.BoolTensor` of shape `(batch_size,)`): True if the token ends the text; ignored for a root.
        """
        lowest = self.ends & (self.ends.cumsum(1) == 1)
        is_last = (is_last & lowest.any(1)).unsqueeze(1)
        candidates = torch.where(is_last, lowest, self.ends & ~lowest)
        candidates[:, index] = ~is_last.squeeze(1)
        return candidates

    def select(self, rows: torch.Tensor) -> "Stacks":
        """The stacks of some texts, in this order."""
        return replace(self, ends=self.ends.index_select(0, rows), depths=self.depths.index_select(0, rows))

    def with_room(self, tokens: int) -> "Stacks":
        """The same stacks with capacity for more tokens."""
        missing = (0, tokens - self.ends.shape[1])
        ends = torch.nn.functional.pad(self.ends, missing)
        depths = torch.nn.functional.pad(self.depths, missing)
        return Stacks(ends, depths)


def replay_stacks(
    attachments: torch.Tensor, mask: torch.Tensor | None = None, stacks: Stacks | None = None
) -> tuple[torch.Tensor, torch.Tensor, Stacks]:
    """
    Stacks while texts are read, from the attachments `(batch_size, queries)` of their tokens, a mask of that shape, 1
    for tokens and 0 for padding, and the stacks of the tokens before these.

    Returns:
        The candidates of each token, as from [`Stacks.candidates`] (a token that is reduced with the lowest
        constituent is the last one), and the tape after each token, both `(batch_size, queries, tokens)`; and the
        stacks.
    """
    batch, length = attachments.shape
    if stacks is None:
        stacks = Stacks.empty(batch, 0, attachments.device)
    past = stacks.ends.shape[1]
    stacks = stacks.with_room(past + length)
    mask = torch.ones_like(attachments) if mask is None else mask
    candidates = []
    tapes = []
    for index, (back, is_token) in enumerate(zip(attachments.unbind(1), mask.bool().unbind(1), strict=True), past):
        # The lowest constituent, which holds the root, ends first.
        lowest = stacks.ends.byte().argmax(1)
        candidates.append(stacks.candidates(index, index - back == lowest))
        stacks = stacks.push(index, back, is_token)
        tapes.append(stacks.depths)
    return torch.stack(candidates, dim=1), torch.stack(tapes, dim=1), stacks
