"""
Best projective trees with exactly one root word (Eisner 1996), for a batch of sentences at once.

`scores[b, d, h]` scores word `h` (0 = root) as the head of word `d + 1`, as in `spanning_tree`. A span from word i to
word j is headed by its left or its right end; it is complete when the other end may take no more dependents:

    I[i, j] = max_k right-complete[i, k] + left-complete[k + 1, j] + the score of the arc between i and j
    right-complete[i, j] = max_k I[i -> k] + right-complete[k, j]
    left-complete[i, j] = max_k left-complete[i, k] + I[k <- j]
    tree = max_r root score of r + left-complete[1, r] + right-complete[r, n]

Spans are stored by one end and by how far the other is, so that the spans of one width of all sentences are one slice.
"""

import numpy as np


class Chart:
    """
    Scores of the best spans and where they split.

    Args:
        arcs (`np.ndarray` of shape `(batch, n, n + 1)`): Float64 scores; -inf at self arcs, padding, forbidden arcs.
    """

    def __init__(self, arcs: np.ndarray):
        self.arcs = arcs
        batch, n, _ = arcs.shape
        shape = (batch, n, n)  # sentence, end of the span that the name says, distance of the other end
        none = np.full(shape, -np.inf)
        complete = none.copy()
        complete[..., :1] = 0.0
        self.right_by_start = complete.copy()
        self.right_by_end = complete.copy()
        self.left_by_start = complete.copy()
        self.left_by_end = complete.copy()
        self.right_open_by_start = none.copy()
        self.left_open_by_end = none.copy()
        # How far from the start the spans of a start and a width split.
        self.split_open = np.zeros(shape, dtype=np.int32)
        self.split_right = np.zeros(shape, dtype=np.int32)
        self.split_left = np.zeros(shape, dtype=np.int32)
        for width in range(1, n):
            self._fill(width, n - width)

    def _fill(self, width: int, count: int) -> None:
        start = np.arange(count)
        end = start + width
        inner, self.split_open[:, :count, width] = _best(
            self.right_by_start[:, :count, :width], self.left_by_end[:, width:, :width]
        )
        self.right_open_by_start[:, :count, width] = inner + self.arcs[:, end, start + 1]
        self.left_open_by_end[:, width:, width] = inner + self.arcs[:, start, end + 1]
        right, split = _best(self.right_open_by_start[:, :count, 1 : width + 1], self.right_by_end[:, width:, :width])
        self.right_by_start[:, :count, width] = right
        self.right_by_end[:, width:, width] = right
        self.split_right[:, :count, width] = split + 1
        left, split = _best(self.left_by_start[:, :count, :width], self.left_open_by_end[:, width:, 1 : width + 1])
        self.left_by_start[:, :count, width] = left
        self.left_by_end[:, width:, width] = left
        self.split_left[:, :count, width] = split

    def best_heads(self, sentence: int, length: int) -> np.ndarray | None:
        """Heads of the best tree of a sentence, `(length,)`, or None if there is none."""
        words = np.arange(length)
        total = (
            self.arcs[sentence, :length, 0]
            + self.left_by_start[sentence, 0, :length]
            + self.right_by_end[sentence, length - 1, length - 1 - words]
        )
        root = int(total.argmax())
        if total[root] == -np.inf:
            return None
        heads = np.zeros(length, dtype=np.int64)
        spans = [("left", 0, root), ("right", root, length - 1)]
        while spans:
            kind, start, end = spans.pop()
            if start < end:
                spans += self._parts(kind, sentence, start, end, heads)
        return heads

    def _parts(self, kind: str, sentence: int, start: int, end: int, heads: np.ndarray) -> list[tuple[str, int, int]]:
        width = end - start
        if kind == "right":
            middle = start + int(self.split_right[sentence, start, width])
            return [("right open", start, middle), ("right", middle, end)]
        if kind == "left":
            middle = start + int(self.split_left[sentence, start, width])
            return [("left", start, middle), ("left open", middle, end)]
        if kind == "right open":
            heads[end] = start + 1
        else:
            heads[start] = end + 1
        middle = start + int(self.split_open[sentence, start, width])
        return [("right", start, middle), ("left", middle + 1, end)]


def _best(from_start: np.ndarray, from_end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Best sum of two adjacent parts of a span, and where it splits, `(batch, count)`: the longer the first part, the
    shorter the second.
    """
    sums = from_start + from_end[..., ::-1]  # (batch, count, splits)
    where = sums.argmax(-1)
    return np.take_along_axis(sums, where[..., None], axis=-1)[..., 0], where  # (batch, count)


def best_projective_trees(arcs: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best heads `(batch, n)`, -1 in padding, of masked float64 scores, and whether there is a tree, `(batch,)`."""
    heads = np.full(arcs.shape[:2], -1)
    solved = np.ones(len(arcs), dtype=bool)
    chart = Chart(arcs)
    for sentence, length in enumerate(lengths.tolist()):
        best = chart.best_heads(sentence, length) if length else heads[sentence, :0]
        if best is None:
            solved[sentence] = False
        else:
            heads[sentence, :length] = best
    return heads, solved
