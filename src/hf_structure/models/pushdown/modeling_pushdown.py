"""
Pushdown-LM (Murty et al. 2023, "Pushdown Layers: Encoding Recursive Structure in Transformer Language Models").

A causal language model that builds a binary constituency tree over its tokens, by telling with each token which
constituents it is reduced with, and lets the depths of tokens in that tree bias its attention. The backbone is the
Transformer-XL on which Huang et al. ("GiLT") compare with it, or a pretrained model of transformers on which stacks
are grafted. Equation numbers are the paper's.

Dimensions: B texts, Q new tokens (queries), tokens all tokens so far, n tokens of a whole text, k trees.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.algorithms.attachments import attachments_to_spans, word_spans
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.models.pushdown.attachments_pushdown import AttachmentScorer
from hf_structure.models.pushdown.beam_search_pushdown import StackHypotheses
from hf_structure.models.pushdown.cache_pushdown import StackCache
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.models.pushdown.generation_pushdown import StackWriter
from hf_structure.models.pushdown.outputs_pushdown import PushdownCausalLMOutput
from hf_structure.modules.calls import no_compile
from hf_structure.modules.padding import check_one_input, mask_padding
from hf_structure.modules.structured_lm.generation import StructureGenerationMixin
from hf_structure.modules.structured_lm.modeling import (
    StructuredModelMixin,
    StructuredPreTrainedModel,
    TreeLMMixin,
    next_tokens,
    sum_of_losses,
)
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
    """The stacks of texts while their tokens are read."""

    candidates: torch.Tensor  # (batch_size, queries, tokens): ends of constituents to reduce with; itself for none
    before: torch.Tensor  # (batch_size, queries, tokens): the depths of all tokens before each is read
    lookup: TapeLookup  # those after it is read


class PushdownLMPreTrainedModel(StructuredPreTrainedModel):
    """Base of the Pushdown-LM models."""

    config: PushdownLMConfig
    config_class = PushdownLMConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        # When grafted, the tape begins without effect, so that the result is the pretrained model.
        if isinstance(module, DepthKeys):
            std = math.sqrt(2 / self.config.num_hidden_layers) if self.config.base_config is None else 0.0
            init.normal_(module.depths, std=std)


class PushdownLMModel(StructuredModelMixin, PushdownLMPreTrainedModel):
    """The backbone with layers that read a stack tape, without a head on top."""

    def __init__(self, config: PushdownLMConfig):
        super().__init__(config)
        self.depth_keys = read_tapes(self.backbone, [DepthKeys(config, layer) for layer in config.structure_layers])
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
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Beside the arguments of [`StructuredModelMixin`]; with attachments, a cache is a [`StackCache`] or empty.

        Args:
            attachments (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                How many tokens back the last constituent ends that each token is reduced with; 0 for none (see
                [`~hf_structure.algorithms.attachments`]). A token knows the tree up to its own reductions. Without
                attachments, the model is the backbone.

        Raises:
            ValueError: not one of `input_ids` and `inputs_embeds`; attachments in a model without stack layers, of
                another shape than the tokens, or after tokens without; positions with gaps for a backbone that knows
                distances only.
        """
        tokens = check_one_input(input_ids, inputs_embeds)
        use_cache = self.wants_cache(use_cache, cache)
        if attachments is not None:
            replay, cache = self.replay(tokens, attachments, attention_mask, cache, use_cache)
            kwargs["tape_lookup"] = replay.lookup
        return self.run_backbone(
            input_ids, inputs_embeds, attention_mask, position_ids, cache=cache, use_cache=use_cache, **kwargs
        )

    def replay(
        self,
        tokens: torch.Tensor,
        attachments: torch.Tensor,
        attention_mask: torch.Tensor | None,
        cache: Cache | None,
        use_cache: bool,
    ) -> tuple[Replay, Cache | None]:
        """The stacks while tokens of these attachments are read, and the cache that has them; as in `forward`."""
        self.config.require_structure_layers("do not give it attachments")
        if attachments.shape != tokens.shape[:2]:
            raise ValueError(
                f"attachments of shape {tuple(attachments.shape)} do not fit tokens of shape {tuple(tokens.shape[:2])}"
            )
        is_token = mask_padding(torch.ones_like(attachments), attention_mask)
        attachments = mask_padding(attachments, attention_mask)
        stacks = StackCache.of(cache)  # raises if there are tokens without a stack
        candidates, before, tapes = stacks.push(attachments, is_token)
        index = tapes.clamp(max=self.config.max_depth).unsqueeze(1)  # (B, 1, queries, tokens)
        if use_cache or stacks is cache:
            return Replay(candidates, before, TapeLookup(index, tables=stacks.kept_tables)), stacks
        return Replay(candidates, before, TapeLookup(index)), cache


