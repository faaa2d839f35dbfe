"""
Base classes of structured language models. A family has a `<Family>PreTrainedModel`, a `<Family>Model` with
a `backbone` that reads its tapes, and a `<Family>ForCausalLM` with a head and a scorer of structures.
Dimensions: B texts, n tokens, k structures of a text.
"""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import ModelOutput

from hf_structure.modules.attention import AttentionMixin
from hf_structure.modules.calls import MixinBase
from hf_structure.modules.padding import check_one_input, mask_padding, ones_mask
from hf_structure.modules.publishing import PublishingMixin
from hf_structure.modules.structured_lm.backbones import new_backbone, positions_for
from hf_structure.modules.structured_lm.beam_search import BeamSearchMixin

Output = TypeVar("Output", bound=ModelOutput)


class StructuredPreTrainedModel(AttentionMixin, PublishingMixin, PreTrainedModel):
    """The base of a family's models: what they can do, and how layers begin that are not the backbone's."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    attention_reads = "structures and positions as a mask of floats"

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


class StructuredModelMixin(MixinBase):
    """
    For a family's model without a head, whose `backbone` has the input embeddings.

    Arguments of `forward` that all families share:
        input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Token ids.
        attention_mask (`torch.Tensor` of shape `(batch_size, past + seq_len)`, *optional*): 1 for tokens, 0 for
            padding. A mask of four dimensions is the backbone's attention; padding is then unknown.
        cache (`Cache`, *optional*): Tokens before these; with structures, the family's cache or an empty one.
        use_cache (`bool`, *optional*): Whether to return a cache; by default if one is given, or in evaluation if
            `config.use_cache`, but without a loss.
        position_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): By default counted without the
            padding. Read by grafted backbones; from scratch, distances are what counts.
        inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*): Embeddings
            instead of `input_ids`.
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.backbone: Any = new_backbone(config)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding):
        self.backbone.set_input_embeddings(value)

    def wants_cache(self, use_cache: bool | None, cache: Cache | None, has_loss: bool = False) -> bool:
        """Returns whether `forward` returns a cache."""
        if use_cache is None:
            return cache is not None or (self.config.use_cache and not self.training and not has_loss)
        return use_cache

    def run_backbone(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """Calls the backbone with the positions that it needs; `kwargs` may have a `tape_lookup`."""
        tokens = check_one_input(input_ids, inputs_embeds)
        kwargs |= positions_for(self.backbone, position_ids, attention_mask, tokens.shape[1])
        texts = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask}
        outputs = self.backbone(**texts, **kwargs)
        outputs.last_hidden_state = outputs.last_hidden_state.to(tokens.device)  # wherever the layers are
        return outputs


class StructuredLMMixin(BeamSearchMixin):
    """
    For a family's causal language model, which names the argument of `forward` that gives structures, the
    `structure_input`. Arguments of `forward` that all families share, besides [`StructuredModelMixin`]'s:
        labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The tokens themselves, -100 where
            they do not count; each is predicted from the one before.
        shift_labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Instead of `labels`: what each
            token is to predict. Passed in `kwargs`, as in transformers, whose `Trainer` expects named parameters of
            this kind in every batch.
        num_items_in_batch (`int`, *optional*): Divisor of the summed losses; by default the labels in this batch.
        logits_to_keep (`int` or `torch.LongTensor`): How many last tokens, or which, get logits; 0 for all.
    """

    model: Any
    lm_head: nn.Linear
    structure_input: ClassVar[str]

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

    def predict_tokens(
        self, kind: type[Output], outputs: Any, logits_to_keep: int | torch.Tensor, **fields: Any
    ) -> Output:
        """An output of a `kind` with the logits of the tokens to keep."""
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        fields = {"hidden_states": outputs.hidden_states, **fields}
        logits = self.lm_head(outputs.last_hidden_state[:, keep])
        return kind(logits=logits, cache=outputs.cache, attentions=outputs.attentions, **fields)

    def events_read(self, tokens: Sequence[str], **reading: torch.Tensor) -> list[str]:
        """The names of the rows of `attentions`, from the tokens of one text and the other inputs."""
        return list(tokens)

    def add_losses(
        self, result: Any, targets: torch.Tensor, num_items_in_batch: torch.Tensor | int | None, **structure: Any
    ) -> None:
        """
        Adds the losses to an output: the summed cross-entropies of tokens and, if given, of structures, divided by the
        number of tokens. The sum of structures is given, and its loss returned, under its name.
        """
        count = label_count(targets, num_items_in_batch)
        result.loss = sum_of_losses(result.logits, targets) / count
        result.lm_loss = result.loss.detach()
        for name, total in structure.items():
            if total is not None:
                loss = total / count
                result.loss = result.loss + loss
                result[name] = loss.detach()

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
        model.lm_head.load_state_dict(cast(Any, source.get_output_embeddings()).state_dict())
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


