"""
Dependency graphs that grow word by word, and the feature tapes read from them (GiLT, Huang et al., sections 3.2-3.3).

A batch of graphs is a boolean tensor `arcs` of shape `(batch_size, n + 1, n + 1)`: `arcs[b, h, d]` says that word `h`
is a head of word `d`; words are numbered from 1 and 0 is the root, which is nobody's dependent. Cycles, several heads
and unconnected words are all allowed. An arc is known as soon as the later of its two words is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

FEATURES = ("degree", "distance", "depth")
MOST = 255  # what a byte of a tape holds; sums of so large weights fit in 32 bits
_UNREACHABLE = 2**28  # four of them can be added in 32 bits


@dataclass(frozen=True)
class TapeFeatures:
    """
    The features that are read from a graph.

    Args:
        names (`Sequence[str]`): Any of `"degree"`, `"distance"` and `"depth"`, in the order of the tapes.
        degree_weights (`tuple[int, int]`): Weights of an outgoing and an incoming arc in a word's degree.
        distance_weights (`tuple[int, int]`): Length of an arc followed from head to dependent, and from dependent to
            head.
        max_value (`int`): Larger values are clipped to this one; at most 255.

    Raises:
        ValueError: an unknown or repeated name, weights that are not two, or a weight or `max_value` not in 1..255.
    """

    names: Sequence[str] = FEATURES
    degree_weights: Sequence[int] = (10, 1)
    distance_weights: Sequence[int] = (10, 1)
    max_value: int = 150

    def __post_init__(self):
        if len(set(self.names)) < len(self.names) or not set(self.names) <= set(FEATURES):
            raise ValueError(f"graph features are some of {', '.join(FEATURES)}, not {list(self.names)}")
        for weights in (self.degree_weights, self.distance_weights):
            if len(weights) != 2 or not 1 <= min(weights) <= max(weights) <= MOST:
                message = f"weights of degree and distance must be two, each between 1 and {MOST}"
                raise ValueError(f"{message}, not {list(weights)}")
        if not 1 <= self.max_value <= MOST:
            message = f"the largest value of features, max_feature_value, must be between 1 and {MOST}"
            raise ValueError(f"{message}, not {self.max_value}")

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Length of an arc along and against its direction, for each kind of distance that the features need."""
        kinds = {"distance": tuple(self.distance_weights), "depth": (1, 1)}
        return [kinds[name] for name in self.names if name in kinds]


