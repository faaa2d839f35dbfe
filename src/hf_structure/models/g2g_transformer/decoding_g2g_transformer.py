"""
Search for parses with the Graph-to-Graph Transformer: greedy and beam search, all sentences in lock-step.

A hypothesis is a derivation that has got as far as some state. Every sentence has `beam_size` places for them, the
first of which always holds the greedy one; beam size 1 is greedy search. Sentences that are finished leave the batch,
and only hypotheses with something to decide go through the encoder.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from hf_structure.algorithms.transitions import LEFT_ARC, NO_ACTION, RIGHT_ARC, SWAP, TransitionStates
from hf_structure.modeling_outputs import DecoderOutput
from hf_structure.models.g2g_transformer.states_g2g_transformer import compositions, dependents, is_arc

if TYPE_CHECKING:
    from hf_structure.models.g2g_transformer.modeling_g2g_transformer import G2GTransformerForParsing


@dataclass
class Hypotheses:
    """
    The hypotheses of some sentences, `number` = sentences times beam size rows.

    Attributes:
        states ([`TransitionStates`]): Where they have got to.
        scores (`torch.FloatTensor` of shape `(number,)`): Log-probabilities; -inf for an empty place.
        head_probs, label_probs (`torch.FloatTensor` of shape `(number, n + 1)`):
            Probability of the action that attached each word, and of its label, in the states they were chosen in.
        vectors (`torch.FloatTensor` of shape `(number, n + 4, hidden_size)`, *optional*):
            Composed words; not there if words are not composed.
        memory (pair of `torch.FloatTensor` of shape `(number, num_layers, size)`, *optional*): Of the history.
    """

    states: TransitionStates
    scores: torch.Tensor
    head_probs: torch.Tensor
    label_probs: torch.Tensor
    vectors: torch.Tensor | None
    memory: tuple[torch.Tensor, torch.Tensor] | None

    def select(self, rows: torch.Tensor) -> "Hypotheses":
        """The hypotheses in the given rows."""
        memory = self.memory and tuple(part[rows] for part in self.memory)
        vectors = None if self.vectors is None else self.vectors[rows]
        parts = (self.scores[rows], self.head_probs[rows], self.label_probs[rows])
        return Hypotheses(self.states.select(rows), *parts, vectors, memory)


@dataclass
class Candidates:
    """
    What hypotheses may do next: `number` rows, a column for each action, and in it for each label (actions that make
    no arc use the first).

    Attributes:
        action_log_probs (`torch.FloatTensor` of shape `(number, num_actions)`): -inf if not legal.
        label_log_probs (`torch.FloatTensor` of shape `(number, num_actions, num_relations)`): Given the action.
    """

    action_log_probs: torch.Tensor
    label_log_probs: torch.Tensor

    def greedy(self) -> torch.Tensor:
        """`(number,)`: the best action with its best label, as a column of `log_probs`."""
        action = self.action_log_probs.argmax(1)
        label = self.label_log_probs[torch.arange(len(action), device=action.device), action].argmax(1)
        return action * self.label_log_probs.shape[2] + label

    def log_probs(self) -> torch.Tensor:
        """`(number, num_actions * num_relations)`"""
        return (self.action_log_probs.unsqueeze(2) + self.label_log_probs).flatten(1)


@torch.compiler.disable
def beam_search(
    model: "G2GTransformerForParsing",
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
        model ([`G2GTransformerForParsing`]): The parser.
        vectors (`torch.FloatTensor` of shape `(batch, n + 4, hidden_size)`): Of the root, the words and what follows.
        lengths (`torch.LongTensor` of shape `(batch,)`): Number of words.
        beam_size (`int`): Hypotheses of each sentence.
        swap (`bool`, *optional*): Whether SWAP may be used, by default if the model has it.
        k (`int`): Number of trees.
        marginals (`bool`): Whether to add the share of the beam's probability that each arc has.
    """
    swap = model.config.use_swap if swap is None else swap
    sentences = torch.arange(len(lengths), device=lengths.device)
    running = _start(model, vectors, lengths, beam_size)
    ended, order = [], []
    while len(sentences):
        over = (running.states.finished | (running.scores == -torch.inf)).view(-1, beam_size).all(1)
        if over.any():
            rows = over.repeat_interleave(beam_size)
            ended.append(replace(running, vectors=None, memory=None).select(rows))
            order.append(sentences[over])
            running, sentences = running.select(~rows), sentences[~over]
            continue
        owners = sentences.repeat_interleave(beam_size)
        candidates = _candidates(model, running, vectors, owners, swap)
        running = _advance(model, running, _choose(running, candidates, beam_size), vectors, owners)
    rows = torch.cat(order).argsort()
    rows = (rows.unsqueeze(1) * beam_size + torch.arange(beam_size, device=rows.device)).flatten()
    ended = _join(ended).select(rows)
    return _output(ended, len(lengths), k, model.config, marginals)


