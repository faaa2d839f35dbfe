"""
Search for parses with the Graph-to-Graph Transformer: greedy and beam search, all sentences in lock-step.

A hypothesis is a derivation up to some state. Every sentence has `beam_size` rows for them, the first of which always
holds the greedy one; beam size 1 is greedy search. Sentences that are finished leave the batch,
and only hypotheses with something to decide go through the encoder.

Shapes: B sentences, n words of the longest, D the width of vectors; `number` hypotheses are B times the beam size.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch

from hf_structure.algorithms.transitions import LEFT_ARC, NO_ACTION, RIGHT_ARC, SWAP, TransitionStates
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.g2g_transformer.states_g2g_transformer import Compositions, dependents, is_arc
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.modules.calls import no_compile

Memory = tuple[torch.Tensor, torch.Tensor]  # (num_layers, number, size) each: hidden states and cells of an LSTM


class TransitionScorer(Protocol):
    """A parser, as the search uses it."""

    config: G2GTransformerConfig
    composition: Any  # None where words are not composed
    history: Any  # None without one

    def score_states(
        self, states: TransitionStates, table: torch.Tensor, versions: torch.Tensor, history: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]: ...
    def read_history(
        self, actions: torch.Tensor, labels: torch.Tensor, memory: Memory | None = None
    ) -> tuple[torch.Tensor, Memory]: ...
    def compositions(
        self, before: TransitionStates, after: TransitionStates, actions: torch.Tensor
    ) -> Compositions: ...
    def compose(self, vectors: torch.Tensor, plan: Compositions) -> torch.Tensor: ...


@dataclass
class Hypotheses:
    """The hypotheses of some sentences, `number` = sentences times beam size rows."""

    states: TransitionStates  # the states they have reached
    scores: torch.Tensor  # (number,): log-probabilities; -inf for an empty row
    head_probs: torch.Tensor  # (number, n + 1): of the action that attached each word, in the state it was chosen in
    label_probs: torch.Tensor  # (number, n + 1): of its label
    vectors: torch.Tensor | None  # (number, n + 4, hidden_size): words, composed if the model does so
    memory: Memory | None  # of the history

    def select(self, rows: torch.Tensor) -> "Hypotheses":
        """The hypotheses in the given rows."""
        assert self.vectors is not None  # it continues
        ended = self.ended(rows)
        vectors = self.vectors[rows]  # (rows, n + 4, D)
        # The memory of an LSTM has its layers first.
        memory = self.memory and tuple(part.index_select(1, rows) for part in self.memory)  # (layers, rows, size)
        return replace(ended, vectors=vectors, memory=memory)

    def ended(self, rows: torch.Tensor) -> "Hypotheses":
        """The hypotheses in the given rows, without the state needed to continue."""
        return Hypotheses(
            states=self.states.select(rows),
            scores=self.scores[rows],
            head_probs=self.head_probs[rows],
            label_probs=self.label_probs[rows],
            vectors=None,
            memory=None,
        )

    @staticmethod
    def concatenate(parts: list["Hypotheses"]) -> "Hypotheses":
        """Ended hypotheses one after another."""
        return Hypotheses(
            states=TransitionStates.concatenate([part.states for part in parts]),
            scores=torch.cat([part.scores for part in parts]),
            head_probs=torch.cat([part.head_probs for part in parts]),
            label_probs=torch.cat([part.label_probs for part in parts]),
            vectors=None,
            memory=None,
        )


@dataclass
class Candidates:
    """
    Possible next steps of hypotheses: `number` rows, a column for each action, and in it for each label (actions that
    make no arc use the first).
    """

    action_log_probs: torch.Tensor  # (number, num_actions): -inf if not legal
    label_log_probs: torch.Tensor  # (number, num_actions, num_relations): given the action

    def greedy(self) -> torch.Tensor:
        """`(number,)`: the best action with its best label, as a column of `log_probs`."""
        action = self.action_log_probs.argmax(1)
        rows = torch.arange(len(action), device=action.device)
        label = self.label_log_probs[rows, action].argmax(1)
        return action * self.label_log_probs.shape[2] + label

    def log_probs(self) -> torch.Tensor:
        """`(number, num_actions * num_relations)`"""
        return (self.action_log_probs.unsqueeze(2) + self.label_log_probs).flatten(1)  # (number, columns)


@no_compile
def beam_search(
    model: TransitionScorer,
    vectors: torch.Tensor,
    lengths: torch.Tensor,
    beam_size: int = 1,
    *,
    swap: bool | None = None,
    k: int = 1,
    marginals: bool = False,
) -> DecoderOutput:
    """
    Parses sentences.

    Args:
        model ([`TransitionScorer`]): The parser.
        vectors (`torch.FloatTensor` of shape `(batch, n + 4, hidden_size)`): Of the root, the words and what follows.
        lengths (`torch.LongTensor` of shape `(batch,)`): Number of words.
        beam_size (`int`): Hypotheses of each sentence.
        swap (`bool`, *optional*): Allow SWAP, by default if the model has it.
        k (`int`): Number of trees.
        marginals (`bool`): Add the share of each arc in the beam's probability.
    """
    swap = model.config.use_swap if swap is None else swap
    sentences = torch.arange(len(lengths), device=lengths.device)
    running = _start(model, vectors, lengths, beam_size)
    ended = []
    order = []
    while len(sentences):
        over = (running.states.finished | (running.scores == -torch.inf)).view(-1, beam_size).all(1)  # (B,)
        if over.any():
            rows = over.repeat_interleave(beam_size)  # (B * beam_size,)
            ended.append(running.ended(rows.nonzero().flatten()))
            order.append(sentences[over])
            running = running.select((~rows).nonzero().flatten())
            sentences = sentences[~over]
            continue
        candidates = _candidates(model, running, swap)
        running = _advance(model, running, _choose(running, candidates, beam_size), beam_size)
    # Sentences have ended in any order.
    first = beam_size * torch.cat(order).argsort().unsqueeze(1)
    rows = (first + torch.arange(beam_size, device=first.device)).flatten()  # (B * beam_size,)
    return _output(Hypotheses.concatenate(ended).ended(rows), len(lengths), k, model.config, marginals)


def _start(model: TransitionScorer, vectors: torch.Tensor, lengths: torch.Tensor, beam_size: int) -> Hypotheses:
    """One hypothesis for each sentence; the other rows are empty."""
    states = TransitionStates.initial(lengths.repeat_interleave(beam_size))  # B * beam_size rows
    scores = torch.full((len(lengths), beam_size), -torch.inf, dtype=torch.float32, device=vectors.device)
    # Rows of -inf are empty: they lose against every hypothesis.
    scores[:, 0] = 0.0
    ones = torch.ones(states.heads.shape, dtype=torch.float32, device=vectors.device)
    memory = None
    if model.history is not None:
        nothing = torch.full_like(states.depth.unsqueeze(1), NO_ACTION)
        _, memory = model.read_history(nothing, nothing)
    vectors = vectors.repeat_interleave(beam_size, dim=0)  # (B * beam_size, n + 4, D)
    return Hypotheses(states, scores.flatten(), ones, ones, vectors, memory)


def _candidates(model: TransitionScorer, running: Hypotheses, swap: bool) -> Candidates:
    """Possible next steps with their probabilities; the model runs only where there is a choice."""
    config = model.config
    legal = running.states.legal_actions(config.use_swap)
    if config.use_swap and not swap:
        legal[:, SWAP] = False
    arcs = [LEFT_ARC, RIGHT_ARC]
    others = [action for action in range(config.num_actions) if action not in arcs]
    # In float32: log-probabilities of long derivations are sums of hundreds of terms.
    # An only legal action keeps its log-probability of 0, without the model.
    actions = torch.zeros(legal.shape, dtype=torch.float32, device=legal.device).masked_fill(~legal, -torch.inf)
    labels = torch.zeros(*legal.shape, config.num_relations, dtype=torch.float32, device=legal.device)
    labels[:, others, 1:] = -torch.inf  # actions that make no arc use the first
    has_choice = (legal.sum(1) > 1) | (config.labelled & legal[:, arcs].any(1))
    rows = (has_choice & (running.scores > -torch.inf)).nonzero().flatten()
    if len(rows):
        assert running.vectors is not None  # they continue
        size = running.vectors.shape[1]
        versions = size * rows.unsqueeze(1) + torch.arange(size, device=rows.device)  # (rows, n + 4)
        history = None
        if running.memory is not None:
            hidden, _ = running.memory
            history = hidden[-1, rows]  # (rows, history_size)
        table = running.vectors.flatten(0, 1)  # (rows * (n + 4), D)
        scores, label_scores = model.score_states(running.states.select(rows), table, versions, history)
        if scores.isnan().any():
            raise ValueError("the model's scores are not numbers (NaN): it cannot parse")
        # Probabilities are among the legal actions, and of labels given the direction of the arc.
        actions[rows] = scores.float().masked_fill(~legal[rows], -torch.inf).log_softmax(1)
        if label_scores is not None:
            by_direction = label_scores.float().view(len(rows), 2, -1)  # (rows, 2, num_relations)
            labels[rows, LEFT_ARC : RIGHT_ARC + 1] = by_direction.log_softmax(2)
    return Candidates(actions, labels)


class Steps(NamedTuple):
    """The next steps, an element for each row of the new beams; all `(number,)`."""

    parents: torch.Tensor  # row of the hypothesis that continues
    actions: torch.Tensor  # its action; -1 for one that is finished, or an empty row
    labels: torch.Tensor
    scores: torch.Tensor  # log-probability afterwards
    action_probs: torch.Tensor
    label_probs: torch.Tensor


def _choose(running: Hypotheses, candidates: Candidates, beam_size: int) -> Steps:
    """The best hypotheses that are one action further; finished ones compete as they are."""
    log_probs = candidates.log_probs()
    width = log_probs.shape[1]
    relations = candidates.label_log_probs.shape[2]
    finished = running.states.finished
    log_probs[finished, 0] = 0.0  # stays as it is
    totals = (running.scores.unsqueeze(1) + log_probs).view(-1, beam_size * width)  # (B, beam_size * width)
    chosen = candidates.greedy().masked_fill(finished, 0).view(-1, beam_size)[:, :1]  # (sentences, 1)
    if beam_size > 1:
        ranking = totals.scatter(1, chosen, torch.inf)  # the greedy derivation stays, and stays first
        chosen = ranking.topk(beam_size, dim=1).indices  # (B, beam_size)
    first = beam_size * torch.arange(len(chosen), device=chosen.device).unsqueeze(1)
    parents = (first + chosen // width).flatten()  # (B * beam_size,)
    columns = (chosen % width).flatten()  # (B * beam_size,)
    actions = columns // relations
    labels = columns % relations
    scores = totals.gather(1, chosen).flatten()  # (B * beam_size,)
    return Steps(
        parents=parents,
        actions=actions.masked_fill(finished[parents] | (scores == -torch.inf), NO_ACTION),
        labels=labels,
        scores=scores,
        action_probs=candidates.action_log_probs[parents, actions].exp(),
        label_probs=candidates.label_log_probs[parents, actions, labels].exp(),
    )


def _advance(model: TransitionScorer, running: Hypotheses, steps: Steps, beam_size: int) -> Hypotheses:
    """The hypotheses after the next steps."""
    # Greedy hypotheses stay in their rows, which saves a copy of all states.
    kept = running if beam_size == 1 else running.select(steps.parents)
    actions = steps.actions
    classes = steps.labels + model.config.num_relations * (actions == RIGHT_ARC)
    states = kept.states.step(actions, classes)
    memory = kept.memory
    if memory is not None:
        read = classes.masked_fill(~is_arc(actions), -1)
        _, memory = model.read_history(actions.unsqueeze(1), read.unsqueeze(1), memory)
    vectors = kept.vectors
    if model.composition is not None and vectors is not None:
        plan = model.compositions(kept.states, states, actions)
        new = model.compose(vectors, plan)
        vectors = vectors.index_put((plan.rows, plan.words), new.to(vectors.dtype))  # (number, n + 4, D)
    dependent = dependents(kept.states, actions)
    return Hypotheses(
        states=states,
        scores=steps.scores,
        head_probs=_note(kept.head_probs, dependent, steps.action_probs, is_arc(actions)),
        label_probs=_note(kept.label_probs, dependent, steps.label_probs, is_arc(actions)),
        vectors=vectors,
        memory=memory,
    )


def _note(values: torch.Tensor, words: torch.Tensor, new: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Values `(number, n + 1)` with a new one for a word of each row in which an arc is made."""
    words = words.unsqueeze(1)
    new = torch.where(made.unsqueeze(1), new.unsqueeze(1), values.gather(1, words))  # (number, 1)
    return values.scatter(1, words, new)  # (number, n + 1)


