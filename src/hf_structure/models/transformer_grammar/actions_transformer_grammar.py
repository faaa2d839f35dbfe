"""
Trees as actions between words, and back.

Before each word of a sentence, and before its end, come some actions, as a list of numbers; the last list is for the
end. Constituents are opened and closed: of `(S (NP the cat) (VP meows))`

    [<S>, <NP>] the [] cat [</NP>, <VP>] meows [</VP>, </S>] end

Dependencies are made on a stack with the root at its bottom, as soon as they can be (arc-standard): a left arc makes
the top the head of the second, a right arc the second the head of the top. Either removes the dependent.

    [] the [] cat [<left-arc>] meows [<left-arc>, <right-arc>] end

Without openings, the same constituents are

    [] the [] cat [</NP>] meows [</VP>, </S>] end

and with compressed closings

    [<S>, <NP>] the [] cat [</>, <VP>] meows [</>] end

which other trees share: see [`actions_to_spans`].

There is no left arc to what has got a right one before, so that a tree has one sequence of actions.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import (
    UNLABELLED,
    TransformerGrammarConfig,
)

LEFT_ARC, RIGHT_ARC = range(2)


def span_actions(spans: Sequence[Sequence], length: int, config: TransformerGrammarConfig) -> list[list[int]]:
    """
    The actions of a constituency tree.

    Args:
        spans: Constituents, outer ones first if they have the same words: start and end, half-open in words from 0,
            and in a model with labels a label. Constituents with an unknown label, or inside more than
            `config.max_open` others, are left out. If none spans the whole sentence, one with the first label is
            added.
        length (`int`): Number of words.
        config ([`TransformerGrammarConfig`]): Has the labels.

    Raises:
        ValueError: constituents that are empty, out of range or cross.
    """
    actions: list[list[int]] = [[] for _ in range(length + 1)]
    open_spans: list[tuple[int, int]] = []  # ends and closings

    def close_until(index: int) -> None:
        while open_spans and open_spans[-1][0] <= index:
            end, closing = open_spans.pop()
            if not (config.compress_closings and actions[end]):
                actions[end].append(closing)

    for start, end, number in _known_spans(spans, length, config):
        close_until(start)
        last = open_spans[-1][0] if open_spans else length
        if not 0 <= start < end <= last:
            raise ValueError(f"the constituent ({start}, {end}) is empty, out of range, or crosses another one")
        if len(open_spans) == config.max_open:
            continue
        if config.openings:
            actions[start].append(number)
        closing = number if config.labels_closings else 0
        open_spans.append((end, config.num_openings + closing))
    close_until(length)
    return actions


def _known_spans(
    spans: Sequence[Sequence], length: int, config: TransformerGrammarConfig
) -> list[tuple[int, int, int]]:
    """Constituents in pre-order with the numbers of their labels, including one of the whole sentence."""
    labels = {label: number for number, label in enumerate(config.label_names)}
    known = []
    for start, end, *rest in spans:
        label = rest[0] if config.labels else UNLABELLED
        if label in labels:
            known.append((start, end, labels[label]))
    if not any((start, end) == (0, length) for start, end, _ in known):
        known.insert(0, (0, length, 0))
    # The sort is stable: constituents of the same words stay in order, outer ones first.
    return sorted(known, key=lambda span: (span[0], -span[1]))


def actions_to_spans(actions: Sequence[Sequence[int]], config: TransformerGrammarConfig) -> list[tuple[int, int, str]]:
    """
    The constituents that actions make, in pre-order, as for [`span_actions`]. Without openings, where several trees
    have the same actions, each closing joins the last two words or constituents, the last one all that are left: of
    these trees, the binary one, if there is one. A compressed closing closes one constituent, unless it is the only
    one that is open, and the last closing all.
    """
    if not config.openings:
        return _closed_spans(actions, config)
    labels = config.label_names
    spans: list[tuple[int, int, str]] = []
    open_spans: list[int] = []
    for index, some in enumerate(actions):
        for action in some:
            if action < len(labels):
                open_spans.append(len(spans))
                spans.append((index, index, labels[action]))
                continue
            closed = 1
            if config.compress_closings:
                closed = len(open_spans) if index == len(actions) - 1 else min(1, len(open_spans) - 1)
            for _ in range(closed):
                number = open_spans.pop()
                start, _, label = spans[number]
                spans[number] = (start, index, label)
    return spans


def _closed_spans(actions: Sequence[Sequence[int]], config: TransformerGrammarConfig) -> list[tuple[int, int, str]]:
    """The constituents that closings make; see [`actions_to_spans`]."""
    spans: list[tuple[int, int, str]] = []
    starts: list[int] = []  # of the words and constituents that no constituent has joined
    for index, some in enumerate(actions):
        for number, action in enumerate(some, start=1):
            is_last = index == len(actions) - 1 and number == len(some)
            del starts[1 if is_last else max(len(starts) - 1, 1) :]
            spans.append((starts[-1], index, config.label_names[action]))
        starts.append(index)
    # The sort is stable: of the same words, those that were closed later are outer ones.
    spans.reverse()
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def head_actions(heads: Sequence[int]) -> list[list[int]]:
    """
    The actions of a dependency tree, heads numbered from 1, 0 for the root.

    Raises:
        ValueError: no projective tree with one root.
    """
    if not is_tree(heads) or not is_projective(heads):
        raise ValueError("the heads form no projective tree with one root")
    left = [0] * (len(heads) + 1)  # dependents to come
    for head in heads:
        left[head] += 1
    actions: list[list[int]] = [[]]
    stack = [0]
    for word in range(1, len(heads) + 1):
        stack.append(word)
        arcs = []
        while len(stack) > 1:
            second, top = stack[-2:]
            if second and heads[second - 1] == top:
                arcs.append(LEFT_ARC)
                stack.pop(-2)
                left[top] -= 1
            elif heads[top - 1] == second and not left[top]:
                arcs.append(RIGHT_ARC)
                stack.pop()
                left[second] -= 1
            else:
                break
        actions.append(arcs)
    return actions


def actions_to_heads(actions: Sequence[Sequence[int]]) -> list[int]:
    """The heads that actions make, as for [`head_actions`]; -1 for a word without one."""
    heads = [-1] * (len(actions) - 1)
    stack = [0]
    for word, arcs in enumerate(actions[1:], start=1):
        stack.append(word)
        for arc in arcs:
            dependent = stack.pop(-2 if arc == LEFT_ARC else -1)
            heads[dependent - 1] = stack[-1]
    return heads


def tree_actions(sentence: Mapping[str, Any], config: TransformerGrammarConfig) -> list[list[int]]:
    """The actions of a sentence's `spans` and `labels`, or `heads`, by the formalism of the configuration."""
    if config.formalism == "dependency":
        return head_actions(sentence["heads"])
    spans = [(*span, label) for span, label in zip(sentence["spans"], sentence["labels"], strict=True)]
    return span_actions(spans, len(sentence["words"]), config)


