"""
The dependency model with valence (DMV, Klein and Manning 2004), the classical baseline of grammar induction: it learns
from tags alone, by EM, how often words take dependents of which tags on which side, and when they stop.

    python examples/run_dmv.py --train_file en_ewt-train.conllu --test_file en_ewt-test.conllu --random_seeds 1 2 3 4

A word generates its dependents on each side from the nearest to the farthest. Before each it chooses whether to stop,
knowing its tag, the side, and whether it has a dependent there already (valence):

    p(tree) = p(root tag) * product over words and sides of
              product over dependents of p(go on | tag, side, valence) p(dependent's tag | tag, side)
              * p(stop | tag, side, valence)

EM maximises the likelihood of training sentences of up to `--max_length` words. The expected counts of the E-step are
the gradient of the log-likelihood (Eisner 2016), the best trees the gradient of the best score. EM finds what is near
its start: "harmonic" (as in section 4 of the paper) first takes the head of a word to be the more likely the nearer it
is; `--random_seeds` start from random probabilities. Punctuation is left out. The table that is printed has UAS and
UUAS on all sentences and on those of up to `--max_length` words, beside neighbours as heads.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from hf_structure.cli.common import run_with_options
from hf_structure.data.conllu import ConlluError, ConlluSentence, read_conllu, write_conllu
from hf_structure.data.files import new_path
from hf_structure.metrics.attachment import attachment_scores, keep_mask, left_chain, right_chain
from hf_structure.training.comparison import markdown_table, score_cells

LEFT, RIGHT = 0, 1
STOP, GO = 0, 1
HAS_NONE, HAS_SOME = 0, 1  # valence: whether there are dependents on this side
Reduction = Callable[[torch.Tensor], torch.Tensor]  # over the first dimension


class Scores(NamedTuple):
    """
    What is multiplied to the probability of a tree, as logarithms: of the words of sentences, or of tags (then without
    the dimension of the batch, and with `attach` of heads, sides and dependents).

    Args:
        root (`torch.Tensor` of shape `(batch, n)`): That a word is the root.
        choice (`torch.Tensor` of shape `(batch, n, 2, 2, 2)`): That a word stops or goes on; by side and valence.
        attach (`torch.Tensor` of shape `(batch, n, n)`): That the dependent of a head is this word: `[head, dependent]`.
    """

    root: torch.Tensor
    choice: torch.Tensor
    attach: torch.Tensor


def inside(scores: Scores, reduce: Reduction) -> torch.Tensor:
    """
    The inside algorithm on split heads (Eisner 1996, with valence), of sentences of one length: `(batch,)`.

    The sum over all projective trees with one root if `reduce` is a log-sum, the best of them if it is a maximum. A
    half span is a word and its dependents on one side. It is open if the word may take more, closed once it has
    stopped; `[width][:, start]` is what is stored. All derivations of a tree are one, so nothing counts twice.
    """
    n = scores.root.shape[1]
    stop = scores.choice[..., STOP]
    go_on = scores.choice[..., GO]
    # An open right half begins with its head, an open left half ends with it.
    closed, going = {LEFT: [], RIGHT: []}, {LEFT: [], RIGHT: []}
    joined = {LEFT: [None], RIGHT: [None]}  # head and dependent at the ends of a span, by the side of the dependent
    for width in range(n):
        count = n - width
        heads = {LEFT: slice(width, n), RIGHT: slice(0, count)}
        for side in (LEFT, RIGHT):
            if width == 0:
                half = torch.zeros_like(scores.root)
            else:
                inner = closed[RIGHT] if side == LEFT else going[RIGHT]
                outer = going[LEFT] if side == LEFT else closed[LEFT]
                pairs = _joined(inner, outer, width, count, gap=1)
                arcs = scores.attach.diagonal(width if side == RIGHT else -width, dim1=1, dim2=2)  # (batch, count)
                joined[side].append(reduce(torch.stack(pairs)) + arcs)
        for side in (LEFT, RIGHT):
            if width > 0:
                parts = (closed[LEFT], joined[LEFT]) if side == LEFT else (joined[RIGHT], closed[RIGHT])
                splits = range(width) if side == LEFT else range(1, width + 1)
                half = reduce(torch.stack([_at(parts, split, width, count) for split in splits]))
            valence = HAS_SOME if width else HAS_NONE
            closed[side].append(half + stop[:, heads[side], side, valence])
            going[side].append(half + go_on[:, heads[side], side, valence])
    roots = [scores.root[:, r] + closed[LEFT][r][:, 0] + closed[RIGHT][n - 1 - r][:, r] for r in range(n)]
    return reduce(torch.stack(roots))
