"""Pushdown-LM configuration."""

from dataclasses import replace
from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from hf_structure.abilities import Abilities
from hf_structure.modules.configuration import GraftConfig


@strict
class PushdownLMConfig(GraftConfig):
    r"""
    Configuration of Pushdown-LM (Murty et al. 2023, "Pushdown Layers: Encoding Recursive Structure in Transformer
    Language Models"), on the Transformer-XL that GiLT is compared with it on, or on a pretrained model. The defaults
    are that comparison's sizes, 16 layers.

    Args:
        vocab_size (`int`, defaults to 32768):
            Number of tokens.
        hidden_size (`int`, defaults to 1024):
            Width of the token vectors.
        num_hidden_layers (`int`, defaults to 16):
            Number of layers.
        num_attention_heads (`int`, defaults to 8):
            Number of attention heads.
        intermediate_size (`int`, *optional*, defaults to `4 * hidden_size`):
            Width of the feed-forward layers.
        hidden_dropout (`float`, defaults to 0.0):
            Dropout on embeddings, on the output of attention and in the feed-forward layers.
        attention_dropout (`float`, defaults to 0.0):
            Dropout on attention weights.
        attachment_dropout (`float`, defaults to 0.0):
            Dropout in the perceptrons that score attachments (0.1 in the authors' release).
        layer_norm_eps (`float`, defaults to 1e-5):
            Epsilon of the layer norms.
        base_config (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of a pretrained language model (GPT-2, Llama, Qwen2 or Qwen3) that is the backbone instead;
            it then decides on all of the above but `attachment_dropout`, and follows where they are set later.
        scale_embeddings (`bool`, defaults to `True`):
            Whether the first layer reads the embeddings times the square root of their width, as Transformer-XL does.
            Grafted backbones do as they did.
        lm_head_bias (`bool`, defaults to `False`):
            Whether the language modelling head has a bias.
        stack_layers (`int`, *optional*):
            How many layers, the last ones, read the stack tape; all by default, and with 0 there are no parameters for
            stacks at all: the Transformer-XL baseline.
        max_depth (`int`, defaults to 49):
            Greater depths are read as this one.
        attachment_size (`int`, *optional*, defaults to `2 * hidden_size`):
            Width of what attachments are scored with.
        attachment_loss_weight (`float`, defaults to 1.0):
            Weight of the attachments' loss beside that of the tokens.
        use_cache (`bool`, defaults to `True`):
            Whether a cache is returned in evaluation without labels.

    Example:

    ```python
    >>> from hf_structure import PushdownLMConfig, PushdownLMForCausalLM
    >>> model = PushdownLMForCausalLM(PushdownLMConfig(vocab_size=5000, hidden_size=128, num_hidden_layers=4))
    ```
    """

    model_type = "pushdown"
    grafted: ClassVar[str] = "stacks"
    sub_configs = {"base_config": AutoConfig}
    keys_to_ignore_at_inference = [
        "cache", "hidden_states", "attentions", "attachment_logits", "lm_loss", "attachment_loss",
    ]  # fmt: skip

    vocab_size: int = 32768
    hidden_size: int = 1024
    num_hidden_layers: int = 16
    num_attention_heads: int = 8
    intermediate_size: int | None = None
    hidden_dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    attachment_dropout: float | int = 0.0
    layer_norm_eps: float = 1e-5
    scale_embeddings: bool = True
    lm_head_bias: bool = False
    stack_layers: int | None = None
    max_depth: int = 49
    attachment_size: int | None = None
    attachment_loss_weight: float | int = 1.0
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 1
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 3
    use_cache: bool = True
    base_config: dict | PreTrainedConfig | None = None  # last: what is set after it is set in it, too

    def __post_init__(self, **kwargs):
        self._read_base()
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        if self.stack_layers is None:
            self.stack_layers = self.num_hidden_layers
        if self.attachment_size is None:
            self.attachment_size = 2 * self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def structure_layers(self) -> int:
        """How many layers read structures."""
        return self.stack_layers

    @property
    def abilities(self) -> Abilities:
        """What the models give and read."""
        reading = Abilities(reads="pieces", reads_sentences=True, max_tokens=self.max_tokens)
        if not self.stack_layers:
            return reading
        return replace(
            reading,
            structures=("constituency",),
            decoders=("tree",),
            beam=True,
            incremental=True,
        )

    def validate_sizes(self):
        """Raises `ValueError` where a size makes no model."""
        self._check_sizes("max_depth", "attachment_size")
        if self.attachment_loss_weight < 0:
            raise ValueError(f"attachment_loss_weight must not be negative, but is {self.attachment_loss_weight}")


__all__ = ["PushdownLMConfig"]
