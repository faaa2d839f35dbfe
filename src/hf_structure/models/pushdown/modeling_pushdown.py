"""
Pushdown-LM (Murty et al. 2023, "Pushdown Layers: Encoding Recursive Structure in Transformer Language Models").

A causal language model that builds a binary constituency tree over its tokens, by telling with each token which
constituents it is reduced with, and lets the depths of tokens in that tree bias its attention. The backbone is the
Transformer-XL on which Huang et al. ("GiLT") compare with it, or a pretrained model of transformers on which stacks
are grafted. Equation numbers are the paper's.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.algorithms.attachments import attachments_to_spans, word_spans
from hf_structure.algorithms.stack import replay_stacks
from hf_structure.hub.publishing import PublishingMixin
from hf_structure.modeling_outputs import DecoderOutput, PushdownCausalLMOutput, StackBeamOutput
from hf_structure.models.pushdown.attachments_pushdown import AttachmentScorer
from hf_structure.models.pushdown.beam_search_pushdown import beam_search
from hf_structure.models.pushdown.cache_pushdown import StackCache
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.models.pushdown.generation_pushdown import StackGenerationMixin
from hf_structure.modules.structured_lm.backbones import new_backbone, positions_for
from hf_structure.modules.structured_lm.beam_search import BEAM_SIZE
from hf_structure.modules.structured_lm.causal_lm import label_count, next_tokens, sum_of_losses
from hf_structure.modules.structured_lm.grafting import BackboneMixin, GraftMixin, TapeModelMixin
from hf_structure.modules.padding import check_one_input, without_padding
from hf_structure.modules.structured_lm.tape_attention import TapeKeys, TapeLookup, read_tapes


class DepthKeys(TapeKeys):
    """The keys of depths of one layer: eq. 6, W_key (h_j + d[W_k[j]])."""

    def __init__(self, config: PushdownLMConfig, layer_idx: int):
        super().__init__(layer_idx)
        self.depths = nn.Parameter(torch.empty(config.max_depth + 1, config.hidden_size))  # d

    def forward(self, lookup: TapeLookup) -> torch.Tensor:
        """`(1, values, hidden_size)`: there is one feature, the depth."""
        return self.depths.unsqueeze(0)


class Replay(NamedTuple):
    """
    What the stacks of texts say while their tokens are read.

    Attributes:
        candidates (`torch.BoolTensor` of shape `(batch_size, queries, tokens)`): Where the constituents end that each
            token can be reduced with; itself for none.
        before, tapes (`torch.LongTensor` of that shape): The depths of all tokens before and after it is.
    """

    candidates: torch.Tensor
    before: torch.Tensor
    tapes: torch.Tensor


class PushdownLMPreTrainedModel(PublishingMixin, TapeModelMixin, PreTrainedModel):
    """Base of the Pushdown-LM models."""

    config_class = PushdownLMConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, DepthKeys):  # grafted, a tape says nothing at first
            is_graft = self.config.base_config is not None
            init.normal_(module.depths, std=0.0 if is_graft else math.sqrt(2 / self.config.num_hidden_layers))


class PushdownLMModel(BackboneMixin, PushdownLMPreTrainedModel):
    """The backbone with layers that read a stack tape, without a head on top."""

    def __init__(self, config: PushdownLMConfig):
        super().__init__(config)
        self.backbone = new_backbone(config)
        layers = range(config.num_hidden_layers - config.stack_layers, config.num_hidden_layers)
        self.depth_keys = nn.ModuleList(DepthKeys(config, layer) for layer in layers)
        read_tapes(self.backbone, self.depth_keys)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        attachments: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        replayed: Replay | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Token ids.
            attention_mask (`torch.Tensor` of shape `(batch_size, past + seq_len)`, *optional*):
                1 for tokens, 0 for padding. A mask of four dimensions is the backbone's attention; which tokens are
                padding is then not known.
            attachments (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                How many tokens back the last constituent ends that each token is reduced with; 0 for none (see
                [`~hf_structure.algorithms.attachments`]). A token knows the tree up to its own reductions. Without
                attachments, the model is the backbone.
            cache (`Cache`, *optional*): Tokens before these; with a tree, a [`StackCache`] (or empty).
            use_cache (`bool`, *optional*):
                Whether to return a cache; by default if one is given, or in evaluation if `config.use_cache`.
            position_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                By default counted without the padding. Only grafted backbones read them; from scratch, distances are
                what counts.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Instead of `input_ids`, what the input embeddings make of them.
            replayed ([`Replay`], *optional*): What [`replay`] made of the attachments, where that is done already.

        Raises:
            ValueError: not one of `input_ids` and `inputs_embeds`; attachments in a model without stack layers, of
                another shape than the tokens, or after tokens without; positions with gaps for a backbone that knows
                distances only.
        """
        check_one_input(input_ids, inputs_embeds)
        tokens = input_ids if inputs_embeds is None else inputs_embeds
        use_cache = self.wants_cache(use_cache, cache)
        if attachments is not None:
            if attachments.shape != tokens.shape[:2]:
                raise ValueError(
                    f"attachments of shape {tuple(attachments.shape)} do not fit tokens of shape "
                    f"{tuple(tokens.shape[:2])}"
                )
            if replayed is None:
                replayed, cache = self.replay(attachments, attention_mask, cache, use_cache)
            # Tables are used again only where no gradient is to go through them.
            cached = isinstance(cache, StackCache) and not torch.is_grad_enabled()
            tables = cache.tables if cached else None
            kwargs["tape_lookup"] = TapeLookup(
                replayed.tapes.clamp(max=self.config.max_depth).unsqueeze(1), tables=tables
            )
        kwargs |= positions_for(self.backbone, position_ids, attention_mask, tokens.shape[1])
        return self.backbone(
            input_ids=input_ids,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            cache=cache,
            use_cache=use_cache,
            **kwargs,
        )

    @torch.compiler.disable  # token by token
    def replay(
        self,
        attachments: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool = False,
    ) -> tuple[Replay, Cache | None]:
        """The stacks while tokens of these attachments are read, and the cache that has them; as in `forward`."""
        if not len(self.depth_keys):
            raise ValueError("this model has no stack layers (config.stack_layers): do not give it attachments")
        is_token = without_padding(torch.ones_like(attachments), attention_mask)
        attachments = without_padding(attachments, attention_mask)
        if use_cache or isinstance(cache, StackCache):
            cache = StackCache.of(cache)
            depths = cache.depths
            candidates, tapes = cache.push(attachments, is_token)
        else:
            StackCache.of(cache)  # raises if there are tokens without a stack
            depths, (candidates, tapes, _) = None, replay_stacks(attachments, is_token)
        first = torch.zeros_like(tapes[:, :1])
        if depths is not None:
            first[:, 0, : depths.shape[1]] = depths
        before = torch.cat([first, tapes[:, :-1]], dim=1)
        return Replay(candidates, before, tapes), cache

    def lookup_of_some(self, tapes: torch.Tensor, tables: dict[int, torch.Tensor]) -> TapeLookup:
        """For many tapes `(rows, queries, tokens)` with few depths."""
        depths = tapes.clamp(max=self.config.max_depth).unsqueeze(1)
        return TapeLookup.of_some(depths, self.config.max_depth + 1, tables)


