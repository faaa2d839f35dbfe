"""
The simple form of GiLT's dependency scorer, one pair of words at a time, as in sections 3.1 and 3.2 of the paper.

Read this first: `scorer_gilt` computes the same scores for whole batches, and is tested against this form.
"""

import torch

from hf_structure.models.gilt.scorer_gilt import DependencyScorer
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

PARENT = 0
CHILD = 1


def naive_scores(
    scorer: DependencyScorer, words: torch.Tensor, tapes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Scores all words of one sentence, whose graph is given.

    Words are numbered from 1, and 0 is the root. When word `i` comes, arcs from and to all earlier words `j` are
    scored with the tape of the graph over the words before `i`:

        logit of j -> i = pe_ij . W_p ce_ii,    logit of i -> j = pe_ii . W_p ce_ij                                 (2)

        s = sum over j < i of (pe_ii * W_s ce_ij + pe_ij * W_s ce_ii)
        logits of the number of new arcs = counts(s / sqrt(2i - 1))                                                 (3)

    The root is never a child, so that there are 2i - 1 candidate arcs.

    Args:
        words (`torch.FloatTensor` of shape `(n, 3 * hidden_size)`): State before each word and its first embedding.
        tapes (`torch.ByteTensor` of shape `(features, n + 1, n + 1)`): Tapes of all prefixes; `tapes[f, k, j]` is
            feature `f` of word `j` as seen from word `k`.

    Returns:
        Logits of arcs, `(n + 1, n + 1)`, heads in rows and `-inf` where there can be none; and of the number of arcs
        that come with each word, `(n, max_new_arcs + 1)`.
    """
    states = torch.cat([scorer.root.unsqueeze(0), words])  # (n + 1, 3 * hidden_size)
    unrelated = torch.zeros_like(tapes[:, 0, 0])
    arcs = torch.full((len(states), len(states)), -torch.inf, dtype=states.dtype)
    counts = []
    for i in range(1, len(states)):
        own_parent = pair_vector(scorer, PARENT, states[i], 0, unrelated)  # pe_ii
        own_child = pair_vector(scorer, CHILD, states[i], 0, unrelated)  # ce_ii
        summary = torch.zeros(scorer.size, dtype=states.dtype)
        for j in range(i):
            # The arcs of word i itself are still unknown, so the graph is read from the word before it.
            features = tapes[:, i - 1, j]
            parent = pair_vector(scorer, PARENT, states[j], i - j, features)  # pe_ij
            arcs[j, i] = parent @ scorer.arc_matrix @ own_child
            summary = summary + parent * (scorer.count_matrix @ own_child)
            if j > 0:
                child = pair_vector(scorer, CHILD, states[j], i - j, features)  # ce_ij
                arcs[i, j] = own_parent @ scorer.arc_matrix @ child
                summary = summary + own_parent * (scorer.count_matrix @ child)
        candidates = 2 * i - 1
        logits = scorer.counts(summary / candidates**0.5)
        is_impossible = torch.arange(len(logits)) > candidates
        counts.append(logits.masked_fill(is_impossible, -torch.inf))
    return arcs, torch.stack(counts)


def pair_vector(
    scorer: DependencyScorer, role: int, state: torch.Tensor, distance: int, features: torch.Tensor
) -> torch.Tensor:
    """
    Vector `(scorer_size,)` of a word in the role of parent or child, as seen from another word (eq. 2):

        second(first(state) + r(distance) + sum over features f of embeddings_f[features[f]])

    with sinusoids r; at distance 0, from itself.
    """
    first = (scorer.parent_first, scorer.child_first)[role]
    second = (scorer.parent_second, scorer.child_second)[role]
    embeddings = (scorer.parent_features, scorer.child_features)[role]
    vector = first(state) + sinusoids(torch.tensor(distance), scorer.hidden_size)
    for feature, value in enumerate(features.tolist()):
        vector = vector + embeddings.weight[feature * scorer.num_values + value]
    return second(vector)
