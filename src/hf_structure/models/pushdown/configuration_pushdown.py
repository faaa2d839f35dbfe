"""Pushdown-LM configuration."""

from dataclasses import replace
from typing import ClassVar

from huggingface_hub.dataclasses import strict

from hf_structure.models.abilities import Abilities
from hf_structure.modules.structured_lm.configuration import StructuredLMConfig


@strict
class PushdownLMConfig(StructuredLMConfig):
    r"""
    Configuration of Pushdown-LM (Murty et al. 2023, "Pushdown Layers: Encoding Recursive Structure in Transformer
    Language Models"), on the Transformer-XL that GiLT is compared with it on, or on a pretrained model. The defaults
    are that comparison's sizes, 16 layers.

    Args:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_dropout,
        attention_dropout, layer_norm_eps, base_config, scale_embeddings, lm_head_bias, use_cache:
            As in [`~hf_structure.modules.structured_lm.configuration.StructuredLMConfig`].
        attachment_dropout (`float`, defaults to 0.0):
            Dropout in the perceptrons that score attachments; 0.1 in the authors' release.
        stack_layers (`int` or `list[int]`, *optional*):
            How many layers, the last ones, read the stack tape, or which, counted from 0; all by default, as in the
            paper. Grafts may leave out lower layers; with 0 there are no parameters for stacks at all: the
            Transformer-XL baseline.
        max_depth (`int`, defaults to 49):
            Greater depths are read as this one; the authors' release has as many.
        attachment_size (`int`, *optional*, defaults to `2 * hidden_size`):
            Width of the vectors that attachments are scored with; chosen for models of equal size when GiLT is
            compared with them.

    Example:

    ```python
    >>> from hf_structure import PushdownLMConfig, PushdownLMForCausalLM
    >>> model = PushdownLMForCausalLM(PushdownLMConfig(vocab_size=5000, hidden_size=128, num_hidden_layers=4))
    ```
    """

    model_type = "pushdown"
    grafted: ClassVar[str] = "stacks"
    keys_to_ignore_at_inference = [
        "cache", "hidden_states", "attentions", "attachment_logits", "lm_loss", "attachment_loss",
    ]  # fmt: skip

    attachment_dropout: float | int = 0.0
    stack_layers: int | list[int] | None = None
    max_depth: int = 49
    attachment_size: int | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.stack_layers is None:
            self.stack_layers = self.num_hidden_layers
        if self.attachment_size is None:
            self.attachment_size = 2 * self.hidden_size

    @property
    def abilities(self) -> Abilities:
        """The structures, inputs and options of the models."""
        reading = Abilities(reads="pieces", reads_sentences=True, max_tokens=self.max_tokens)
        if not self.stack_layers:
            return reading
        return replace(reading, structures=("constituency",), decoders=("tree",), beam=True, incremental=True)

    def validate_sizes(self):
        """Raises `ValueError` where a size makes no model."""
        self._check_sizes("max_depth", "attachment_size")