@dataclass(frozen=True)
class DependencyGraphs:
    """A batch of growing graphs with the shortest paths between all their words."""

    features: TapeFeatures  # what is read from them
    arcs: torch.Tensor  # (batch_size, n + 1, n + 1): the graphs, with room for `n` words
    distances: torch.Tensor  # (batch_size, kinds, n + 1, n + 1): all-pairs distances, unclipped

    @classmethod
    def empty(cls, batch_size: int, features: TapeFeatures, device: torch.device | None = None) -> "DependencyGraphs":
        """Graphs of the root alone."""
        arcs = torch.zeros(batch_size, 1, 1, dtype=torch.bool, device=device)
        return cls(features, arcs, _no_paths(arcs, features))

    def with_room(self, words: int) -> "DependencyGraphs":
        """The same graphs with room for at least so many words."""
        missing = words + 1 - self.arcs.shape[-1]
        if missing <= 0:
            return self
        arcs = torch.nn.functional.pad(self.arcs, (0, missing, 0, missing))
        distances = _no_paths(arcs, self.features)
        distances[..., :-missing, :-missing] = self.distances
        return replace(self, arcs=arcs, distances=distances)

    def insert(self, words: torch.Tensor, heads: torch.Tensor, dependents: torch.Tensor) -> "DependencyGraphs":
        """
        Adds one word to each graph, exactly and in O(n^2) time per graph: of numbers `(batch_size,)`, for which there
        must be room (0 leaves a graph as it is), with heads and dependents `(batch_size, n + 1)` among earlier words.
        """
        is_new = torch.arange(self.arcs.shape[-1], device=words.device) == words.unsqueeze(1)
        is_new[:, 0] = False
        inserted = is_new.any(1, keepdim=True)
        heads = heads & inserted
        dependents = dependents & inserted
        outgoing = is_new.unsqueeze(2) & dependents.unsqueeze(1)  # (B, n + 1, n + 1)
        incoming = heads.unsqueeze(2) & is_new.unsqueeze(1)
        arcs = self.arcs | outgoing | incoming
        to = _arc_lengths(dependents, heads, self.features).masked_fill(is_new.unsqueeze(1), 0)  # (B, kinds, n + 1)
        back = _arc_lengths(heads, dependents, self.features).masked_fill(is_new.unsqueeze(1), 0)
        distances = self.distances.clone()
        _insert(
            distances.permute(1, 2, 3, 0),  # (kinds, n + 1, n + 1, B)
            to.permute(1, 2, 0),  # (kinds, n + 1, B)
            back.permute(1, 2, 0),  # (kinds, n + 1, B)
        )
        return replace(self, arcs=arcs, distances=distances)

    def tape(self, words: torch.Tensor) -> torch.Tensor:
        """
        Features `(batch_size, features, n + 1)` of all words as seen from the newest ones, of numbers `(batch_size,)`.
        """
        paths = iter(self.distances.unbind(1))
        tape = []
        for name in self.features.names:
            if name == "degree":
                out, into = self.features.degree_weights
                values = out * self.arcs.sum(2) + into * self.arcs.sum(1)  # (B, n + 1)
                values = values.clamp(max=self.features.max_value)
            elif name == "distance":
                index = words.view(-1, 1, 1).expand(-1, 1, self.arcs.shape[-1])  # (B, 1, n + 1)
                values = _values(name, next(paths).gather(1, index).squeeze(1), self.features)  # (B, n + 1)
            else:
                values = _values(name, next(paths)[:, 0], self.features)
            tape.append(values.to(torch.uint8))
        if not tape:
            return self.arcs.new_zeros(len(words), 0, self.arcs.shape[-1]).byte()
        return torch.stack(tape, dim=1)  # (B, features, n + 1)

    def select(self, rows: torch.Tensor) -> "DependencyGraphs":
        """The graphs of some rows of the batch, in this order."""
        return replace(self, arcs=self.arcs.index_select(0, rows), distances=self.distances.index_select(0, rows))


def prefix_tapes(arcs: torch.Tensor, features: TapeFeatures | None = None) -> torch.Tensor:
    """
    Feature tapes of all prefixes of annotated sentences, whose padding has no arcs; by default the paper's features.

    Returns:
        `torch.ByteTensor` of shape `(batch_size, features, n + 1, n + 1)`: `[b, f, i, j]` is feature `f` of word `j`
            in the graph of the words up to `i`, seen from `i`; 0 for `j > i`.
    """
    return replay(arcs, features or TapeFeatures())[0]


def replay(arcs: torch.Tensor, features: TapeFeatures) -> tuple[torch.Tensor, DependencyGraphs]:
    """
    Inserts all words of whole graphs, one after the other: the tapes of all prefixes, as from [`prefix_tapes`], and
    the graphs at the end.
    """
    size = arcs.shape[-1]
    kinds = [name for name in features.names if name != "degree"]
    distances = _batch_last(_no_paths(arcs, features))  # (kinds, n + 1, n + 1, B)
    lengths = _batch_last(_arc_lengths(arcs, arcs.transpose(1, 2), features))  # (kinds, n + 1, n + 1, B)
    lengths.diagonal(dim1=1, dim2=2).zero_()
    read = torch.full_like(distances, _UNREACHABLE)  # the paths that are on tapes, a row for each prefix
    read[:, 0, 0] = 0
    for word in range(1, size if kinds else 0):
        known = slice(word + 1)
        paths = distances[:, known, known]
        _insert(paths, lengths[:, word, known], lengths[:, known, word])
        for kind, name in enumerate(kinds):
            read[kind, word, known] = paths[kind, word if name == "distance" else 0]
    rows = iter(read.permute(0, 3, 1, 2))  # of each kind (B, n + 1, n + 1)
    tapes = torch.zeros(len(arcs), len(features.names), size, size, dtype=torch.uint8, device=arcs.device)
    for row, name in enumerate(features.names):
        if name == "degree":
            tapes[:, row] = _prefix_degrees(arcs, features)
        else:
            tapes[:, row] = _values(name, next(rows), features)
    return tapes, DependencyGraphs(features, arcs, distances.permute(3, 0, 1, 2))  # (B, kinds, n + 1, n + 1)


