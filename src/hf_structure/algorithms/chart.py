"""
Labelled constituency trees over padded batches of span scores: sums over all of them. For the best ones, see
[`~hf_structure.algorithms.cky`].

A tree is a set of labelled constituents that do not cross, the whole sentence among them; a constituent has two or
more children, or is a single word. (A unary chain is one label.) The score of a tree is the sum of the scores of its
constituents, and its probability is proportional to exp(score). The trees of one word include the one without
constituents.

A chart needs binary trees, so that constituents of more than two children are built from the left, one child at a
time, as X -> [c_1 c_2] c_3: a span without a label, which scores 0, holds the children so far. It must be a left
child. So every tree has exactly one derivation, sums count it once, and the k best trees differ. With i < k < j
boundaries between words, s_l the score of label l,

    S(i, j) = sum_k A(i, k) R(k, j)              two parts; 1 for a single word
    R(i, j) = S(i, j) sum_l exp s_l(i, j)        a constituent
    A(i, j) = S(i, j) + R(i, j)                  a constituent, or the first children of a longer one
    Z = R(0, n)

and R = A for a single word. The widths of spans are a loop; everything else is computed for all spans of a width at
once, in float64 (on the CPU if the scores are on a device that has none). O(n^3) for a sentence of n words.

The spans of n words are packed, `S = n (n + 1) / 2` of them, by their width and then their start: see `all_spans`.
"""

from typing import NamedTuple

import torch

from hf_structure.algorithms.float64 import double


def all_spans(n: int) -> torch.Tensor:
    """All spans of `n` words as they are packed: starts and ends, half-open, of shape `(S, 2)`."""
    ends, starts = torch.tril_indices(n + 1, n + 1, offset=-1)
    order = (ends - starts).argsort(stable=True)  # within a width, ends and starts ascend together
    return torch.stack([starts[order], ends[order]], dim=1)  # (S, 2)


def span_index(start: int | torch.Tensor, end: int | torch.Tensor, n: int) -> int | torch.Tensor:
    """Index of a span, or of each of several, among all spans of `n` words."""
    width = end - start
    return (width - 1) * (2 * n - width + 2) // 2 + start


