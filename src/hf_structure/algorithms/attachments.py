"""
Binary trees over tokens as attachments, one number for each token (Murty et al. 2023, "Pushdown Layers").

A text begins with a root token, the bottom of a stack of constituents. Each next token is pushed, and then reduced
with some of the constituents before it, from the top of the stack downwards; its *attachment* is the number of
tokens back to the end of the last of these, 0 for none. The last token, which ends the text, is reduced with all of
them, the root included. With `(the dog) (chased (a cat))`:

    token        <s>  the  dog  chased  a  cat  </s>
    attachment    0    0    1     0     0   3    6       "cat" is 3 tokens after "dog", where "the dog" ends

Attachments of the tokens between and binary trees over them are two notations for the same thing.

Spans are half-open and counted from 0; in results they are in pre-order. Heads are numbered from 1; 0 is the root.
"""

from collections.abc import Sequence
from itertools import pairwise

from hf_structure.algorithms.trees import heads_to_spans, is_projective, is_tree, span_children, span_order

Span = tuple[int, int]


def binarise(spans: Sequence[Span], length: int) -> list[Span]:
    """
    A binary tree with all constituents of a tree: where there are more than two children, all but the first become a
    constituent, A B C D -> A (B (C D)), as in the paper. Constituents with one child and single words are left out,
    and the whole sentence, of `length` words, is added. Raises `ValueError` for spans that are empty, out of range or
    cross.
    """
    spans = [*spans, (0, length)] if length > 1 else list(spans)
    ordered = [spans[i] for i in span_order(spans, length)]
    starts = [start for start, _ in ordered] + list(range(length))  # of spans and words, numbered as children are
    binary = set()
    for (_, end), children in zip(ordered, span_children(ordered, length), strict=True):
        binary.update((starts[child], end) for child in children[:-1])
    return sorted(binary, key=_pre_order)


def projective_heads(heads: Sequence[int]) -> list[int]:
    """
    Makes a tree projective: as long as arcs cross, the dependent of the shortest non-projective arc is attached to the
    head of its head (Nivre and Nilsson 2005). Raises `ValueError` for heads that form no tree with one root.
    """
    heads = list(heads)
    if not is_tree(heads):
        raise ValueError("the heads do not form a tree with one root")
    while not is_projective(heads):
        arcs = [(abs(head - word), word) for word, head in enumerate(heads, start=1) if head]
        # Shortest first, so that arcs are moved as little as possible.
        _, word = min(arc for arc in arcs if not _dominates(heads, arc[1]))
        heads[word - 1] = heads[heads[word - 1] - 1]
    return heads


def _dominates(heads: Sequence[int], word: int) -> bool:
    """True if the head of a word dominates all words between the two."""
    head = heads[word - 1]
    for between in range(min(head, word) + 1, max(head, word)):
        while between not in (0, head):
            between = heads[between - 1]
        if between != head:
            return False
    return True


def dependency_spans(heads: Sequence[int]) -> list[Span]:
    """
    A binary tree from a dependency tree: each word is joined with its dependents on its right, the nearest first, and
    then with those on its left, the nearest first. "The dog chased a cat" becomes `(the dog) (chased (a cat))`. Raises
    `ValueError` for heads that form no projective tree with one root.
    """
    yields = heads_to_spans(heads)
    spans = []
    for word, head in enumerate(heads, start=1):
        start, end = yields[word - 1]
        if head and word > head:
            spans.append((head - 1, end))
        elif head:
            spans.append((start, yields[head - 1][1]))
    return sorted(spans, key=_pre_order)


def token_spans(spans: Sequence[Span], word_ids: Sequence[int]) -> list[Span]:
    """
    Turns a binary tree over words into one over their tokens: a word of several tokens becomes A (B (C ...)), as in
    the paper. `word_ids` are the word of each token, from 1; 0 for tokens of no word, which are not counted.
    """
    words = [word for word in word_ids if word]
    starts = {}
    ends = {}
    for index, word in enumerate(words):
        starts.setdefault(word, index)
        ends[word] = index + 1
    merged = [(starts[start + 1], ends[end]) for start, end in spans]
    merged += [(index, ends[word]) for index, word in enumerate(words) if ends[word] - index > 1]
    return sorted(merged, key=_pre_order)


def word_spans(spans: Sequence[Span], word_ids: Sequence[int]) -> list[Span]:
    """
    The constituents of words in a tree over tokens, with arguments and result as in [`token_spans`]. Spans that begin
    or end within a word are left out.
    """
    words = [word for word in word_ids if word]
    starts = {}
    ends = {}
    for index, (before, word) in enumerate(pairwise([0, *words, 0])):
        if before != word:
            ends[index] = before
            starts[index] = word - 1
    whole = {(starts[start], ends[end]) for start, end in spans if start in starts and end in ends}
    return sorted((span for span in whole if span[1] - span[0] > 1), key=_pre_order)


def spans_to_attachments(spans: Sequence[Span], length: int) -> list[int]:
    """
    Attachments of the tokens of a text: its root, `length` tokens with a binary tree over them, which the spans are
    about, and the end. Raises `ValueError` for spans that are no binary tree.
    """
    # By start and then by end: a span directly follows its left part.
    spans = sorted({(int(start), int(end)) for start, end in spans})
    if len(spans) != max(length - 1, 0):
        raise ValueError(f"a binary tree over {length} tokens has {max(length - 1, 0)} constituents, not {len(spans)}")
    span_order(spans, length)
    attachments = [0] * (length + 1)
    left_start = left_end = -1
    for start, end in spans:  # of spans with the same end, the left part of the largest ends first
        if start != left_start:
            left_end = start + 1
        attachments[end] = max(attachments[end], end - left_end)
        left_start = start
        left_end = end
    return [*attachments, length + 1]


def attachments_to_spans(attachments: Sequence[int]) -> list[Span]:
    """
    The constituents, of at least two tokens each, that the attachments of a root and some tokens make, counted without
    the root. Reductions with the token that ends the text are left out; its attachment may be missing.
    """
    spans = []
    stack: list[Span] = []  # constituents as the indices of their first and last tokens
    for index, back in enumerate(attachments):
        starts = [index]
        while back and stack and stack[-1][1] >= index - back:
            starts.append(stack.pop()[0])
        is_reduced_with_root = starts[-1] == 0
        if not is_reduced_with_root:
            spans += [(start - 1, index) for start in starts[1:]]
        stack.append((starts[-1], index))
    return sorted(spans, key=_pre_order)


def _pre_order(span: Span) -> Span:
    return span[0], -span[1]