class PushdownLMForCausalLM(GraftMixin, PushdownLMPreTrainedModel, StackGenerationMixin):
    """Pushdown-LM with a language modelling head and a scorer of attachments."""

    def __init__(self, config: PushdownLMConfig):
        super().__init__(config)
        self.model = PushdownLMModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.lm_head_bias)
        self.scorer = AttachmentScorer(config) if config.stack_layers else None
        self._tie_head()
        self.post_init()
        self._follow_base_plans()

    def is_last(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Which tokens end a text, of the same shape."""
        ends = self.config.eos_token_id
        ends = [] if ends is None else [ends] if isinstance(ends, int) else ends
        return torch.isin(input_ids, torch.tensor(ends, dtype=torch.long, device=input_ids.device))

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        attachments: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        position_ids: torch.Tensor | None = None,  # by name: `generate` looks for it
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> PushdownCausalLMOutput:
        """
        Args:
            input_ids, attention_mask, attachments, cache, position_ids, inputs_embeds:
                As in [`PushdownLMModel.forward`].
            use_cache (`bool`, *optional*): As there, but by default there is no new cache beside a loss.
            labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                The tokens themselves, -100 where they do not count; each is predicted from the one before.
            shift_labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Instead of `labels`: what each token is to predict. No parameter by name, as in transformers.
            num_items_in_batch (`int`, *optional*):
                What sums of losses are divided by; the number of labels in this batch by default.
            logits_to_keep (`int` or `torch.LongTensor`):
                How many last tokens, or which, get logits; 0 for all.

        The loss is the sum of the cross-entropies of tokens and, weighted, of their attachments. Without attachments
        it is the language model's alone.

        Raises:
            ValueError: as in [`PushdownLMModel.forward`]; with labels, an attachment to where no constituent ends.
        """
        targets = next_tokens(labels, kwargs.pop("shift_labels", None), attention_mask)
        if use_cache is None and targets is not None:
            use_cache = cache is not None
        use_cache, replayed = self.model.wants_cache(use_cache, cache), None
        if attachments is not None:
            replayed, cache = self.model.replay(attachments, attention_mask, cache, use_cache)
        outputs = self.model(
            input_ids,
            attention_mask=attention_mask,
            attachments=attachments,
            cache=cache,
            use_cache=use_cache,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            replayed=replayed,
            **kwargs,
        )
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        result = PushdownCausalLMOutput(
            logits=self.lm_head(outputs.last_hidden_state[:, keep]),
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        if replayed is not None:
            embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
            states = without_padding(outputs.last_hidden_state, attention_mask)
            self._score(result, states, embedded, replayed, cache, targets is not None)
        if targets is not None:
            self._add_losses(result, targets, attachments, attention_mask, num_items_in_batch)
        return result

    def _score(self, result, states, embedded, replayed: Replay, cache: Cache | None, wants_logits: bool) -> None:
        """Attachments of whole texts that are given; keeps in the cache, if there is one, what scores the next."""
        keys, before = self.scorer.token_key(states), torch.zeros_like(states[:, :1])
        if isinstance(cache, StackCache):
            if cache.states is not None:
                before = cache.states[:, -1:]
            cache.keep(states, keys)
            keys = cache.keys
        if wants_logits:
            before = torch.cat([before, states[:, :-1]], dim=1)
            logits = self.scorer(before, embedded, keys, replayed.before)
            result.attachment_logits = logits.masked_fill(~replayed.candidates, -torch.inf)

    def score_attachments(self, input_ids: torch.Tensor, cache: StackCache) -> torch.Tensor:
        """
        What the next token of each text can be reduced with, before it is read.

        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size,)`): The next tokens.
            cache ([`StackCache`]): All tokens before.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, seq_len + 1)`: logits of the tokens that constituents end with,
                and of no reduction, which is the token itself; `-inf` where there can be none.
        """
        place = cache.keys.shape[1]
        stacks = cache.stacks.with_room(place + 1)
        embedded = self.get_input_embeddings()(input_ids).unsqueeze(1)
        keys = nn.functional.pad(cache.keys, (0, 0, 0, 1))
        logits = self.scorer(cache.states[:, -1:], embedded, keys, stacks.depths.unsqueeze(1)).squeeze(1)
        return logits.masked_fill(~stacks.candidates(place, self.is_last(input_ids)), -torch.inf)

    def _add_losses(self, result, targets, attachments, attention_mask, num_items_in_batch) -> None:
        count = label_count(targets, num_items_in_batch)
        result.loss = sum_of_losses(result.logits, targets) / count
        result.lm_loss = result.loss.detach()
        if result.attachment_logits is not None:
            _, length, tokens = result.attachment_logits.shape
            gold = torch.arange(tokens - length, tokens, device=attachments.device) - attachments
            gold = without_padding(gold, attention_mask, -100)
            check_attachments(result.attachment_logits, gold)
            loss = self.config.attachment_loss_weight * sum_of_losses(result.attachment_logits, gold) / count
            result.loss = result.loss + loss
            result.attachment_loss = loss.detach()

    def beam_search(
        self,
        input_ids: torch.Tensor,
        word_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        beam_size: int = 1,
        k: int = 1,
        max_tokens: int | None = None,
    ) -> StackBeamOutput:
        """
        How probable given sentences are, summed over the trees of a beam, and the best trees (section 3.3).

        With every token a tree is reduced in all possible ways; the `beam_size` most probable trees of each sentence
        are kept.

        Args:
            input_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, seq_len)`):
                As in [`PushdownLMModel.forward`]; the first token, the root, is given, and a token of
                `config.eos_token_id` ends the text.
            word_ids: Nothing is read of it; that models that build structures over words are called alike.
            beam_size (`int`): Trees kept for each sentence; 1 is greedy.
            k (`int`): How many of them are returned.
            max_tokens (`int`, *optional*):
                Bounds the memory: tokens of all hypotheses that are searched at a time. A sentence is not split. By
                default 65536, of large models fewer: 1 GiB of keys and values, but 16384 in any case.

        Returns:
            [`StackBeamOutput`]

        Raises:
            ValueError: a model without stack layers; a sentence without tokens; `beam_size`, `k` or `max_tokens` below
                1.
        """
        return beam_search(self, input_ids, attention_mask, beam_size=beam_size, k=k, max_tokens=max_tokens)

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
    ) -> DecoderOutput:
        """
        The likeliest trees of sentences that a beam finds.

        Args:
            input_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, seq_len)`): As in [`beam_search`].
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Word of each token, from 1, and
                0 or less for those of none. The trees are about words then, and what begins or ends within a word is
                left out; else about the tokens between the first and the one that ends the text.
            decoder (`str`): `"tree"`, what every model understands; there is no other.
            k (`int`): 1.
            beam_size (`int`, *optional*): Trees followed, 16 by default.
            marginals (`bool`): False; arcs have probabilities, constituents have none here.

        Raises:
            ValueError: another decoder, `k` or `marginals`; as in [`beam_search`].
        """
        if decoder != "tree" or k != 1 or marginals:
            raise ValueError("Pushdown-LM gives its best tree alone: leave decoder, k and marginals out")
        found = self.beam_search(input_ids, attention_mask=attention_mask, beam_size=beam_size or BEAM_SIZE)
        is_token = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if word_ids is None:
            inner = ~self.is_last(input_ids) & (is_token.cumsum(1) > 1) & is_token.bool()
            word_ids = inner.cumsum(1) * inner
        trees = []
        for attachments, words, known in zip(found.attachments[:, 0], word_ids, is_token.bool(), strict=True):
            words = words[known].clamp(min=0).tolist()
            spans = {*word_spans(attachments_to_spans(attachments[known].tolist()), words)}
            spans |= {(0, max(words))} if max(words) > 1 else set()
            spans = sorted(spans, key=lambda span: (span[0], -span[1]))
            trees.append(torch.tensor(spans, dtype=torch.long).view(-1, 2))
        spans = nn.utils.rnn.pad_sequence(trees, batch_first=True, padding_value=-1)
        return DecoderOutput(spans=spans, log_probs=found.attachment_log_probs[:, :1])


@torch.compiler.disable  # a question about values
def check_attachments(logits: torch.Tensor, gold: torch.Tensor) -> None:
    """Raises `ValueError` unless constituents end at the places `(batch_size, seq_len)`, -100 for padding."""
    known = gold != -100
    possible = (gold >= 0) & (logits.gather(2, gold.clamp(min=0).unsqueeze(2)).squeeze(2) > -torch.inf)
    if not (possible | ~known).all():
        text, token = (known & ~possible).nonzero()[0].tolist()
        raise ValueError(f"the attachment of token {token} of text {text} is to where no constituent ends")


__all__ = ["PushdownLMForCausalLM", "PushdownLMModel", "PushdownLMPreTrainedModel"]
