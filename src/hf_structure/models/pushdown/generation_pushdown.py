"""
Text and tree written together: Pushdown-LM's `generate`.

When a token has been chosen, it is told what it is reduced with; then it is read with the tape after that. The loops,
logits processors, stopping criteria and streamers are those of transformers.
"""

import torch
from transformers import GenerationConfig, GenerationMixin
from transformers.generation import GenerationMode
from transformers.utils import ModelOutput
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.modeling_outputs import StackGenerateOutput
from hf_structure.models.pushdown.cache_pushdown import StackCache
from hf_structure.modules.structured_lm.generation import prepare_generation

_MODES = {GenerationMode.GREEDY_SEARCH: "greedy search", GenerationMode.SAMPLE: "sampling"}


class StackWriter:
    """
    Builds the trees of texts while their tokens are read one by one.

    Args:
        sample (`bool`, *optional*): Whether attachments are sampled, or the likeliest ones; by default as the text.
    """

    def __init__(self, sample: bool | None = None):
        self.sample = sample

    def read(self, model: "StackGenerationMixin", inputs: dict, is_prompt: bool) -> dict:
        """What to call `forward` with for new tokens, those of the prompt or the last."""
        ids, cache = inputs["input_ids"], inputs["cache"]
        if is_prompt:
            found = model.beam_search(ids, attention_mask=inputs.get("attention_mask"))
            return {**inputs, "attachments": found.attachments[:, 0]}
        return {**inputs, "attachments": self.attach(model, ids[:, -1], cache).unsqueeze(1)}

    def attach(self, model: "StackGenerationMixin", tokens: torch.Tensor, cache: StackCache) -> torch.Tensor:
        """Attachments of the tokens `(batch_size,)` that come next."""
        logits = model.score_attachments(tokens, cache)
        chosen = torch.multinomial(logits.softmax(-1), 1).squeeze(1) if self.sample else logits.argmax(-1)
        return logits.shape[1] - 1 - chosen


class StackGenerationMixin(GenerationMixin):
    """`generate` with trees, for [`PushdownLMForCausalLM`]."""

    @deprecate_kwarg("past_key_values", "6.0.0", new_name="cache")
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *args,
        use_stack: bool = False,
        sample_attachments: bool | None = None,
        **kwargs,
    ) -> torch.Tensor | ModelOutput:
        """
        As [`~GenerationMixin.generate`], with or without a tree.

        Args:
            inputs (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The prompts, also as `input_ids`,
                padded on the left. Their first tokens are the roots, as the tokenizer's beginning token.
            generation_config (`GenerationConfig`, *optional*): As in transformers.
            use_stack (`bool`, defaults to `False`): Whether trees are built and read. Without, this is the method of
                transformers and nothing else: the model reads no tape, which from scratch it has not learned.
            sample_attachments (`bool`, *optional*): Whether what each new token is reduced with is sampled, or the
                likeliest; by default as the text. The tree of a prompt is not sampled, but built greedily.
            kwargs: As in transformers.

        Returns:
            As in transformers; with a tree and `return_dict_in_generate=True`, a [`StackGenerateOutput`].

        Raises:
            ValueError: a mode or settings that trees cannot be built with; a prompt that is given by its embeddings.
        """
        if not use_stack:
            return super().generate(inputs, generation_config, *args, **kwargs)
        for name in ("inputs_embeds", "custom_generate", "cache", "attachments"):
            if kwargs.get(name) is not None:
                raise ValueError(f"trees are built over the tokens of whole texts: {name} needs use_stack=False")
        writer = StackWriter(sample_attachments)
        result = super().generate(inputs, generation_config, *args, stack_writer=writer, **kwargs)
        if not isinstance(result, ModelOutput):
            return result
        cache = result.cache  # the last token has not been read
        last = writer.attach(self, result.sequences[:, -1], cache).unsqueeze(1)
        return StackGenerateOutput(**result, attachments=torch.cat([cache.attachments, last], dim=1))

    def prepare_inputs_for_generation(
        self,
        input_ids: torch.Tensor,
        stack_writer: StackWriter | None = None,
        is_first_iteration: bool | None = False,
        inputs_embeds: torch.Tensor | None = None,  # by name: `generate` looks for it
        **kwargs,
    ) -> dict:
        """As in transformers; with a tree, the new tokens are reduced."""
        inputs = super().prepare_inputs_for_generation(
            input_ids, is_first_iteration=is_first_iteration, inputs_embeds=inputs_embeds, **kwargs
        )
        if stack_writer is None:
            return inputs
        is_prompt = not inputs["cache"].holds_structure
        return stack_writer.read(self, inputs, is_prompt)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, generation_mode, *args, **kwargs):
        if (writer := model_kwargs.get("stack_writer")) is not None:
            prepare_generation(generation_config, generation_mode, _MODES, "trees", "use_stack")
            if writer.sample is None:
                writer.sample = generation_config.do_sample
            model_kwargs["cache"] = StackCache()
        return super()._prepare_cache_for_generation(generation_config, model_kwargs, generation_mode, *args, **kwargs)


__all__ = ["StackGenerationMixin"]
