"""
What the classes of a structured language model share. A family has a `<Family>PreTrainedModel`, a `<Family>Model` with
a `backbone` that reads its tapes, and a `<Family>ForCausalLM` with a head and a scorer of structures.
"""

from typing import Any, ClassVar, TypeVar

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import ModelOutput

from hf_structure.modules.calls import MixinBase
from hf_structure.modules.padding import check_one_input, without_padding
from hf_structure.modules.structured_lm.backbones import positions_for
from hf_structure.modules.structured_lm.beam_search import BeamSearchMixin
from hf_structure.modules.structured_lm.grafting import GraftMixin

Output = TypeVar("Output", bound=ModelOutput)


class StructuredPreTrainedMixin:
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
        inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*): Embeddings in
            place of `input_ids`.
    """

    backbone: Any

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding):
        self.backbone.set_input_embeddings(value)

    def wants_cache(self, use_cache: bool | None, cache: Cache | None, has_loss: bool = False) -> bool:
        """Whether `forward` returns a cache."""
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
        length = check_one_input(input_ids, inputs_embeds).shape[1]
        kwargs |= positions_for(self.backbone, position_ids, attention_mask, length)
        return self.backbone(input_ids=input_ids, inputs_embeds=inputs_embeds, attention_mask=attention_mask, **kwargs)


class StructuredLMMixin(GraftMixin, BeamSearchMixin):
    """
    For a family's causal language model, which names the argument of `forward` that gives structures, the
    `structure_input`. Arguments of `forward` that all families share, beside those of
    [`StructuredModelMixin`]:
        labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The tokens themselves, -100 where
            they do not count; each is predicted from the one before.
        shift_labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Instead of `labels`: what each
            token is to predict. Passed in `kwargs`, as in transformers, whose `Trainer` expects named parameters of
            this kind in every batch.
        num_items_in_batch (`int`, *optional*): What sums of losses are divided by; the number of labels in this batch
            by default.
        logits_to_keep (`int` or `torch.LongTensor`): How many last tokens, or which, get logits; 0 for all.
    """

    model: Any
    lm_head: nn.Linear
    structure_input: ClassVar[str]

    def predict_tokens(
        self, kind: type[Output], outputs: Any, logits_to_keep: int | torch.Tensor, **fields: Any
    ) -> Output:
        """An output of a `kind` with the logits of the tokens to keep."""
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        fields = {"hidden_states": outputs.hidden_states, **fields}
        logits = self.lm_head(outputs.last_hidden_state[:, keep])
        return kind(logits=logits, cache=outputs.cache, attentions=outputs.attentions, **fields)

    def add_losses(
        self,
        result: Any,
        targets: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None,
        structure_loss: str,
        structure_sum: torch.Tensor | None,
    ) -> None:
        """
        Adds the losses to an output: the sum of the tokens' cross-entropies and that of structures, if there is one,
        by the number of tokens. The latter is also returned under its name.
        """
        count = label_count(targets, num_items_in_batch)
        result.loss = sum_of_losses(result.logits, targets) / count
        result.lm_loss = result.loss.detach()
        if structure_sum is not None:
            loss = structure_sum / count
            result.loss = result.loss + loss
            result[structure_loss] = loss.detach()


def next_tokens(
    labels: torch.Tensor | None, shift_labels: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """
    What each token is to predict, `(batch_size, seq_len)`, -100 where nothing: `shift_labels`, or else the `labels`,
    which are the tokens themselves; None without either. Padding on the left predicts nothing.
    """
    if shift_labels is None:
        if labels is None:
            return None
        shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
    return without_padding(shift_labels, attention_mask, -100)


def sum_of_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of targets `(batch_size, seq_len)`, -100 where they do not count."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")


def label_count(targets: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
    """What sums of losses are divided by: the number given, or else that of the targets; at least 1."""
    count = (targets != -100).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
    return count.to(targets.device).clamp(min=1)