def _merge(ended: Hypotheses, labels: torch.Tensor, batch: int) -> torch.Tensor:
    """
    `(batch, beam_size)`: log-probabilities of trees. A tree with several derivations has its log-probability at the
    most probable one, and -inf at the others.
    """
    scores = ended.scores
    number = torch.arange(len(scores), device=scores.device)
    if len(scores) > batch:
        sentence = number.unsqueeze(1) // (len(scores) // batch)
        keys = torch.cat([sentence, ended.states.heads, labels], dim=1)
        trees, tree = keys.unique(dim=0, return_inverse=True)
        best = scores.new_full((len(trees),), -torch.inf).scatter_reduce(0, tree, scores, "amax")  # (trees,)
        # Relative to the best: exponentials of the scores themselves would be 0. -inf minus -inf is NaN.
        shares = (scores - best[tree]).exp().nan_to_num(0.0)
        totals = best + scores.new_zeros(len(trees)).index_add(0, tree, shares).log()  # logsumexp of each tree
        is_best = torch.where(scores == best[tree], number, len(number))
        first = number.new_full((len(trees),), len(number)).scatter_reduce(0, tree, is_best, "amin")  # (trees,)
        scores = torch.where(first[tree] == number, totals[tree], -torch.inf)
    return scores.view(batch, -1)  # (B, beam_size)


