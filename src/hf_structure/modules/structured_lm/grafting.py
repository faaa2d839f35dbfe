"""Structures grafted on a pretrained language model of transformers, which stays what it was."""

import copy
from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel

from hf_structure.modules.calls import MixinBase


class GraftMixin(MixinBase):
    """
    For causal language models with a [`~hf_structure.modules.structured_lm.configuration.StructuredLMConfig`], a
    `model.backbone` and an `lm_head`, which are those of the pretrained model.
    """

    def post_init(self):
        """The head shares its weight with the input embeddings, and follows the pretrained one's plan for devices."""
        embeddings = self.model.get_input_embeddings()
        name = next(name for name, module in self.model.named_modules() if module is embeddings)
        self._tied_weights_keys = {"lm_head.weight": f"model.{name}.weight"}
        super().post_init()
        if self.config.base_config is not None:
            base: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(self.config.base_config)]
            for plan in ("_tp_plan", "_pp_plan"):
                getattr(self, plan).update(getattr(base, plan) or {})

    @classmethod
    def from_pretrained_lm(cls, name_or_model: str | PreTrainedModel, **settings) -> PreTrainedModel:
        """
        Grafts structures on a pretrained language model, whose weights are all kept. Without a structure the result is
        that model, and with one it begins as that model.

        Args:
            name_or_model (`str` or `PreTrainedModel`): A causal language model of transformers (Gemma, GPT-2,
                GPT-NeoX, Llama, OPT, Qwen2 or Qwen3), or what [`~AutoModelForCausalLM.from_pretrained`] loads one
                from. A model given is copied.
            settings: Fields of the configuration, such as which layers read structures; all by default.

        Raises:
            ValueError: a family of models that structures cannot be grafted on.
        """
        source: Any = name_or_model
        if not isinstance(source, PreTrainedModel):
            source = AutoModelForCausalLM.from_pretrained(source, trust_remote_code=False)
        config_class: Any = cls.config_class
        config = config_class(base_config=copy.deepcopy(source.config), **settings)
        model: Any = cls(config)
        model = model.to(dtype=source.dtype, device=source.device)
        model.model.backbone.load_state_dict(source.base_model.state_dict())
        head: Any = source.get_output_embeddings()
        model.lm_head.load_state_dict(head.state_dict())
        model.tie_weights()
        model.generation_config = copy.deepcopy(source.generation_config)
        return model.eval()

    def to_base_lm(self) -> PreTrainedModel:
        """
        The language model that was grafted on, with its present weights and without structures. Raises `ValueError`
        for a model from scratch.
        """
        if self.config.base_config is None:
            raise ValueError("this model was trained from scratch: there is no model of transformers to go back to")
        base = AutoModelForCausalLM.from_config(copy.deepcopy(self.config.base_config))
        base = base.to(dtype=self.dtype, device=self.device)
        base.base_model.load_state_dict(self.model.backbone.state_dict())
        base.get_output_embeddings().load_state_dict(self.lm_head.state_dict())
        base.tie_weights()
        base.generation_config = copy.deepcopy(self.generation_config)
        return base.eval()

    def init_continuous_batching(self, *args, **kwargs):
        """As in transformers, for grafted backbones without structures. Raises `ValueError` for others."""
        if self.config.base_config is None:
            raise ValueError("relative positions have no paged attention: use `generate`, not continuous batching")
        generation: Any = super()
        return generation.init_continuous_batching(*args, **kwargs)
