"""
What the classes of a structured language model share. A family has a `<Family>PreTrainedModel`, a `<Family>Model` with
a `backbone` that reads its tapes, and a `<Family>ForCausalLM` with a head and a scorer of structures.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import ModelOutput

from hf_structure.modules.calls import MixinBase
from hf_structure.modules.padding import check_one_input, without_padding
from hf_structure.modules.structured_lm.backbones import positions_for
from hf_structure.modules.structured_lm.beam_search import BEAM_SIZE, beam_search
from hf_structure.modules.structured_lm.grafting import GraftMixin
from hf_structure.modules.structured_lm.hypotheses import Hypotheses

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


class StructuredLMMixin(GraftMixin):
    """
    For a family's causal language model, which names its `hypotheses_class` and the argument of `forward` that gives
    structures, the `structure_input`. Arguments of `forward` that all families share, beside those of
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
    writer_class: ClassVar[Any]
    hypotheses_class: ClassVar[type[Hypotheses]]
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

    def beam_search(
        self,
        input_ids: torch.Tensor,
        word_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        beam_size: int = 1,
        k: int = 1,
        max_tokens: int | None = None,
        watch: Callable | None = None,
    ) -> ModelOutput:
        """
        How probable given sentences are, summed over the structures of a beam, and the best structures.

        With each token or word a structure grows in all possible or in the likeliest ways; the `beam_size` most
        probable structures of each sentence are kept.

        Args:
            input_ids, word_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, seq_len)`): As in `forward`;
                the first token, which belongs to no word, is given. Words are read for structures over words alone.
            beam_size (`int`): Structures kept for each sentence; 1 is greedy.
            k (`int`): How many of them are returned.
            max_tokens (`int`, *optional*): Tokens of all hypotheses that are searched at a time, which bounds the
                memory; a sentence is not split. By default 65536, or fewer for large models, such that keys and values
                take 1 GiB, but at least 16384.
            watch (`Callable`, *optional*): Called before each token but the first with the numbers of the sentences of
                a group, the place of the token, the first sentence of the group that equals each of them up to there,
                the [`~hf_structure.algorithms.beam.Beam`] of the group and its hypotheses.

        Returns:
            [`GraphBeamOutput`] of GiLT, [`StackBeamOutput`] of Pushdown-LM.

        Raises:
            ValueError: a model without layers that read structures; a sentence without tokens or, with structures
                over words, one that begins with a word; `beam_size`, `k` or `max_tokens` below 1.
        """
        check_structure_layers(self.config, f"there are no {self.writer_class.structures} to search for")
        options = {"beam_size": beam_size, "k": k, "max_tokens": max_tokens, "watch": watch}
        return beam_search(self, self.hypotheses_class, input_ids, word_ids, attention_mask, **options)

    def decoding_beam_size(self, decoder: str, k: int, beam_size: int | None) -> int:
        """
        How many structures `decode` follows: 16 by default, or `4 * k` if that is more.

        Raises:
            ValueError: another decoder than `"tree"`, what every model understands; `k` that is not between 1 and
                `beam_size`.
        """
        if decoder != "tree":
            name = type(self).__name__
            raise ValueError(f"{name} finds {self.writer_class.structures} with a beam alone: leave decoder out")
        if beam_size is None:
            beam_size = max(BEAM_SIZE, 4 * k)
        if not 1 <= k <= beam_size:
            raise ValueError(f"k={k} is not possible with beam_size={beam_size}: it must be between 1 and beam_size")
        return beam_size

    def predict_structures(
        self, input_ids: torch.Tensor, word_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The structures of given sentences, built greedily, as `forward` reads them; see [`beam_search`]."""
        return self.beam_search(input_ids, word_ids, attention_mask).to_tuple()[2][:, 0]


def check_structure_layers(config: PreTrainedConfig, consequence: str) -> None:
    """Raises `ValueError` for a model without layers that read structures."""
    if not config.structure_layers:
        name = config.grafted.removesuffix("s")
        raise ValueError(f"this model has no {name} layers (config.{name}_layers): {consequence}")


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
