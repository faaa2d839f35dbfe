"""
Text and structure written together: `generate`.

When a token has been chosen, what it adds to the structure is predicted; then it is read with the larger structure.
Loops, logits processors, stopping criteria and streamers are transformers' own, with two hooks for each token:
`prepare_inputs_for_generation` once it is chosen, and `_update_model_kwargs_for_generation` once it is read.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from transformers import GenerationConfig, GenerationMixin
from transformers.cache_utils import Cache
from transformers.generation import GenerationMode
from transformers.generation.utils import GenerateOutput
from transformers.utils import ModelOutput
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.modules.calls import MixinBase
from hf_structure.modules.structured_lm.structure_cache import StructureCache


class StructureWriter:
    """
    Builds the structures of texts while their tokens are read one by one. A subclass names its `structures`, the
    `modes` of generation it supports, its own `options` of `generate`, the argument of `forward` by which structures
    of prompts may be `given`, and `refused` arguments; it extends `of`, `begin` and `mix` if these need more.

    Args:
        sample (`bool`, *optional*): If True, structures are sampled, else the likeliest taken; by default as the text.
    """

    structures: ClassVar[str]
    modes: ClassVar[Mapping[GenerationMode, str]] = {
        GenerationMode.GREEDY_SEARCH: "greedy search",
        GenerationMode.SAMPLE: "sampling",
    }
    options: ClassVar[tuple[str, ...]] = ()
    given: ClassVar[str] = ""
    refused: ClassVar[tuple[str, ...]] = ("inputs_embeds", "custom_generate")

    def __init__(self, sample: bool | None = None):
        self.sample = sample

    @classmethod
    def of(cls, model: Any, sample: bool | None, kwargs: dict[str, Any]) -> "StructureWriter":
        """The writer for a call of `generate`, from its `kwargs` and, by name, the `options`."""
        return cls(sample)

    def cache_for(self, model: Any, cache: Cache | None) -> StructureCache:
        """The cache itself, or a new one."""
        raise NotImplementedError

    def begin(self, config: GenerationConfig, mode: GenerationMode, cache: StructureCache) -> None:
        """
        Called with the final settings of a generation; only the given cache is used from then on. Raises `ValueError`
        if structures cannot be built that way.
        """
        if mode not in self.modes:
            *names, last = dict.fromkeys(self.modes.values())
            raise ValueError(f"{self.structures} are built in {', '.join(names)} and {last}, not in {mode.value}")
        if not config.use_cache:
            raise ValueError(f"{self.structures} are built in the cache: they do not go together with use_cache=False")
        if config.cache_implementation not in (None, "dynamic"):
            raise ValueError(
                f"{self.structures} are built in a cache of their own: "
                f"cache_implementation={config.cache_implementation!r} needs use_structure=False"
            )
        config.cache_implementation = None
        if self.sample is None:
            self.sample = config.do_sample

    def read(self, model: Any, inputs: dict, is_prompt: bool) -> dict:
        """Arguments of `forward` for new tokens: the prompts, or the tokens chosen last."""
        raise NotImplementedError

    def mix(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits `(batch_size, vocab_size)` of texts, from the logits of the cache's rows."""
        return logits

    def finish(self, model: Any, result: GenerateOutput) -> ModelOutput:
        """The output of transformers with the structures. The last token has not been read."""
        raise NotImplementedError


class StructureGenerationMixin(GenerationMixin, MixinBase):
    """`generate` with structures, for causal language models that name their `writer_class`."""

    writer_class: ClassVar[type[StructureWriter]]

    # As transformers does it: tools that were written for earlier releases pass a cache by its old name.
    @deprecate_kwarg("past_key_values", "6.0.0", new_name="cache")
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *args,
        use_structure: bool = False,
        sample_structure: bool | None = None,
        **kwargs,
    ) -> torch.Tensor | ModelOutput:
        """
        As [`~GenerationMixin.generate`]; with structures, an output has these, too.

        Args:
            inputs (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The prompts, also as `input_ids`,
                padded on the left. With structures, they begin with the tokenizer's beginning token, or another root.
            use_structure (`bool`, defaults to `False`): Build and read structures, else generate as transformers does.
            sample_structure (`bool`, *optional*): If True, additions to the structure with each new token or word are
                sampled, else the likeliest are taken; by default as the text, but never in prompts or with beams.
            generation_config, kwargs: As in transformers, and the options of the model's own class.

        Raises:
            ValueError: a mode, settings or prompts that structures cannot be built with; a model with pauses.
        """
        if getattr(self.config, "pause_token_ids", None):
            raise ValueError("a model with pauses (config.pause_token_ids) generates no text: it scores alone")
        kind = self.writer_class
        parent: Any = super()
        options = {name: kwargs.pop(name) for name in kind.options if name in kwargs}
        if not use_structure and kwargs.get(kind.given) is None:
            return parent.generate(inputs, generation_config, *args, **kwargs)
        for name in kind.refused:
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"{kind.structures} are built over the tokens of texts: {name} needs use_structure=False"
                )
        writer = kind.of(self, sample_structure, kwargs, **options)
        result = parent.generate(inputs, generation_config, *args, structure_writer=writer, **kwargs)
        return result if isinstance(result, torch.Tensor) else writer.finish(self, result)

    def prepare_inputs_for_generation(
        self,
        input_ids: torch.Tensor,
        structure_writer: StructureWriter | None = None,
        is_first_iteration: bool | None = False,
        inputs_embeds: torch.Tensor | None = None,  # by name: `generate` looks for it
        **kwargs,
    ) -> dict:
        """As in transformers; with structures, what the new tokens add to them is predicted."""
        parent: Any = super()
        inputs = parent.prepare_inputs_for_generation(
            input_ids, is_first_iteration=is_first_iteration, inputs_embeds=inputs_embeds, **kwargs
        )
        if structure_writer is None:
            return inputs
        return structure_writer.read(self, inputs, is_prompt=bool(is_first_iteration))

    def _update_model_kwargs_for_generation(self, outputs: Any, model_kwargs: dict, *args, **kwargs) -> dict:
        if (writer := model_kwargs.get("structure_writer")) is not None:
            outputs.logits = writer.mix(outputs.logits[:, -1]).unsqueeze(1)  # (B, 1, vocab_size)
        return super()._update_model_kwargs_for_generation(outputs, model_kwargs, *args, **kwargs)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, generation_mode, *args, **kwargs):
        if (writer := model_kwargs.get("structure_writer")) is not None:
            cache = writer.cache_for(self, model_kwargs.get("cache"))
            writer.begin(generation_config, generation_mode, cache)
            model_kwargs["cache"] = cache
        parent: Any = super()
        return parent._prepare_cache_for_generation(generation_config, model_kwargs, generation_mode, *args, **kwargs)