def _start(
    model: "G2GTransformerForParsing", vectors: torch.Tensor, lengths: torch.Tensor, beam_size: int
) -> Hypotheses:
    """One hypothesis for each sentence; the other places are empty."""
    number = len(lengths) * beam_size
    states = TransitionStates.initial(lengths.repeat_interleave(beam_size))
    scores = torch.full((len(lengths), beam_size), -torch.inf, dtype=torch.float32, device=vectors.device)
    scores[:, 0] = 0.0
    ones = torch.ones(states.heads.shape, dtype=torch.float32, device=vectors.device)
    memory = None
    if model.history is not None:
        nothing = torch.full((number, 1), NO_ACTION, dtype=torch.long, device=vectors.device)
        _, memory = model.history(nothing)
        memory = tuple(part.transpose(0, 1) for part in memory)
    composed = None
    if model.composition is not None:
        composed = model.start_vectors(vectors).repeat_interleave(beam_size, dim=0)
    return Hypotheses(states, scores.flatten(), ones, ones, composed, memory)


def _candidates(
    model: "G2GTransformerForParsing",
    running: Hypotheses,
    plain: torch.Tensor,
    owners: torch.Tensor,
    swap: bool,
) -> Candidates:
    """
    What may be done next, and how probable it is; only where there is a choice the model is asked. `plain` are the
    vectors of uncomposed words, and `owners` says which of them, that is which sentence, each hypothesis has.
    """
    config, states = model.config, running.states
    legal = states.legal_actions(config.use_swap)
    if config.use_swap and not swap:
        legal[:, SWAP] = False
    arcs = [LEFT_ARC, RIGHT_ARC]
    others = [action for action in range(config.num_actions) if action not in arcs]
    actions = torch.zeros(legal.shape, dtype=torch.float32, device=legal.device).masked_fill(~legal, -torch.inf)
    labels = torch.zeros(*legal.shape, config.num_relations, dtype=torch.float32, device=legal.device)
    labels[:, others, 1:] = -torch.inf  # actions that make no arc use the first
    chooses = (legal.sum(1) > 1) | (config.labelled & legal[:, arcs].any(1))
    rows = (chooses & (running.scores > -torch.inf)).nonzero().flatten()
    if len(rows):
        table, places = (plain, owners[rows]) if running.vectors is None else (running.vectors, rows)
        size = table.shape[1]
        versions = size * places.unsqueeze(1) + torch.arange(size, device=rows.device)
        history = None if running.memory is None else running.memory[0][rows, -1]
        scores, label_scores = model.score_states(states.select(rows), table.flatten(0, 1), versions, history)
        if scores.isnan().any():
            raise ValueError("the model's scores are not numbers (NaN): it cannot parse")
        actions[rows] = scores.float().masked_fill(~legal[rows], -torch.inf).log_softmax(1)
        if label_scores is not None:
            labels[rows, LEFT_ARC : RIGHT_ARC + 1] = label_scores.float().view(len(rows), 2, -1).log_softmax(2)
    return Candidates(actions, labels)


class Steps(NamedTuple):
    """
    What comes next, a row for each place in the new beams.

    Attributes:
        parents: Row of the hypothesis that goes on.
        actions, labels: What it does; -1 for the action of one that is finished, or of an empty place.
        scores: Log-probability afterwards.
        action_probs, label_probs: Probabilities of action and label.
    """

    parents: torch.Tensor
    actions: torch.Tensor
    labels: torch.Tensor
    scores: torch.Tensor
    action_probs: torch.Tensor
    label_probs: torch.Tensor


