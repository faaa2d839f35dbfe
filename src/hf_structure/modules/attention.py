"""Implementations of attention that models can be computed with."""

from typing import Any, ClassVar

from hf_structure.modules.calls import MixinBase


class AttentionMixin(MixinBase):
    """For a family's base class, which says in `attention_reads` why other implementations do not compute it."""

    attention_reads: ClassVar[str]

    def get_correct_attn_implementation(self, requested_attention: str | None, is_init_check: bool = False) -> str:
        """As in transformers. Raises `ValueError` for what the model's attention cannot be computed with."""
        checks: Any = super()
        try:
            return checks.get_correct_attn_implementation(requested_attention, is_init_check)
        except ValueError:
            known = "'sdpa' or 'eager'" if self._supports_sdpa else "'eager'"
            raise ValueError(
                f"{type(self).__name__} does not support attn_implementation={requested_attention!r}: its attention "
                f"reads {self.attention_reads}. Leave attn_implementation out, or give {known}"
            ) from None