def chart_log_partition(scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    Log of the sum of exp(score) over all labelled trees; differentiable.

    Args:
        scores (`torch.Tensor` of shape `(batch, S, labels)`): Scores of labelled spans; -inf forbids one.
        lengths (`torch.Tensor` of shape `(batch,)`): Words of each sentence. Spans beyond them do not count.

    Returns:
        `torch.Tensor` of shape `(batch,)`, float64; 0 for a sentence without words, -inf for one without a tree.
    """
    scores = double(scores)
    return _LogPartition.apply(scores, lengths.to(scores.device))


def chart_log_prob(scores: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    Log-probability of a tree of each sentence, which is not checked to be one.

    Args:
        scores, lengths: As for [`chart_log_partition`].
        labels (`torch.LongTensor` of shape `(batch, S)`): Label of each constituent; negative for other spans.

    Returns:
        `torch.Tensor` of shape `(batch,)`, float64.
    """
    return tree_scores(scores, labels) - chart_log_partition(scores, lengths)


def constituent_labels(constituents: torch.Tensor, num_spans: int) -> torch.Tensor:
    """The label of each span, `(batch, S)`, -1 for none, of constituents `(batch, m, 3)` (start, end, label)."""
    n = num_words(num_spans)
    starts, ends, labels = constituents.unbind(2)
    # Padding, -1, is written to one more span, which is cut off.
    indices = torch.where(starts >= 0, span_index(starts, ends, n), num_spans)  # (batch, m)
    spans = labels.new_full((len(labels), num_spans + 1), -1)
    return spans.scatter(1, indices, labels)[:, :num_spans]  # (batch, S)


def tree_scores(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Scores of trees, `(batch,)`, with arguments as for [`chart_log_prob`]."""
    scores = double(scores)
    labels = labels.to(scores.device)
    chosen = scores.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)  # (batch, S)
    return chosen.masked_fill(labels < 0, 0.0).sum(1)


def chart_sums(scores: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    [`chart_log_partition`], whose arguments it has, with its gradient: the probability of each labelled constituent
    over all trees. Not differentiable.

    Returns:
        `torch.Tensor`s of shapes `(batch,)` and `(batch, S, labels)`, float64; the probabilities are zero for a
        sentence without a tree.
    """
    scores = double(scores.detach())
    lengths = lengths.to(scores.device)
    chart = _inside(scores)
    return _root(chart, lengths), _outside(scores, lengths, chart)


class _Chart(NamedTuple):
    """The logarithms of A, R and S, so laid out that the parts of a span are slices."""

    left: torch.Tensor  # (batch, n, n + 1): A by start and width
    right: torch.Tensor  # (batch, n + 1, n + 1): R by end and width
    split: list[torch.Tensor]  # of each width, (batch, n - width + 1)

    def parts(self, width: int) -> torch.Tensor:
        """Log of A(i, k) R(k, j), of shape `(batch, n - width + 1, width - 1)`, for the spans of a width."""
        starts = self.left.shape[1] - width + 1
        # As the left part gets longer, the right one gets shorter.
        return self.left[:, :starts, 1:width] + self.right[:, width:, 1:width].flip(2)


def _inside(scores: torch.Tensor) -> _Chart:
    batch, num_spans, _ = scores.shape
    n = num_words(num_spans)
    as_constituent = scores.logsumexp(2)  # (batch, S)
    as_any = torch.logaddexp(as_constituent, as_constituent.new_zeros(()))  # without a label: 0
    left = scores.new_full((batch, n, n + 1), -torch.inf)
    right = scores.new_full((batch, n + 1, n + 1), -torch.inf)
    right[:, 0, 0] = 0
    chart = _Chart(left, right, [])
    for width in range(1, n + 1):
        starts = n - width + 1
        first = span_index(0, width, n)
        spans = slice(first, first + starts)
        split = chart.parts(width).logsumexp(2) if width > 1 else as_any.new_zeros(batch, starts)
        left[:, :starts, width] = as_any[:, spans] + split
        right[:, width:, width] = (as_constituent if width > 1 else as_any)[:, spans] + split
        chart.split.append(split)
    return chart


def _root(chart: _Chart, lengths: torch.Tensor) -> torch.Tensor:
    """Log Z of each sentence, `(batch,)`."""
    return chart.right[torch.arange(len(lengths), device=lengths.device), lengths, lengths]


def _outside(scores: torch.Tensor, lengths: torch.Tensor, chart: _Chart) -> torch.Tensor:
    """
    Marginals, from the widest spans to the words: a span that is used with probability p hands p over to its parts, in
    proportion to A(i, k) R(k, j), and to its labels, in proportion to exp s_l.
    """
    n = chart.left.shape[1]
    # Of a span that may have no label, the share that has one.
    labelled = scores.logsumexp(2).sigmoid()  # (batch, S)
    constituents = torch.zeros_like(labelled)
    use_left = torch.zeros_like(chart.left)
    use_right = torch.zeros_like(chart.right)
    sentences = torch.arange(len(scores), device=scores.device)
    has_tree = _root(chart, lengths) > -torch.inf
    use_right[sentences, lengths, lengths] = has_tree.to(scores.dtype)
    for width in range(n, 0, -1):
        starts = n - width + 1
        first = span_index(0, width, n)
        spans = slice(first, first + starts)
        as_any = use_left[:, :starts, width]
        as_constituent = use_right[:, width:, width]
        if width == 1:
            as_any = as_any + as_constituent
            as_constituent = torch.zeros_like(as_any)
        constituents[:, spans] = as_any * labelled[:, spans] + as_constituent
        if width > 1:
            share = (chart.parts(width) - chart.split[width - 1].unsqueeze(2)).exp().nan_to_num(0)
            share = share * (as_any + as_constituent).unsqueeze(2)  # (batch, starts, width - 1)
            use_left[:, :starts, 1:width] += share
            use_right[:, width:, 1:width] += share.flip(2)
    # A softmax over labels that are all forbidden is NaN, but such a span is no constituent.
    return scores.softmax(2).nan_to_num(0) * constituents.unsqueeze(2)


class _LogPartition(torch.autograd.Function):
    """Its gradient is the marginals, which need no graph of the chart's computation."""

    @staticmethod
    def forward(ctx, scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        chart = _inside(scores)
        ctx.save_for_backward(scores, lengths, chart.left, chart.right, *chart.split)
        return _root(chart, lengths)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        scores, lengths, left, right, *split = ctx.saved_tensors
        return gradient[:, None, None] * _outside(scores, lengths, _Chart(left, right, split)), None


def num_words(num_spans: int) -> int:
    """Number of words that have `num_spans` spans."""
    return int((2 * num_spans) ** 0.5)