class TreeLMMixin(StructuredLMMixin):
    """For models whose trees are over the tokens between the first and the one that ends the text."""

    def is_end(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Mask of end-of-text tokens, same shape as the input."""
        token_ids = self.config.eos_token_id
        ends = torch.tensor([] if token_ids is None else token_ids, dtype=torch.long, device=input_ids.device)
        return torch.isin(input_ids, ends.view(-1))  # (number of token_ids,)

    def words_of(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, word_ids: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Padding mask and word of each token, from 1, 0 for none; both `(batch_size, seq_len)`. By default, each token
        between the first and the one that ends the text is a word.
        """
        is_token = (ones_mask(input_ids) if attention_mask is None else attention_mask).bool()
        if word_ids is None:
            is_inner = ~self.is_end(input_ids) & (is_token.cumsum(1) > 1) & is_token
            word_ids = is_inner.cumsum(1) * is_inner
        return is_token, word_ids.clamp(min=0)

    def decode(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        word_ids: torch.Tensor | None = None,
        decoder: str = "tree",
        k: int = 1,
        beam_size: int | None = None,
        marginals: bool = False,
    ) -> Any:
        """
        The likeliest trees of sentences that a beam finds.

        Args:
            input_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, seq_len)`): As in [`beam_search`].
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Word of each token, from 1, and
                0 or less for none; by default all tokens between the first and the one that ends the text are words.
                Constituents that begin or end within a word are left out of trees.
            decoder (`str`): `"tree"`, what every model understands; there is no other.
            k (`int`): Number of trees; 1 for constituency trees.
            beam_size (`int`, *optional*): Trees followed: 16 by default, or `4 * k` if that is more.
            marginals (`bool`): False; arcs and constituents have no probabilities here.

        Returns:
            [`DecoderOutput`] with `spans` or `heads`, `structures` and `log_probs`.

        Raises:
            ValueError: another decoder, `k` or `marginals`; as in [`beam_search`].
        """
        self.check_decoding(decoder, k, marginals)
        beam_size = self.decoding_beam_size(decoder, k, beam_size)
        is_token, word_ids = self.words_of(input_ids, attention_mask, word_ids)
        found = self.beam_search(input_ids, word_ids, attention_mask, beam_size=beam_size, k=k)
        _, _, structures, log_probs = found.to_tuple()
        output = self.to_trees(structures, log_probs, word_ids, is_token)
        output.structures = structures
        return output

    def check_decoding(self, decoder: str, k: int, marginals: bool) -> None:
        """Raises `ValueError` for what [`decode`] cannot give."""
        raise NotImplementedError

    def to_trees(
        self, structures: torch.Tensor, log_probs: torch.Tensor, word_ids: torch.Tensor, is_token: torch.Tensor
    ) -> Any:
        """
        The output of [`decode`], from the `k` best structures of each sentence, `(batch_size, k, ...)`, their
        log-probabilities, and what [`words_of`] gives.
        """
        raise NotImplementedError


def next_tokens(
    labels: torch.Tensor | None, shift_labels: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """
    The target of each token, `(batch_size, seq_len)`, -100 for none: `shift_labels`, or else `labels`, which are the
    tokens themselves; None without either. Padding on the left predicts nothing.
    """
    if shift_labels is None:
        if labels is None:
            return None
        shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]  # (B, n)
    return mask_padding(shift_labels, attention_mask, -100)


def sum_of_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of targets `(batch_size, seq_len)`, -100 where they do not count."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")


def label_count(targets: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
    """The divisor of summed losses: the number given, or else the number of targets; at least 1."""
    count = (targets != -100).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
    return count.to(targets.device).clamp(min=1)