def _output(ended: Hypotheses, batch: int, k: int, config: G2GTransformerConfig, marginals: bool) -> DecoderOutput:
    """The `k` best trees of each sentence."""
    classes = ended.states.labels
    labels = classes % config.num_relations  # with SWAP, either direction may make an arc
    labels = labels.masked_fill(classes < 0, -1)
    scores = _merge(ended, labels, batch)
    log_probs, rank = (part[:, :k] for part in scores.sort(dim=1, descending=True, stable=True))

    def best(values: torch.Tensor, missing: float) -> torch.Tensor:
        values = values[:, 1:].view(batch, -1, values.shape[1] - 1)  # (B, beam_size, n)
        chosen = values.gather(1, rank.unsqueeze(2).expand(-1, -1, values.shape[2]))  # (B, k, n)
        return chosen.masked_fill((log_probs == -torch.inf).unsqueeze(2), missing)

    heads = best(ended.states.heads, -1)
    is_word = heads >= 0
    columns = {"probabilities": best(ended.head_probs, 0.0) * is_word}
    if config.labelled:
        columns["labels"] = best(labels, -1)
        columns["label_probabilities"] = best(ended.label_probs, 0.0) * is_word
    output = DecoderOutput(heads=heads, log_probs=log_probs, columns=columns)
    if marginals:
        all_heads = ended.states.heads[:, 1:].view(*scores.shape, -1).transpose(1, 2)  # (B, n, beam_size)
        weights = scores.softmax(1).unsqueeze(1) * (all_heads >= 0)
        arcs = scores.new_zeros(batch, all_heads.shape[1], all_heads.shape[1] + 1)
        output.marginals = arcs.scatter_add(2, all_heads.clamp(min=0), weights)  # (B, n, n + 1)
    return output