def _choose(running: Hypotheses, candidates: Candidates, beam_size: int) -> Steps:
    """The best hypotheses that are one action further; finished ones compete as they are."""
    log_probs, greedy = candidates.log_probs(), candidates.greedy()
    width, relations = log_probs.shape[1], candidates.label_log_probs.shape[2]
    finished = running.states.finished
    log_probs[finished, 0] = 0.0  # stays as it is
    totals = (running.scores.unsqueeze(1) + log_probs).view(-1, beam_size * width)
    chosen = greedy.masked_fill(finished, 0).view(-1, beam_size)[:, :1]
    if beam_size > 1:
        ranking = totals.scatter(1, chosen, torch.inf)  # the greedy derivation stays, and stays first
        chosen = ranking.topk(beam_size, dim=1).indices
    first = beam_size * torch.arange(len(chosen), device=chosen.device).unsqueeze(1)
    parents, columns = (first + chosen // width).flatten(), (chosen % width).flatten()
    actions, labels = columns // relations, columns % relations
    scores = totals.gather(1, chosen).flatten()
    return Steps(
        parents=parents,
        actions=actions.masked_fill(finished[parents] | (scores == -torch.inf), NO_ACTION),
        labels=labels,
        scores=scores,
        action_probs=candidates.action_log_probs[parents, actions].exp(),
        label_probs=candidates.label_log_probs[parents, actions, labels].exp(),
    )


def _advance(
    model: "G2GTransformerForParsing",
    running: Hypotheses,
    steps: Steps,
    plain: torch.Tensor,
    owners: torch.Tensor,
) -> Hypotheses:
    """The hypotheses after the next steps."""
    config, actions = model.config, steps.actions
    kept = running.select(steps.parents)
    labels = steps.labels + config.num_relations * (actions == RIGHT_ARC)
    states = kept.states.step(actions, labels)
    made, dependent = is_arc(actions).unsqueeze(1), dependents(kept.states, actions).unsqueeze(1)

    def note(values: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        return values.scatter(1, dependent, torch.where(made, probs.unsqueeze(1), values.gather(1, dependent)))

    memory, vectors = kept.memory, kept.vectors
    if memory is not None:
        memory = tuple(part.transpose(0, 1).contiguous() for part in memory)
        given = model.history_labels(actions.unsqueeze(1), labels.unsqueeze(1))
        _, memory = model.history(actions.unsqueeze(1), memory, given)
        memory = tuple(part.transpose(0, 1) for part in memory)
    if vectors is not None:
        recursive = config.composition == "recursive"
        plan = compositions(kept.states, states, actions, recursive)
        source = vectors if recursive else plain
        new = model.compose(source, plan if recursive else plan._replace(rows=owners[plan.rows]))
        vectors = vectors.index_put((plan.rows, plan.words), new.to(vectors.dtype))
    head_probs, label_probs = note(kept.head_probs, steps.action_probs), note(kept.label_probs, steps.label_probs)
    return Hypotheses(states, steps.scores, head_probs, label_probs, vectors, memory)


def _join(parts: list[Hypotheses]) -> Hypotheses:
    """Rows of finished hypotheses one after another, without what is needed to go on."""
    columns = (torch.cat([getattr(part, name) for part in parts]) for name in ("scores", "head_probs", "label_probs"))
    return Hypotheses(TransitionStates.concatenate([part.states for part in parts]), *columns, None, None)


def _merge(ended: Hypotheses, labels: torch.Tensor, batch: int) -> torch.Tensor:
    """
    `(batch, beam_size)`: log-probabilities of trees. That of a tree with several derivations stands at the most
    probable one, and -inf at the others.
    """
    scores, number = ended.scores, torch.arange(len(ended.scores), device=ended.scores.device)
    if len(scores) > batch:
        sentence = number.unsqueeze(1) // (len(scores) // batch)
        keys = torch.cat([sentence, ended.states.heads, labels], dim=1)
        trees, tree = keys.unique(dim=0, return_inverse=True)
        best = scores.new_full((len(trees),), -torch.inf).scatter_reduce(0, tree, scores, "amax")
        shares = (scores - best[tree]).exp().nan_to_num(0.0)
        totals = best + scores.new_zeros(len(trees)).index_add(0, tree, shares).log()
        is_best = torch.where(scores == best[tree], number, len(number))
        first = number.new_full((len(trees),), len(number)).scatter_reduce(0, tree, is_best, "amin")
        scores = torch.where(first[tree] == number, totals[tree], -torch.inf)
    return scores.view(batch, -1)


def _output(ended: Hypotheses, batch: int, k: int, config, marginals: bool) -> DecoderOutput:
    """The `k` best trees of each sentence."""
    classes = ended.states.labels
    labels = torch.where(
        classes < 0, -1, classes % config.num_relations
    )  # with SWAP, either direction may make an arc
    scores = _merge(ended, labels, batch)
    log_probs, rank = (part[:, :k] for part in scores.sort(dim=1, descending=True, stable=True))

    def best(values: torch.Tensor, missing: float) -> torch.Tensor:
        values = values[:, 1:].view(batch, -1, values.shape[1] - 1)
        chosen = values.gather(1, rank.unsqueeze(2).expand(-1, -1, values.shape[2]))
        return chosen.masked_fill((log_probs == -torch.inf).unsqueeze(2), missing)

    heads = best(ended.states.heads, -1)
    is_word = heads >= 0
    columns = {"probabilities": best(ended.head_probs, 0.0) * is_word}
    if config.labelled:
        columns["labels"] = best(labels, -1)
        columns["label_probabilities"] = best(ended.label_probs, 0.0) * is_word
    output = DecoderOutput(heads=heads, log_probs=log_probs, columns=columns)
    if marginals:
        weights = scores.softmax(1).view(batch, -1, 1)
        all_heads = ended.states.heads[:, 1:].view(batch, weights.shape[1], -1)
        arcs = scores.new_zeros(*all_heads.shape[::2], all_heads.shape[2] + 1)
        weights = (weights * (all_heads >= 0)).transpose(1, 2)
        output.marginals = arcs.scatter_add(2, all_heads.clamp(min=0).transpose(1, 2), weights)
    return output