class PushdownLMForCausalLM(TreeLMMixin, PushdownLMPreTrainedModel, StructureGenerationMixin):
    """
    Pushdown-LM with a language modelling head and a scorer of attachments.

    `generate` with `use_structure=True` writes text and tree together, and gives a [`StackGenerateOutput`]. In a beam
    search every token is reduced in all possible ways (section 3.3); a token of `config.eos_token_id` ends the text.
    """

    hypotheses_class = StackHypotheses
    writer_class = StackWriter
    structure_input = "attachments"

    def __init__(self, config: PushdownLMConfig):
        super().__init__(config)
        self.model = PushdownLMModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.lm_head_bias)
        if config.stack_layers:
            self.scorer = AttachmentScorer(config)
        self.post_init()

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
        Takes the arguments of [`PushdownLMModel.forward`] and [`StructuredLMMixin`].

        The loss is the sum of the cross-entropies of tokens and of their attachments. Without attachments it is the
        language model's alone.

        Raises:
            ValueError: as in [`PushdownLMModel.forward`]; with labels, an attachment to where no constituent ends.
        """
        targets = next_tokens(labels, kwargs.pop("shift_labels", None), attention_mask)
        has_loss = targets is not None
        use_cache = self.model.wants_cache(use_cache, cache, has_loss)
        # The stacks are replayed here and not in the model, because the scorer reads them, too.
        if attachments is not None:
            tokens = check_one_input(input_ids, inputs_embeds)
            replay, cache = self.model.replay(tokens, attachments, attention_mask, cache, use_cache)
            kwargs["tape_lookup"] = replay.lookup
        texts = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "position_ids": position_ids}
        outputs = self.model(**texts, attention_mask=attention_mask, cache=cache, use_cache=use_cache, **kwargs)
        result = self.predict_tokens(PushdownCausalLMOutput, outputs, logits_to_keep)
        if attachments is not None:
            embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
            states = mask_padding(outputs.last_hidden_state, attention_mask)
            self._score(result, states, embedded, replay, cache, has_loss)
        if has_loss:
            attachment_sum = None
            if attachments is not None:
                attachment_sum = self._attachment_loss(result, attachments, attention_mask)
            self.add_losses(result, targets, num_items_in_batch, attachment_loss=attachment_sum)
        return result

    def _score(self, result, states, embedded, replay: Replay, cache: Cache | None, wants_logits: bool) -> None:
        """Attachments of whole texts that are given; keeps in the cache, if there is one, what scores the next."""
        keys = self.scorer.token_key(states)
        before = torch.zeros_like(states[:, :1])
        if isinstance(cache, StackCache):
            if cache.states is not None:
                before = cache.states[:, -1:]
            cache.append(states=states, keys=keys)
            keys = cache.keys
        # Attachments are scored for the loss alone: generation calls `score_attachments`.
        if wants_logits:
            before = torch.cat([before, states[:, :-1]], dim=1)  # (B, queries, hidden_size)
            logits = self.scorer(before, embedded, keys, replay.before)
            result.attachment_logits = logits.masked_fill(~replay.candidates, -torch.inf)

    def score_attachments(self, input_ids: torch.Tensor, cache: StackCache) -> torch.Tensor:
        """
        Scores the attachments of the next token of each text, before it is read.

        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size,)`): The next tokens.
            cache ([`StackCache`]): All tokens before.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, seq_len + 1)`: logits of the tokens that constituents end with,
                and of no reduction, which is the token itself; `-inf` where there can be none.
        """
        position = cache.keys.shape[1]
        stacks = cache.stacks.with_room(position + 1)
        embedded = self.get_input_embeddings()(input_ids).unsqueeze(1)
        # The scorer reads nothing of a token's own key: it can be empty.
        keys = nn.functional.pad(cache.keys, (0, 0, 0, 1))  # (B, seq_len + 1, attachment_size)
        logits = self.scorer(cache.states[:, -1:], embedded, keys, stacks.depths.unsqueeze(1)).squeeze(1)
        return logits.masked_fill(~stacks.candidates(position, self.is_end(input_ids)), -torch.inf)

    def _attachment_loss(self, result, attachments, attention_mask) -> torch.Tensor:
        """The sum of the cross-entropies of attachments."""
        _, length, tokens = result.attachment_logits.shape
        gold = torch.arange(tokens - length, tokens, device=attachments.device) - attachments
        gold = mask_padding(gold, attention_mask, -100)
        check_attachments(result.attachment_logits, gold)
        return sum_of_losses(result.attachment_logits, gold)

    def check_decoding(self, decoder: str, k: int, marginals: bool) -> None:
        if decoder != "tree" or k != 1 or marginals:
            raise ValueError("Pushdown-LM gives its best tree alone: leave decoder, k and marginals out")

    def to_trees(
        self, structures: torch.Tensor, log_probs: torch.Tensor, word_ids: torch.Tensor, is_token: torch.Tensor
    ) -> DecoderOutput:
        trees = []
        for attachments, words, mask in zip(structures[:, 0], word_ids, is_token, strict=True):
            words = words[mask].tolist()
            spans = word_spans(attachments_to_spans(attachments[mask].tolist()), words)
            whole = (0, max(words))
            if max(words) > 1 and whole not in spans:
                spans.insert(0, whole)
            trees.append(torch.tensor(spans, dtype=torch.long, device=log_probs.device).view(-1, 2))  # (num_spans, 2)
        spans = nn.utils.rnn.pad_sequence(trees, batch_first=True, padding_value=-1)
        return DecoderOutput(spans=spans, log_probs=log_probs)


@no_compile  # a question about values
def check_attachments(logits: torch.Tensor, gold: torch.Tensor) -> None:
    """Raises `ValueError` unless constituents end at the positions `(batch_size, seq_len)`, -100 for padding."""
    is_token = gold != -100
    scores = logits.gather(2, gold.clamp(min=0).unsqueeze(2)).squeeze(2)  # (B, n)
    possible = (gold >= 0) & (scores > -torch.inf)
    if not (possible | ~is_token).all():
        text, token = (is_token & ~possible).nonzero()[0].tolist()
        raise ValueError(f"the attachment of token {token} of text {text} is to where no constituent ends")