def at_tokens(actions: Sequence[Sequence[int]], word_ids: Sequence[int]) -> list[list[int]]:
    """
    The actions before each token of a sentence, which begins with a token of no word and ends with another one; none
    before the first, and none within words.

    Args:
        actions: The actions before each word, and before the end.
        word_ids: Word of each token, from 1; 0 for the first and the last.
    """
    indices = [word - 1 for word in word_ids[:-1]] + [len(actions) - 1]
    # Only the first token of a word, whose index differs from that before, comes after actions.
    return [list(actions[index]) if index != before else [] for before, index in pairwise([indices[0], *indices])]


def before_words(actions: Sequence[Sequence[int]], word_ids: Sequence[int]) -> list[list[int]]:
    """The inverse of [`at_tokens`]: the actions before each word and before the end, without the padding by -1."""
    starts = [token for token in range(1, len(word_ids)) if word_ids[token] != word_ids[token - 1]]
    return [[action for action in actions[token] if action >= 0] for token in starts]


def decoded_spans(actions: Sequence[Sequence[int]], config: TransformerGrammarConfig) -> list[tuple[int, int, int]]:
    """
    The constituents that actions make, with the numbers of their labels, outer ones first. Without labels,
    constituents of one word are left out, and the others come once.
    """
    spans = [(start, end, config.label_names.index(label)) for start, end, label in actions_to_spans(actions, config)]
    return spans if config.labels else [span for span in dict.fromkeys(spans) if span[1] - span[0] > 1]
