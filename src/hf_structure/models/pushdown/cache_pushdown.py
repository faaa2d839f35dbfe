"""The cache of a Pushdown-LM that reads or builds stacks: keys and values, and the stacks so far."""

import torch

from hf_structure.algorithms.stack import Stacks, replay_stacks
from hf_structure.modules.structured_lm.structure_cache import StructureCache


class StackCache(StructureCache):
    """
    [`~transformers.DynamicCache`] with the stacks over the tokens in it.

    Attributes:
        attachments, is_token (`torch.LongTensor` of shape `(batch_size, seq_len)`): Attachments of the tokens, and 1
            for tokens, 0 for padding.
        ends, depths: Those of the [`~hf_structure.algorithms.stack.Stacks`].
        states (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): The last layer's.
        keys (`torch.FloatTensor` of shape `(batch_size, seq_len, attachment_size)`): What the scorer makes of them.
    """

    _of_rows = ("attachments", "is_token", "ends", "depths", "states", "keys")
    _structure = "stack"

    @property
    def stacks(self) -> Stacks | None:
        """The stacks after the last token."""
        return None if self.ends is None else Stacks(self.ends, self.depths)

    def push(self, attachments: torch.Tensor, is_token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Takes in the attachments of new tokens, `(batch_size, queries)`.

        Returns:
            Candidates and tapes of the new tokens, as from [`~hf_structure.algorithms.stack.replay_stacks`].
        """
        candidates, tapes, stacks = replay_stacks(attachments, is_token, self.stacks)
        self.ends, self.depths = stacks.ends, stacks.depths
        for name, new in (("attachments", attachments), ("is_token", is_token)):
            self._append(name, new)
        return candidates, tapes

    def keep(self, states: torch.Tensor, keys: torch.Tensor) -> None:
        """Keeps what scores attachments, of the new tokens."""
        self._append("states", states)
        self._append("keys", keys)

    def _append(self, name: str, new: torch.Tensor) -> None:
        kept = getattr(self, name)
        setattr(self, name, new if kept is None else torch.cat([kept, new], dim=1))

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last tokens, given as a negative number, and what they have been reduced with."""
        super().crop(tokens_to_remove)
        if tokens_to_remove == 0 or not self.holds_structure:
            return
        for name in ("attachments", "is_token", "states", "keys"):
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name)[:, :tokens_to_remove])
        stacks = replay_stacks(self.attachments, self.is_token)[2]
        self.ends, self.depths = stacks.ends, stacks.depths


__all__ = ["StackCache"]
