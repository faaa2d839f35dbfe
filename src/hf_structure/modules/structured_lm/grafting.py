"""
Causal language models whose backbone reads structures: what their classes share, and structures grafted on a
pretrained model of transformers, which stays what it was.
"""

import copy

import torch
from torch import nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache


class TapeModelMixin:
    """For the base of a family's models: what they can do, and how layers begin that are not the backbone's."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True  # tapes are a float mask: neither flash nor flex attention takes it

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight)


class BackboneMixin:
    """For a family's model without a head, whose `backbone` has the input embeddings."""

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding):
        self.backbone.set_input_embeddings(value)

    def wants_cache(self, use_cache: bool | None, cache: Cache | None) -> bool:
        """Whether a cache is returned: as is said, or if one is given, or in evaluation if `config.use_cache`."""
        if use_cache is None:
            return cache is not None or (self.config.use_cache and not self.training)
        return use_cache


class GraftMixin:
    """
    For causal language models with a [`~hf_structure.modules.configuration.GraftConfig`], a `model.backbone` and an
    `lm_head`, which are those of the pretrained model.
    """

    def _follow_base_plans(self) -> None:
        """Called last in `__init__`: what the head of the pretrained model says of several devices."""
        if self.config.base_config is not None:
            base = MODEL_FOR_CAUSAL_LM_MAPPING[type(self.config.base_config)]
            self._tp_plan.update(base._tp_plan or {})
            self._pp_plan.update(base._pp_plan or {})

    def _tie_head(self) -> None:
        """Called before `post_init`: the head shares its weight with the input embeddings, wherever these are."""
        embeddings = self.model.get_input_embeddings()
        name = next(name for name, module in self.model.named_modules() if module is embeddings)
        self._tied_weights_keys = {"lm_head.weight": f"model.{name}.weight"}

    @classmethod
    def from_pretrained_lm(cls, name_or_model: str | PreTrainedModel, **settings) -> PreTrainedModel:
        """
        Grafts structures on a pretrained language model, whose weights are all kept. Without a structure the result is
        that model, and with one it begins as that model.

        Args:
            name_or_model (`str` or `PreTrainedModel`): A causal language model of transformers (GPT-2, Llama, Qwen2 or
                Qwen3), or what [`~AutoModelForCausalLM.from_pretrained`] loads one from. A model given is copied.
            settings: Fields of the configuration, such as how many layers, the last ones, read structures; all by
                default.

        Raises:
            ValueError: a family of models that structures cannot be grafted on.
        """
        source = name_or_model
        if not isinstance(source, PreTrainedModel):
            source = AutoModelForCausalLM.from_pretrained(source, trust_remote_code=False)
        config = cls.config_class(base_config=copy.deepcopy(source.config), **settings)
        model = cls(config).to(dtype=source.dtype, device=source.device)
        model.model.backbone.load_state_dict(source.base_model.state_dict())
        model.lm_head.load_state_dict(source.get_output_embeddings().state_dict())
        model.tie_weights()
        model.generation_config = copy.deepcopy(source.generation_config)
        return model.eval()

    def to_base_lm(self) -> PreTrainedModel:
        """
        The language model that was grafted on, with its weights as they are now and without structures.

        Raises:
            ValueError: if this model is none of a graft.
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

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear):
        self.lm_head = new_embeddings

    def init_continuous_batching(self, *args, **kwargs):
        """
        As in transformers, for grafted backbones and without structures.

        Raises:
            ValueError: a backbone from scratch.
        """
        if self.config.base_config is None:
            raise ValueError("relative positions have no paged attention: use `generate`, not continuous batching")
        return super().init_continuous_batching(*args, **kwargs)


__all__ = ["BackboneMixin", "GraftMixin", "TapeModelMixin"]
