"""Fits the temperatures and shares of `config.calibration` to a development set (Guo et al. 2017)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad
from tqdm.auto import tqdm

from hf_structure.algorithms.chart import chart_sums, num_words, span_index
from hf_structure.corpora.batching import similar_length_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN
from hf_structure.parsing.parser import Parser, decode_batch, parses_of
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.reading import read_all

STEPS = 60  # evaluations of the loss, enough for two numbers
FORBIDDEN = -1e4  # replaces -inf, whose gradient is nan
MOST_UNIFORM = 0.99  # the largest share e: a configuration refuses 1
START = (0.4, -4.0)  # log T and logit of e, near what parsers need
TEMPERATURES = (0.05, 20.0)  # least and largest that are tried for constituents
TOLERANCE = 0.01  # of the logarithm of a temperature
GOLDEN = (math.sqrt(5) - 1) / 2


class Choices(NamedTuple):
    """Predictions of one kind: N choices among at most V values."""

    scores: torch.Tensor  # (N, V), -inf for impossible values
    chosen: torch.Tensor  # (N,)
    right: torch.Tensor  # (N,)


class Calibration(NamedTuple):
    """Probability (1 - share) softmax(scores / temperature) + share / number of values."""

    temperature: float
    share: float


def probabilities(choices: Choices, calibration: Calibration) -> torch.Tensor:
    """Probabilities of the choices, `(N,)`."""
    return _probabilities(choices, *map(torch.tensor, calibration))


def _probabilities(choices: Choices, temperature: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    uniform = 1 / (choices.scores > -torch.inf).float().sum(1)
    probs = (choices.scores.clamp(min=FORBIDDEN) / temperature).softmax(1)
    return (1 - share) * probs.gather(1, choices.chosen.unsqueeze(1)).squeeze(1) + share * uniform  # (N,)


def fit(choices: Choices) -> Calibration:
    """
    Returns the calibration with the least Brier score, the mean square of (probability - right). The likelihood would
    let a few confident errors decide, many of which are errors of the treebank.
    """
    right = choices.right.float()
    parameters = torch.tensor(START, requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        probs = _probabilities(choices, parameters[0].exp(), parameters[1].sigmoid())
        value = (probs - right).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    # Of a few choices, all of them wrong, a uniform distribution alone would be the best fit.
    share = min(torch.sigmoid(parameters[1]).item(), MOST_UNIFORM)
    return Calibration(math.exp(parameters[0].item()), share)


def collect(parser: Parser, gold: Sequence[ConlluSentence]) -> dict[str, Choices]:
    """
    Returns the choices of a refinement parser in sentences with gold trees, by the names of `config.calibration`;
    labels where the head is right. Raises `ValueError` if it does not see all words.
    """
    parts: dict[str, list[Choices]] = {}
    for name, choices in _choices(parser, gold):
        parts.setdefault(name, []).append(choices)
    return {name: join(found) for name, found in parts.items()}


class SpanChoices(NamedTuple):
    """The N constituents of the best trees of B sentences with S spans, each with one of C chains of labels."""

    scores: torch.Tensor  # (B, S, C)
    lengths: torch.Tensor  # (B,)
    rows: torch.Tensor  # (N,): the sentence of each
    spans: torch.Tensor  # (N,)
    chains: torch.Tensor  # (N,)
    right: torch.Tensor  # (N,)


def span_probabilities(batches: Sequence[SpanChoices], temperature: float) -> torch.Tensor:
    """Probabilities of all constituents, `(N,)`."""
    found = []
    for batch in batches:
        _, marginals = chart_sums(batch.scores / temperature, batch.lengths)  # (B, S, C)
        found.append(marginals[batch.rows, batch.spans, batch.chains])
    return torch.cat(found).clamp(0, 1)


def fit_temperature(batches: Sequence[SpanChoices]) -> float:
    """Returns the temperature with the least Brier score, found by golden-section search over its logarithm."""
    right = torch.cat([batch.right for batch in batches]).double()

    def loss(log_temperature: float) -> float:
        probs = span_probabilities(batches, math.exp(log_temperature))
        return (probs - right).square().mean().item()

    low, high = map(math.log, TEMPERATURES)
    while high - low > TOLERANCE:
        # The inner points divide the interval by the golden ratio.
        step = (high - low) * GOLDEN
        if loss(high - step) < loss(low + step):
            high = low + step
        else:
            low = high - step
    return math.exp((low + high) / 2)


@torch.no_grad()
def collect_constituents(parser: Parser, gold: Sequence[dict[str, Any]]) -> list[SpanChoices]:
    """
    Returns the constituents that a refinement parser finds in sentences with gold `words` and `spans` (start, end,
    label), in batches, with its calibration so far. Raises `ValueError` if it predicts none.
    """
    model: Any = parser.model
    if model.constituents is None:
        raise ValueError("the model predicts no constituents")
    encoded = [parser.encode(source) for source in read_all([sentence["words"] for sentence in gold])]
    lengths = [len(sentence["input_ids"]) for sentence in encoded]
    temperature, _ = model.config.calibration_of("constituents")
    found = []
    for indices in tqdm(similar_length_batches(lengths, parser.options.batch_size), desc="parsing", unit=" batches"):
        inputs = WordCollator()([encoded[index] for index in indices])
        sentences, _ = model.read_words(**{name: value.to(model.device) for name, value in inputs.items()})
        scores, _, _ = model.refine(sentences, None, "tree", model.config.num_rounds)
        span_scores = model.constituents(scores.vectors, sentences.lengths).cpu()
        word_counts = sentences.lengths.cpu()
        best, _, _ = model.constituents.search(span_scores / temperature, word_counts)
        trees = best.constituents[:, 0]  # (B, m, 3)
        n = num_words(span_scores.shape[1])
        judged = []
        for row, (index, tree) in enumerate(zip(indices, trees.tolist(), strict=True)):
            for (start, end, chain), right in _judged(tree, gold[index]["spans"], model.config.constituents):
                judged.append((row, span_index(start, end, n), chain, right))
        columns = torch.tensor(judged, dtype=torch.long).view(-1, 4).unbind(1)  # each (N,)
        found.append(SpanChoices(span_scores, word_counts, *columns))
    return found


def _judged(
    tree: Sequence[Sequence[int]], gold: Iterable[tuple[int, int, str]], chains: Sequence[str]
) -> Iterator[tuple[Sequence[int], bool]]:
    """Yields each constituent (start, end, chain) of a tree, once for each label, and True if that is right."""
    left = Counter(map(tuple, gold))
    for constituent in tree:
        start, end, chain = constituent
        for label in chains[chain].split(CHAIN) if start >= 0 else ():
            yield constituent, left[start, end, label] > 0
            left[start, end, label] -= 1


def join(parts: Sequence[Choices]) -> Choices:
    """Concatenates choices, whose numbers of values may differ."""
    width = max(part.scores.shape[1] for part in parts)
    scores = [pad(part.scores, (0, width - part.scores.shape[1]), value=-torch.inf) for part in parts]  # (N, V)
    chosen = torch.cat([part.chosen for part in parts])
    return Choices(torch.cat(scores), chosen, torch.cat([part.right for part in parts]))


@torch.no_grad()
def _choices(parser: Parser, gold: Sequence[ConlluSentence]) -> Iterator[tuple[str, Choices]]:
    """Yields the choices in each sentence."""
    model: Any = parser.model
    encoded = [parser.encode(source) for source in read_all(gold)]
    if not all(all(sentence["keep"]) for sentence in encoded):
        raise ValueError("the model does not see punctuation: only a parser of all words can be calibrated")
    lengths = [len(sentence["input_ids"]) for sentence in encoded]
    for indices in tqdm(similar_length_batches(lengths, parser.options.batch_size), desc="parsing", unit=" batches"):
        batch = [encoded[index] for index in indices]
        parses = parses_of(batch, decode_batch(batch, model), parser.abilities, ("dependency",))
        choices = _scored(model, {name: value.to(model.device) for name, value in WordCollator()(batch).items()})
        for row, (index, parsed) in enumerate(zip(indices, parses, strict=True)):
            right = _right(parsed.dependency, gold[index])
            n = len(gold[index].forms)
            for name in choices.keys() & right.keys():
                scores, chosen = (values[row, :n].cpu() for values in choices[name])
                found = Choices(scores, chosen, torch.tensor(right[name]))
                is_judged = torch.tensor(right["heads"]) if name == "labels" else torch.ones(n, dtype=torch.bool)
                yield name, Choices(*(values[is_judged] for values in found))


def _scored(model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Scores `(B, n, V)` and the best values `(B, n)` of the last round, by name."""
    sentences, _ = model.read_words(**inputs)
    scores, arcs, _ = model.refine(sentences, None, "tree", model.config.num_rounds)
    found = {"heads": (scores.arcs, arcs.heads)}
    if arcs.labels is not None:
        found["labels"] = (model.decoder.score_labels(*scores.label_vectors, arcs.heads), arcs.labels)
    columns = model.score_columns(sentences, scores.vectors)
    best = model.tagger.best(columns) if columns else {}
    for name, values in best.items():
        found[name] = (columns[name], values if values.dim() == 2 else values[..., 0])
    return found


def _right(tree: Any, gold: ConlluSentence) -> dict[str, list[bool]]:
    """Masks of the words with the right head, label (with that head) and columns."""
    right = {"heads": [head == other for head, other in zip(tree.heads, gold.heads or (), strict=True)]}
    if tree.labels is not None:
        right["labels"] = [label == other for label, other in zip(tree.labels, gold.deprels, strict=True)]
    for name in tree.columns.keys() & {"lemma", "upos", "xpos", "feats"}:
        pairs = zip(tree.columns[name], gold.words, strict=True)
        right[name] = [(value or "_") == getattr(word, name) for value, word in pairs]
    return right
