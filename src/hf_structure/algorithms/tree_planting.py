"""
Attention that follows the distances in a tree, and a loss for it (Yoshida et al. 2024, "Tree-Planted Transformers").

A tree is the list of the parents of its nodes: of the words, 1..n, and then of other nodes, if any; the root has
parent 0. The distance d of two words is the number of edges between them. The beginning of a sentence, 0, and its end,
n + 1, are further children of the root. The words before a word w are attended to with the probabilities

    P(w, v) = exp(-d(w, v)) / sum_u exp(-d(w, u)),  v and u in 0..w - 1

by the token that predicts w. So the query before the first token of a word is about that word.
"""

from collections.abc import Sequence

import torch

from hf_structure.algorithms.trees import span_children, span_order

Span = tuple[int, int]


def constituent_parents(spans: Sequence[Span], length: int) -> list[int]:
    """
    Parents of the nodes of a constituency tree: of its words, 1..length, and of its constituents. The tags of words
    are no nodes: they would add the same to all distances of words.

    Args:
        spans (`Sequence[tuple[int, int]]`): Constituents, half-open, counted from 0, in any order.
        length (`int`): Number of words.

    Raises:
        ValueError: if the spans form no tree, see [`~hf_structure.algorithms.trees.span_order`].
    """
    ordered = [spans[index] for index in span_order(spans, length)]
    parents = [0] * (length + len(ordered))
    for number, children in enumerate(span_children(ordered, length)):
        for child in children:
            # Nodes of constituents come after those of words.
            node = child - len(ordered) if child >= len(ordered) else length + child
            parents[node] = length + 1 + number
    return parents


def tree_distances(parents: Sequence[int], length: int) -> torch.Tensor:
    """
    Distances in a tree, with one root, of the beginning, the words and the end of a sentence.

    Args:
        parents (`Sequence[int]`): Parents of the words, such as their heads, and of other nodes.
        length (`int`): Number of words.

    Returns:
        `torch.Tensor` of shape `(length + 2, length + 2)`.
    """
    nodes = len(parents)
    root = parents.index(0) + 1
    # Row and column 0 are the beginning, the last ones the end.
    parents = [root, *parents, root]
    is_above = torch.zeros(nodes + 2, nodes + 2, dtype=torch.float32)  # ancestors of each node, and itself
    for node in range(nodes + 2):
        above = node
        while True:
            is_above[node, above] = 1
            if above == root:
                break
            above = parents[above]
    chosen = is_above[[*range(length + 1), nodes + 1]]  # (length + 2, nodes + 2)
    depths = chosen.sum(-1)
    # A path leaves out the ancestors that both ends share.
    return depths[:, None] + depths - 2 * chosen @ chosen.T


def planting_target(parents: Sequence[int], length: int) -> torch.Tensor:
    """
    Probabilities P(w, v) of the words w = 1..n + 1, the end included, over the words v = 0..n, the beginning included.

    Args:
        parents (`Sequence[int]`): See [`tree_distances`].
        length (`int`): Number of words, `n`.

    Returns:
        `torch.Tensor` of shape `(n + 1, n + 1)`; 0 above the diagonal. Each row sums to 1.
    """
    distances = tree_distances(parents, length)[1:, :-1]
    is_before = torch.ones_like(distances).tril().bool()
    return (-distances).masked_fill(~is_before, -torch.inf).softmax(-1)


def attention_of_words(attentions: torch.Tensor, word_ids: torch.Tensor, num_words: int) -> torch.Tensor:
    """
    Sums attention weights over the tokens of words, and normalises them over the words before each.

    Args:
        attentions (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`): Attention weights of causal heads.
        word_ids (`torch.LongTensor` of shape `(batch, tokens)`): Word of each token: 0 for the beginning, 1..n for
            words, n + 1 for the end, -1 for padding.
        num_words (`int`): Number of rows of the result, the largest n + 1 of the batch.

    Returns:
        `torch.Tensor` of shape `(batch, heads, num_words, num_words)`: weights of the words w = 1..num_words, as they
        are predicted, over the words v = 0..w - 1.
    """
    # The last token predicts nothing, and is before no token that is predicted.
    weights = attentions[..., :-1, :-1].to(torch.promote_types(attentions.dtype, torch.float32))
    words = torch.arange(num_words, device=word_ids.device)
    predicted = (word_ids[:, None, 1:] == words[:, None] + 1).to(weights)  # (B, num_words, tokens - 1)
    attended = (word_ids[:, None, :-1] == words[:, None]).to(weights)  # (B, num_words, tokens - 1)
    # Sums of weights, which half precision would round.
    with torch.autocast(weights.device.type, enabled=False):
        summed = (predicted[:, None] @ weights @ attended[:, None].mT).tril()  # (B, heads, num_words, num_words)
    # Words that a shorter sentence lacks have no weights.
    return summed / summed.sum(-1, keepdim=True).clamp_min(torch.finfo(summed.dtype).tiny)


def planting_loss(attentions: torch.Tensor, word_ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """
    Kullback-Leibler divergence of the attention of words from the probabilities of their trees: the mean over words,
    ends included, and heads. Words whose attention is 0, since dropout removed it, are left out of both.

    Args:
        attentions (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`): Attention weights of the chosen heads.
        word_ids (`torch.LongTensor` of shape `(batch, tokens)`): See [`attention_of_words`].
        targets (`torch.Tensor` of shape `(batch, num_words, num_words)`): [`planting_target`] of each sentence, padded
            with 0.
    """
    weights = attention_of_words(attentions, word_ids, targets.shape[-1])  # (B, heads, num_words, num_words)
    is_kept = weights > 0
    targets = targets[:, None] * is_kept
    targets = targets / targets.sum(-1, keepdim=True).clamp_min(torch.finfo(targets.dtype).tiny)
    logs = torch.where(is_kept, weights, 1).log()
    divergences = (torch.special.xlogy(targets, targets) - targets * logs).sum(-1)  # (B, heads, num_words)
    is_word = torch.arange(targets.shape[-1], device=word_ids.device) < word_ids.amax(1, keepdim=True)
    return divergences.mean(1)[is_word].mean()
