"""
Transformer grammars: language models that write the actions of a tree between their tokens, and attend along the tree.

PLM and PLM-Mask (Qian et al. 2021, "Structural Guidance for Transformer Language Models"), Transformer Grammars
(Sartran et al. 2022) and Dependency Transformer Grammars (Zhao et al. 2024), on the Transformer-XL on which Huang et
al. ("GiLT") compare them; PLM, whose attention is nothing but causal, also on a pretrained model. A token or an action
is predicted by one distribution over all that may come next:

    p(x, y) = prod_t p(a_t | a_<t),    p(a | a_<t) = exp(h . w_a) / sum of exp(h . w_b) over all b that are legal   (1)

where h is the last state, and what it has seen is decided by the [`Machine`].

Dimensions: B texts, tokens or seq_len tokens, length events (tokens, actions and copies), actions before a token
(the most of any), words (num_spans constituents) of a tree.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.models.transformer_grammar.actions_transformer_grammar import (
    actions_to_heads,
    before_words,
    decoded_spans,
)
from hf_structure.models.transformer_grammar.beam_search_transformer_grammar import GrammarHypotheses
from hf_structure.models.transformer_grammar.cache_transformer_grammar import GrammarCache
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import TransformerGrammarConfig
from hf_structure.models.transformer_grammar.generation_transformer_grammar import GrammarWriter
from hf_structure.models.transformer_grammar.machine_transformer_grammar import (
    BEGINS,
    ENDS,
    FIRST_ACTION,
    GOES_ON,
    NOTHING,
    TOKEN_KINDS,
    Machine,
    Replay,
    is_join,
    scores_at,
)
from hf_structure.models.transformer_grammar.outputs_transformer_grammar import TransformerGrammarCausalLMOutput
from hf_structure.modules.affine import all_rows
from hf_structure.modules.calls import no_compile
from hf_structure.modules.padding import check_one_input, ones_mask
from hf_structure.modules.structured_lm.generation import StructureGenerationMixin
from hf_structure.modules.structured_lm.modeling import (
    StructuredModelMixin,
    StructuredPreTrainedModel,
    TreeLMMixin,
    next_tokens,
)


class Reading(NamedTuple):
    """The result of reading texts with their actions."""

    replay: Replay  # the events, and what the machines say of them
    outputs: BaseModelOutputWithPast  # the backbone's, for each event
    states: torch.Tensor  # (batch_size, length, hidden_size): the last of them

    @property
    def next_indices(self) -> torch.Tensor:
        """`(batch_size, tokens, actions + 1)`: the event before each action, and before the next token."""
        return self.replay.starts[:, 1:] - 1


def rows_at(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """`(batch_size, number, size)`: rows of values `(batch_size, length, size)`; the first where an index is -1."""
    # Padding on the left comes after no event, and has index -1.
    indices = indices.clamp(min=0).unsqueeze(2).expand(-1, -1, values.shape[2])  # (B, number, size)
    return values.gather(1, indices)  # (B, number, size)


class TransformerGrammarPreTrainedModel(StructuredPreTrainedModel):
    """Base of the transformer grammars."""

    config: TransformerGrammarConfig
    config_class = TransformerGrammarConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        # Actions compete with tokens in one distribution, and begin as tokens do.
        if isinstance(module, nn.Embedding):
            bound = math.sqrt(3 / self.config.hidden_size)
            init.uniform_(module.weight, -bound, bound)


class TransformerGrammarModel(StructuredModelMixin, TransformerGrammarPreTrainedModel):
    """The backbone and the embeddings of actions, without a head on top."""

    def __init__(self, config: TransformerGrammarConfig):
        super().__init__(config)
        self.action_embeddings = nn.Embedding(len(config.action_names), config.hidden_size)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        actions: torch.Tensor | None = None,
        replay: Mapping[str, torch.Tensor] | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Beside the arguments of [`StructuredModelMixin`]; with actions, a cache is a [`GrammarCache`] or empty, and a
        mask has two dimensions.

        Args:
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Word of each token, from 1; 0 for tokens of no word. By default each token is a word.
            actions (`torch.LongTensor` of shape `(batch_size, seq_len, actions)`, *optional*):
                Actions before each token: numbers of `config.action_names`, filled with -1 on the right. Without
                actions, the model is the backbone.
            replay (`Mapping[str, torch.Tensor]`, *optional*):
                The [`Replay`] of these actions, computed in advance (`Replay.inputs`); the collator of training adds
                it to batches. By default, and always with a cache, events are replayed here one by one.

        The last state of a token is taken after the last action before the next token. Hidden states and attentions
        cover all events, with actions and copies (see [`Machine`]).

        Raises:
            ValueError: not one of `input_ids` and `inputs_embeds`; actions that do not exist or do not fit the tokens,
                with a mask of four dimensions, or after tokens without; positions with gaps.
        """
        check_one_input(input_ids, inputs_embeds)
        use_cache = self.wants_cache(use_cache, cache)
        if actions is None:
            return self.run_backbone(
                input_ids, inputs_embeds, attention_mask, position_ids, cache=cache, use_cache=use_cache, **kwargs
            )
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        reading = self.read(embedded, attention_mask, word_ids, actions, cache, use_cache, replay, **kwargs)
        outputs = reading.outputs
        outputs.last_hidden_state = rows_at(reading.states, reading.next_indices[..., -1])
        return outputs

    def read(
        self,
        embedded: torch.Tensor,
        attention_mask: torch.Tensor | None,
        word_ids: torch.Tensor | None,
        actions: torch.Tensor,
        cache: Cache | None,
        use_cache: bool,
        replay: Mapping[str, torch.Tensor] | None = None,
        **kwargs,
    ) -> Reading:
        """Reads tokens and actions, given the embeddings of the tokens; as in `forward`."""
        memory = GrammarCache.of(cache)
        time = 0 if memory.machine is None else memory.machine.time.unsqueeze(1)
        kept = memory if use_cache or memory is cache else None
        # A cache needs the machines themselves, to go on from them.
        replayed = replay if kept is None else None
        found = self.replay(embedded, attention_mask, word_ids, actions, memory, replayed)
        tokens, heads = (rows_at(memory.embedded, indices) for indices in (found.tokens, found.heads))
        outputs = self.backbone(
            inputs_embeds=self.embed_events(found.actions, tokens, heads),
            cache=kept,
            use_cache=use_cache,
            **self.what_is_seen(found.visible, found.positions, time + (found.events != NOTHING).cumsum(1) - 1),
            **kwargs,
        )
        # The layers may be on several devices, and the last not where the embeddings are.
        reading = Reading(found, outputs, outputs.last_hidden_state.to(embedded.device))
        if outputs.cache is not None:
            end = found.starts[:, -1, -1:]  # (B, 1)
            last = rows_at(reading.states, end - 1).squeeze(1)
            # Texts that have read nothing in this step keep their last state.
            has_read = (end > 0) | (memory.last is None)
            before = last if memory.last is None else memory.last
            memory.last = torch.where(has_read, last, before)  # (B, hidden_size)
        return reading

    @no_compile  # a question about values
    def what_is_seen(
        self, visible: torch.Tensor, positions: torch.Tensor, times: torch.Tensor, is_search: bool = False
    ) -> dict[str, Any]:
        """
        Arguments of the backbone (or in a search of its layers, which get no mask from scratch) for the keys that are
        seen and their positions, as in [`Replay`]; `times` `(batch_size, length)` number the events from 0. Raises
        `ValueError` for more tokens and actions than a pretrained backbone has positions for.
        """
        if self.config.base_config is None:
            seen, mask = (visible, None) if is_search else (None, visible)
            return {"attention_mask": mask, "position_scores": scores_at(positions, self.config, seen)}
        most = self.config.max_position_embeddings
        # There are at least as many columns as events: the host waits for the numbers only if they may be too many.
        if visible.shape[-1] > most and int(times.max()) >= most:
            raise ValueError(f"a text of {int(times.max()) + 1} tokens and actions: this model has {most} positions")
        mask = torch.zeros_like(visible, dtype=self.dtype).masked_fill(~visible, torch.finfo(self.dtype).min)
        return {"attention_mask": mask, "position_ids": times.clamp(min=0)}

    def act(self, actions: torch.Tensor, cache: GrammarCache) -> None:
        """Reads an action `(batch_size,)` of each text, or none (-1), before the next token is chosen."""
        nothing = torch.zeros_like(cache.embedded[:, -1:])
        word_ids = cache.word_ids[:, -1:].masked_fill(actions.unsqueeze(1) >= 0, 0)
        self.read(nothing, torch.zeros_like(word_ids), word_ids, actions[:, None, None], cache, use_cache=True)

    def replay(
        self,
        embedded: torch.Tensor,
        attention_mask: torch.Tensor | None,
        word_ids: torch.Tensor | None,
        actions: torch.Tensor,
        memory: GrammarCache,
        replayed: Mapping[str, Any] | None = None,
    ) -> Replay:
        """
        The events of tokens and actions with the machines' view of them, `replayed` in advance or here; adds the
        tokens to the cache.
        """
        batch, length = embedded.shape[:2]
        if actions.dim() != 3 or actions.shape[:2] != (batch, length):
            raise ValueError(f"actions of shape {tuple(actions.shape)} do not fit {batch} texts of {length} tokens")
        if attention_mask is not None and attention_mask.dim() == 4:
            raise ValueError("with actions, a mask has two dimensions: the tree decides on what is seen")
        past = 0 if memory.embedded is None else memory.embedded.shape[1]
        if word_ids is None:
            word_ids = 0 * ones_mask(embedded)
        memory.append(embedded=embedded, word_ids=word_ids)
        if replayed is not None:
            starts = (batch, length + 1, actions.shape[2] + 1)
            if replayed["starts"].shape != starts:
                found = tuple(replayed["starts"].shape)
                raise ValueError(f"the replay does not fit the actions: its starts have shape {found}, not {starts}")
            return Replay(**replayed)
        return self._run_machine(actions, attention_mask, memory, past)

    @no_compile  # event by event
    def _run_machine(
        self, actions: torch.Tensor, attention_mask: torch.Tensor | None, memory: GrammarCache, past: int
    ) -> Replay:
        machine = memory.machine
        if machine is None:
            machine = Machine.empty(self.config, len(actions), actions.device)
        replay = Replay.of_texts(actions, memory.word_ids, attention_mask, machine, past)
        memory.machine = replay.machine
        return replay

    def embed_events(self, actions: torch.Tensor, tokens: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """
        `(..., hidden_size)`: the embeddings of events, which are actions, or tokens where these are -1. Arcs also add
        the embedding of their head's last token, as in DTG.
        """
        of_actions = self.action_embeddings(actions.clamp(min=0)).to(tokens.dtype)
        if self.config.composition == "compose" and self.config.formalism == "dependency":
            of_actions = of_actions + heads
        return torch.where((actions >= 0).unsqueeze(-1), of_actions, tokens)


class Predictions(NamedTuple):
    """Predictions of the next event."""

    tokens: torch.Tensor  # (..., vocab_size): logits of tokens, very small where one cannot come
    kinds: torch.Tensor  # (..., 1 + actions): logits of whether a token comes, or which action; -inf if it cannot


class TransformerGrammarForCausalLM(TreeLMMixin, TransformerGrammarPreTrainedModel, StructureGenerationMixin):
    """A transformer grammar with a head for tokens and actions. A token of `config.eos_token_id` ends the text."""

    hypotheses_class = GrammarHypotheses
    writer_class = GrammarWriter
    structure_input = "actions"

    def __init__(self, config: TransformerGrammarConfig):
        super().__init__(config)
        self.model = TransformerGrammarModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.lm_head_bias)
        self.post_init()

    def predict(self, states: torch.Tensor, legal: torch.Tensor, logits: torch.Tensor | None = None) -> Predictions:
        """
        Predicts the next event: eq. 1, factored into the kind of event and the choice of token.

        Args:
            states (`torch.FloatTensor` of shape `(..., hidden_size)`): The last states.
            legal (`torch.BoolTensor` of shape `(..., TOKEN_KINDS + actions)`): As from [`Machine.legal`].
            logits (`torch.FloatTensor` of shape `(..., vocab_size)`, *optional*): The head's output for the states.
        """
        scores = self.lm_head(states) if logits is None else logits
        scores = scores.float()
        of_tokens, of_actions = legal.tensor_split([TOKEN_KINDS], dim=-1)
        tokens = torch.where(self.may_come(of_tokens), scores, torch.finfo(scores.dtype).min)
        actions = states @ all_rows(self.model.action_embeddings, states.device).to(states.dtype).T  # (..., actions)
        kinds = torch.cat([tokens.logsumexp(-1, keepdim=True), actions.float()], dim=-1)  # (..., 1 + actions)
        may_come = torch.cat([of_tokens.any(-1, keepdim=True), of_actions], dim=-1)  # (..., 1 + actions)
        return Predictions(tokens, kinds.masked_fill(~may_come, -torch.inf))

    def may_come(self, of_kinds: torch.Tensor) -> torch.Tensor:
        """Returns a mask of the tokens that can come next, `(..., vocab_size)`; `of_kinds` is one of their kinds."""
        device = of_kinds.device
        # Rows of one of eight patterns are copied as a whole, faster than single elements are looked up.
        bits = 2 ** torch.arange(TOKEN_KINDS, device=device)  # (kinds,)
        patterns = (torch.arange(2**TOKEN_KINDS, device=device).unsqueeze(1) & bits) > 0  # (patterns, kinds)
        kinds = self.token_kinds(torch.arange(self.config.vocab_size, device=device))  # (vocab_size,)
        return patterns[:, kinds][(of_kinds * bits).sum(-1)]

    def token_kinds(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Kinds of tokens, as the machine numbers them, of the same shape."""
        inner = torch.tensor(self.config.inner_pieces or [], dtype=torch.long, device=input_ids.device)
        kinds = torch.where(torch.isin(input_ids, inner), GOES_ON, BEGINS)
        return kinds.masked_fill(self.is_end(input_ids), ENDS)

    def log_probs_next(self, states: torch.Tensor, legal: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probabilities `(rows, 1 + actions)` of tokens `(rows,)` and of each action; `-inf` if it cannot come."""
        predicted = self.predict(states, legal)
        chosen = predicted.tokens.gather(1, tokens.unsqueeze(1))  # (rows, 1)
        scores = torch.cat([chosen, predicted.kinds[:, 1:]], dim=1)
        return scores - predicted.kinds.logsumexp(1, keepdim=True)  # (rows, 1 + actions)

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        actions: torch.Tensor | None = None,
        replay: Mapping[str, torch.Tensor] | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        position_ids: torch.Tensor | None = None,  # by name: `generate` looks for it
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> TransformerGrammarCausalLMOutput:
        """
        Takes the arguments of [`TransformerGrammarModel.forward`] and [`StructuredLMMixin`], `logits_to_keep` only
        without actions. If labels are -100, neither tokens nor the actions before them count. Losses are divided by
        the number of tokens, not of actions: they are minus the log-probability of text and trees, by the tokens.

        Raises:
            ValueError: as in [`TransformerGrammarModel.forward`]; with labels, actions or a token that cannot come.
        """
        targets = next_tokens(labels, kwargs.pop("shift_labels", None), attention_mask)
        has_loss = targets is not None
        use_cache = self.model.wants_cache(use_cache, cache, has_loss)
        common = {"attention_mask": attention_mask, "word_ids": word_ids, "cache": cache, "use_cache": use_cache}
        if actions is None:
            tokens = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "position_ids": position_ids}
            outputs = self.model(**tokens, **common, **kwargs)
            result = self.predict_tokens(TransformerGrammarCausalLMOutput, outputs, logits_to_keep)
            action_sum = None
        else:
            check_one_input(input_ids, inputs_embeds)
            embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
            reading = self.model.read(embedded, actions=actions, replay=replay, **common, **kwargs)
            result, action_sum = self._predict_events(reading, actions, targets)
        if has_loss:
            self.add_losses(result, targets, num_items_in_batch, action_loss=action_sum)
        return result

    def _predict_events(
        self, reading: Reading, actions: torch.Tensor, targets: torch.Tensor | None
    ) -> tuple[TransformerGrammarCausalLMOutput, torch.Tensor | None]:
        """The logits of the tokens, and with targets the sum of the cross-entropies of what kind of event comes."""
        outputs = reading.outputs
        indices = reading.next_indices
        last_states = rows_at(reading.states, indices[..., -1])
        # Tokens are predicted after the last action before them, not after the token before.
        outputs.last_hidden_state = last_states
        result = self.predict_tokens(TransformerGrammarCausalLMOutput, outputs, 0)
        legal = rows_at(reading.replay.legal, indices[..., -1])
        result.logits, kinds = self.predict(last_states, legal, result.logits)
        if targets is None:
            return result, None
        counts = targets != -100
        actions = nn.functional.pad(actions, (0, 0, 0, 1), value=-1)[:, 1:]  # after each token, (B, seq_len, actions)
        # Both are found once: each search for indices makes the host wait for the device.
        text, position = counts.nonzero(as_tuple=True)
        row, token, number = ((actions >= 0) & counts.unsqueeze(2)).nonzero(as_tuple=True)
        index = indices[row, token, number]
        # Each action is predicted after the event before it, as tokens are.
        others = self.predict(reading.states[row, index], reading.replay.legal[row, index]).kinds
        kinds = torch.cat([kinds[text, position], others])  # (events, 1 + actions)
        gold = torch.cat([torch.zeros_like(position), actions[row, token, number] + 1])  # (events,)
        texts = torch.cat([text, row])  # (events,)
        check_events(result.logits, targets, kinds, gold, texts)
        return result, nn.functional.cross_entropy(kinds, gold, reduction="sum")

    def events_read(self, tokens: Sequence[str], **reading: torch.Tensor) -> list[str]:
        """Tokens with their actions in front; the copies of one that is read several times end in primes."""
        names: list[str] = []
        for token, before in zip(tokens, reading["actions"][0].tolist(), strict=True):
            for action in before:
                if action < 0:
                    continue
                name = self.config.action_names[action]
                names.append(name)
                copies = self.config.num_copies if is_join(action + FIRST_ACTION, self.config) else 0
                names += [name + "′" * (copy + 1) for copy in range(copies)]
            names.append(token)
        return names

    def check_decoding(self, decoder: str, k: int, marginals: bool) -> None:
        if marginals or (k != 1 and self.config.formalism == "constituency"):
            raise ValueError("a transformer grammar gives no marginals, and of constituency trees the best alone")

    def to_trees(
        self, structures: torch.Tensor, log_probs: torch.Tensor, word_ids: torch.Tensor, is_token: torch.Tensor
    ) -> DecoderOutput:
        trees = []  # for each sentence its best trees
        for sentence, words, mask in zip(structures, word_ids, is_token, strict=True):
            numbers = words[mask].tolist()
            trees.append([before_words(actions, numbers) for actions in sentence[:, mask].tolist()])
        if self.config.formalism == "constituency":
            decoded = [decoded_spans(tree, self.config) for (tree,) in trees]
            kind: Any = {"dtype": torch.long, "device": log_probs.device}
            spans = [torch.tensor(each, **kind).view(-1, 3) for each in decoded]  # (num_spans, 3) each
            spans = nn.utils.rnn.pad_sequence(spans, True, padding_value=-1)  # (B, num_spans, 3)
            labels = spans[..., 2] if self.config.labels else None
            return DecoderOutput(spans=spans[..., :2], span_labels=labels, log_probs=log_probs)
        words = int(word_ids.max())
        heads = word_ids.new_full((*log_probs.shape, words), -1)
        for row, rank in (log_probs > -torch.inf).nonzero().tolist():
            tree = actions_to_heads(trees[row][rank])
            heads[row, rank, : len(tree)] = torch.tensor(tree)
        return DecoderOutput(heads=heads, log_probs=log_probs)


@no_compile  # a question about values
def check_events(
    logits: torch.Tensor, targets: torch.Tensor, kinds: torch.Tensor, gold: torch.Tensor, texts: torch.Tensor
) -> None:
    """
    Raises `ValueError` unless targets `(batch_size, seq_len)` and kinds of events `(events,)`, of these `texts`, may
    come by their logits.
    """
    scores = logits.gather(2, targets.clamp(min=0).unsqueeze(2)).squeeze(2)  # (B, seq_len)
    wrong = ((scores == torch.finfo(scores.dtype).min) & (targets != -100)).sum(1)
    chosen = kinds.gather(1, gold.unsqueeze(1)).squeeze(1)  # (events,)
    wrong = wrong.index_add(0, texts, (chosen == -torch.inf).long())  # (B,): how many may not come
    if wrong.any():
        text = int((wrong > 0).byte().argmax())
        raise ValueError(
            f"the actions of text {text} are not those of a tree, or a token that goes on with "
            "a word (config.inner_pieces) comes after one"
        )