def expand_tapes(tapes: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """
    Turns tapes over words into tapes over tokens. The simple form, for one sentence:

        tapes[:, rows][:, :, columns] * (columns > 0)

    Args:
        tapes (`torch.Tensor` of shape `(batch_size, features, n + 1, n + 1)`): Tapes of all prefixes.
        rows, columns (`torch.LongTensor` of shape `(batch_size, queries)` and `(batch_size, keys)`): The word of each
            token, 0 for tokens that are part of no word; their features are 0.

    Returns:
        `torch.Tensor` of shape `(batch_size, features, queries, keys)`.
    """
    cells = (tapes.shape[-1] * rows.unsqueeze(2) + columns.unsqueeze(1)).flatten(1)  # (B, queries * keys)
    cells = cells.unsqueeze(1).expand(-1, tapes.shape[1], -1)  # (B, features, queries * keys)
    expanded = tapes.flatten(2).gather(2, cells)  # (B, features, queries * keys)
    expanded = expanded.view(*tapes.shape[:2], rows.shape[1], columns.shape[1])  # (B, features, queries, keys)
    return expanded * (columns > 0).view(len(columns), 1, 1, -1)  # (B, 1, 1, keys)


def new_arcs(values: torch.Tensor, fill: float | bool = False) -> torch.Tensor:
    """
    Values of arcs, `(batch_size, n + 1, n + 1)` with heads in rows, sorted by the later of their two words, with which
    they become known: `(batch_size, n + 1, 2, n + 1)` with the value of the arc from `j` to `i` at `[b, i, 0, j]` and
    the value of the arc from `i` to `j` at `[b, i, 1, j]`, for words `j` before `i`; `fill` if there can be no arc.
    """
    position = torch.arange(values.shape[-1], device=values.device)
    earlier = position < position.unsqueeze(1)
    is_candidate = torch.stack([earlier, earlier & (position > 0)], dim=1)  # (n + 1, 2, n + 1)
    candidates = torch.stack([values.transpose(1, 2), values], dim=2)  # (B, n + 1, 2, n + 1)
    return candidates.masked_fill(~is_candidate, fill)


def best_arcs(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """
    Graphs `(batch_size, n + 1, n + 1)` of the best arcs that come with each word (section 3.2), by scores of that
    shape, `-inf` if impossible, and by how many `(batch_size, n)` come.
    """
    counts = torch.nn.functional.pad(counts, (1, 0))
    chosen = best_new_arcs(new_arcs(scores, -torch.inf), counts)  # (B, n + 1, 2, n + 1)
    return chosen[:, :, 0].transpose(1, 2) | chosen[:, :, 1]  # (B, n + 1, n + 1)


def best_new_arcs(candidates: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """
    The best arcs of single words, `(..., 2, n + 1)`: `counts` `(...)` of them, by scores `(..., 2, n + 1)` as from
    [`new_arcs`].
    """
    flat = candidates.flatten(-2)  # (..., 2 * (n + 1))
    rank = flat.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    chosen = (rank < counts.unsqueeze(-1)) & (flat > -torch.inf)
    return chosen.unflatten(-1, (2, -1))  # (..., 2, n + 1)


def arc_statistics(scores: torch.Tensor, count_scores: torch.Tensor, arcs: torch.Tensor) -> dict[str, int]:
    """
    Compares the arcs that a model predicts with the annotated ones: sums, to be added up over batches.

    Args:
        scores (`torch.FloatTensor` of shape `(batch_size, n + 1, n + 1)`): Score of every arc, `-inf` if impossible.
        count_scores (`torch.FloatTensor` of shape `(batch_size, n, classes)`): Scores of the number of new arcs.
        arcs (`torch.BoolTensor` of shape `(batch_size, n + 1, n + 1)`): The annotated graphs.

    Returns:
        `dict[str, int]`: `correct`, `predicted` and `gold` arcs; `right_counts` and `words`.
    """
    counts = count_scores.argmax(-1)
    predicted = best_arcs(scores, counts)
    is_word = scores[:, 0, 1:] > -torch.inf
    gold_counts = new_arcs(arcs.bool()).flatten(2).sum(2)[:, 1:]  # (B, n)
    sums = {
        "correct": predicted & arcs.bool(),
        "predicted": predicted,
        "gold": arcs.bool(),
        "right_counts": (counts == gold_counts) & is_word,
        "words": is_word,
    }
    return {name: int(values.sum()) for name, values in sums.items()}


def _insert(distances: torch.Tensor, to: torch.Tensor, back: torch.Tensor) -> None:
    """
    Inserts a word into all-pairs distances `(kinds, n, n, B)`, in place. `to` and `back`, both `(kinds, n, B)`, are
    the lengths of the arcs from and to the new word (0 for itself, unreachable where there is none).

        d(i, v) = min_j to_j + d(j, v),  d(u, i) = min_j d(u, j) + back_j,  d(u, v) = min(d(u, v), d(u, i) + d(i, v))

    A shortest path passes the new word `i` at most once, so old distances are all that is needed.
    """
    sums = to.unsqueeze(2) + distances  # (kinds, n, n, B)
    leaving = sums.amin(1)  # (kinds, n, B)
    arriving = torch.add(distances, back.unsqueeze(1), out=sums).amin(2)
    torch.add(arriving.unsqueeze(2), leaving.unsqueeze(1), out=sums)
    torch.minimum(distances, sums, out=distances)


def _batch_last(values: torch.Tensor) -> torch.Tensor:
    """`(kinds, n, n, B)`: many sentences side by side vectorise better than short rows of words."""
    return values.permute(1, 2, 3, 0).contiguous()  # (kinds, n, n, B)


def _no_paths(arcs: torch.Tensor, features: TapeFeatures) -> torch.Tensor:
    size = arcs.shape[-1]
    shape = (len(arcs), len(features.lengths), size, size)
    distances = torch.full(shape, _UNREACHABLE, dtype=torch.int32, device=arcs.device)
    distances.diagonal(dim1=2, dim2=3).zero_()
    return distances


def _arc_lengths(outgoing: torch.Tensor, incoming: torch.Tensor, features: TapeFeatures) -> torch.Tensor:
    """Lengths `(B, kinds, ...)` of single arcs followed from a word, from masks `(B, ...)` of its arcs."""
    shape = (len(outgoing), len(features.lengths), *outgoing.shape[1:])
    lengths = torch.full(shape, _UNREACHABLE, dtype=torch.int32, device=outgoing.device)
    for kind, (along, against) in enumerate(features.lengths):
        for length, mask in sorted([(along, outgoing), (against, incoming)], key=lambda pair: -pair[0]):
            lengths[:, kind].masked_fill_(mask, length)  # the shorter last: it counts where there are arcs both ways
    return lengths


def _prefix_degrees(arcs: torch.Tensor, features: TapeFeatures) -> torch.Tensor:
    """`(B, n + 1, n + 1)`: weighted degree of each word (column) in each prefix (row)."""
    out, into = features.degree_weights
    added = out * arcs.transpose(1, 2).int() + into * arcs.int()  # [i, j]: to word j by arcs to and from word i
    return added.cumsum(1, dtype=torch.int32).tril_().clamp_(max=features.max_value).to(torch.uint8)


def _values(name: str, paths: torch.Tensor, features: TapeFeatures) -> torch.Tensor:
    """Values of distance or depth from the lengths of paths."""
    values = paths if name == "distance" else paths + 1
    return values.masked_fill(paths >= _UNREACHABLE, 0).clamp_(max=features.max_value)
