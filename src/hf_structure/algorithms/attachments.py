"""
Binary trees over tokens as attachments, one number for each token (Murty et al. 2023, "Pushdown Layers").

A text begins with a root token, the bottom of a stack of constituents. Each next token is pushed, and then reduced
with some of the constituents before it, from the top of the stack downwards; its *attachment* says how many tokens
back the last of these ends, 0 for none. The last token, which ends the text, is reduced with all of them, the root
included. With `(the dog) (chased (a cat))`:

    token        <s>  the  dog  chased  a  cat  </s>
    attachment    0    0    1     0     0   3    6       "cat" is 3 tokens after "dog", where "the dog" ends

Attachments of the tokens between and binary trees over them are the same thing said twice.
"""

from collections.abc import Sequence

from hf_structure.algorithms.trees import heads_to_spans, is_projective, is_tree, span_children, span_order

Span = tuple[int, int]


def binarise(spans: Sequence[Span], length: int) -> list[Span]:
    """
    A binary tree with all constituents of a tree: where there are more than two children, all but the first become a
    constituent, A B C D -> A (B (C D)), as in the paper. Constituents with one child, and single words, are no merges.

    Args:
        spans (sequence of `tuple[int, int]`): Constituents, half-open; whether the whole sentence is one does not
            matter.
        length (`int`): Number of words.

    Returns:
        `list[tuple[int, int]]`: `length - 1` spans in pre-order.

    Raises:
        ValueError: spans that are empty, out of range or cross.
    """
    spans = [*spans, (0, length)] if length > 1 else list(spans)
    ordered = [spans[i] for i in span_order(spans, length)]
    binary = set()
    for (_, end), children in zip(ordered, span_children(ordered, length), strict=True):
        starts = (ordered[child][0] if child < len(ordered) else child - len(ordered) for child in children[:-1])
        binary.update((start, end) for start in starts)
    return sorted(binary, key=_pre_order)


def projective_heads(heads: Sequence[int]) -> list[int]:
    """
    A projective tree near a tree: as long as there are crossing arcs, the dependent of the shortest that is not
    projective is lifted to the head of its head (Nivre and Nilsson 2005).

    Args:
        heads (sequence of `int`): Heads of the words, numbered from 1; 0 is the root.

    Raises:
        ValueError: heads that form no tree with one root.
    """
    heads = list(heads)
    if not is_tree(heads):
        raise ValueError("the heads do not form a tree with one root")
    while not is_projective(heads):
        arcs = [(abs(head - word), word) for word, head in enumerate(heads, start=1) if head]
        _, word = min(arc for arc in arcs if not _dominates(heads, arc[1]))
        heads[word - 1] = heads[heads[word - 1] - 1]
    return heads


def _dominates(heads: Sequence[int], word: int) -> bool:
    """Whether the head of a word is above all words between the two."""
    head = heads[word - 1]
    for between in range(min(head, word) + 1, max(head, word)):
        while between not in (0, head):
            between = heads[between - 1]
        if between != head:
            return False
    return True


def dependency_spans(heads: Sequence[int]) -> list[Span]:
    """
    A binary tree from a dependency tree: each word is joined with its dependents on the right, the nearest first, and
    then with those on its left, the nearest first. "The dog chased a cat" becomes `(the dog) (chased (a cat))`.

    Args:
        heads (sequence of `int`): Heads of the words, numbered from 1; 0 is the root.

    Returns:
        `list[tuple[int, int]]`: `len(heads) - 1` half-open spans in pre-order.

    Raises:
        ValueError: heads that form no projective tree with one root.
    """
    yields, spans = heads_to_spans(heads), []
    for head, (_, last) in enumerate(yields, start=1):
        dependents = [word for word, its in enumerate(heads, start=1) if its == head]
        spans += [(head - 1, yields[word - 1][1]) for word in dependents if word > head]
        spans += [(yields[word - 1][0], last) for word in dependents if word < head]
    return sorted(spans, key=_pre_order)


def token_spans(spans: Sequence[Span], word_ids: Sequence[int]) -> list[Span]:
    """
    A binary tree over words as one over their tokens: a word of several is A (B (C ...)), as in the paper.

    Args:
        spans (sequence of `tuple[int, int]`): Half-open spans of words, counted from 0.
        word_ids (sequence of `int`): Word of each token, from 1; 0 for those of no word, which are left out.

    Returns:
        `list[tuple[int, int]]`: half-open spans of tokens, counted from 0 without those of no word.
    """
    words = [word for word in word_ids if word]
    first, last = {}, {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
        last[word] = place + 1
    merged = [(first[start + 1], last[end]) for start, end in spans]
    merged += [(place, last[word]) for place, word in enumerate(words) if last[word] - place > 1]
    return sorted(merged, key=_pre_order)


def word_spans(spans: Sequence[Span], word_ids: Sequence[int]) -> list[Span]:
    """
    The constituents of words in a tree over tokens, arguments and result as in [`token_spans`]: what begins or ends
    within a word is none.
    """
    words = [word for word in word_ids if word]
    starts = {place: word - 1 for place, word in enumerate(words) if words[:place][-1:] != [word]}
    ends = {place: word for place, word in enumerate(words, start=1) if words[place : place + 1] != [word]}
    whole = {(starts[start], ends[end]) for start, end in spans if start in starts and end in ends}
    return sorted((span for span in whole if span[1] - span[0] > 1), key=_pre_order)


def spans_to_attachments(spans: Sequence[Span], length: int) -> list[int]:
    """
    Attachments of the tokens of a text: its root, `length` tokens with a binary tree over them, and the end.

    Args:
        spans (sequence of `tuple[int, int]`): The `length - 1` constituents, half-open, counted from 0 without the
            root.
        length (`int`): Number of tokens between root and end.

    Raises:
        ValueError: spans that are no binary tree.
    """
    spans = sorted({(int(start), int(end)) for start, end in spans})
    if len(spans) != max(length - 1, 0):
        raise ValueError(f"a binary tree over {length} tokens has {max(length - 1, 0)} constituents, not {len(spans)}")
    span_order(spans, length)
    attachments, previous = [0] * (length + 1), (-1, -1)
    for start, end in spans:  # of those that end alike, the left part of the largest ends first
        left_end = previous[1] if previous[0] == start else start + 1
        attachments[end] = max(attachments[end], end - left_end)
        previous = start, end
    return [*attachments, length + 1]


def attachments_to_spans(attachments: Sequence[int]) -> list[Span]:
    """
    The constituents that the attachments of a root and some tokens make, each of at least two tokens, in pre-order:
    half-open, counted from 0 without the root. What the token that ends the text is reduced with is left out.

    Args:
        attachments (sequence of `int`): As in [`spans_to_attachments`], with or without the token that ends the text.
    """
    spans, stack = [], []
    for place, back in enumerate(attachments):
        starts = [place]
        while back and stack and stack[-1][1] >= place - back:
            starts.append(stack.pop()[0])
        if starts[-1]:  # else it is reduced with the root
            spans += [(start - 1, place) for start in starts[1:]]
        stack.append((starts[-1], place))
    return sorted(spans, key=_pre_order)


def _pre_order(span: Span) -> Span:
    return span[0], -span[1]


__all__ = [
    "attachments_to_spans",
    "binarise",
    "dependency_spans",
    "projective_heads",
    "spans_to_attachments",
    "token_spans",
    "word_spans",
]
