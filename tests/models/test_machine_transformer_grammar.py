"""Trees as actions, and the stack machine: against tables after the papers, and a machine that walks a tree."""

from itertools import pairwise

import pytest
import torch

from hf_structure.algorithms.attachments import binarise
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.transformer_grammar.actions_transformer_grammar import (
    actions_to_heads,
    actions_to_spans,
    at_tokens,
    head_actions,
    span_actions,
)
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import TransformerGrammarConfig
from hf_structure.models.transformer_grammar.machine_transformer_grammar import (
    COPY,
    ENDS,
    FIRST_ACTION,
    PIECE,
    TOKEN_KINDS,
    WORD,
    Machine,
    Replay,
    Tape,
)

LABELS = ["S", "NP", "VP"]
SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


def config_of(kind: str, **settings) -> TransformerGrammarConfig:
    kinds = {
        "plm": {"composition": "none"},
        "plm-mask": {"composition": "heads"},
        "tg": {"composition": "compose"},
        "dtg": {"formalism": "dependency"},
        "arcs": {"formalism": "dependency", "composition": "none"},
        "plm-2": {"composition": "none", "closings": 2},
        "plm-3": {"composition": "none", "closings": 3},
        "closed": {"composition": "none", "openings": False},
        "compressed": {"composition": "none", "compress_closings": True},
        "closed-3": {"composition": "none", "openings": False, "closings": 3},
    }
    labels = {} if kind in ("dtg", "arcs") else {"labels": LABELS}
    return TransformerGrammarConfig(**{**SIZES, **labels, **kinds[kind], **settings})


def random_spans(length: int, generator: torch.Generator, labels: list[str] | None = LABELS) -> list[tuple]:
    """A tree of constituents with any number of children, now and then one alone, in pre-order."""

    def grow(start: int, end: int) -> list[tuple]:
        many = int(torch.randint(1, 3, (), generator=generator))
        label = labels[int(torch.randint(len(labels), (), generator=generator))] if labels else "X"
        cuts = torch.randint(start, end + 1, (many,), generator=generator).tolist()
        borders = sorted({start, end, *cuts})
        parts = list(pairwise(borders))
        found = [(start, end, label)]
        for first, last in parts:
            is_lonely = bool(labels) and torch.rand((), generator=generator) < 0.2
            if is_lonely or min(last - first, len(parts)) > 1:
                found += grow(first, last)
        return found

    return grow(0, length)


def random_heads(length: int, generator: torch.Generator) -> list[int]:
    """A projective tree with one root."""
    while True:
        heads = torch.randint(0, length + 1, (length,), generator=generator).tolist()
        if is_tree(heads) and is_projective(heads):
            return heads


def random_actions(length: int, generator: torch.Generator, config: TransformerGrammarConfig) -> list[list[int]]:
    if config.formalism == "dependency":
        return head_actions(random_heads(length, generator))
    return span_actions(random_spans(length, generator, config.labels), length, config)


# a. Trees and actions


def test_actions_of_the_papers_trees():
    spans = [(0, 3, "S"), (0, 2, "NP"), (2, 3, "VP")]
    tg, plm = config_of("tg"), config_of("plm")
    assert span_actions(spans, 3, tg) == [[0, 1], [], [4, 2], [5, 3]]
    assert span_actions(spans, 3, plm) == [[0, 1], [], [3, 2], [3, 3]]
    assert [tg.action_names[number] for number in (0, 1, 4)] == ["<S>", "<NP>", "</NP>"]
    assert plm.action_names == ["<S>", "<NP>", "<VP>", "</>"]
    # There is a difference: LA, RA and the arc from the root
    assert head_actions([2, 0, 4, 2]) == [[], [], [0], [], [0, 1, 1]]


@pytest.mark.parametrize("kind", ["tg", "plm"])
@pytest.mark.parametrize("labels", [LABELS, None])
def test_spans_come_back(kind, labels):
    config, generator = config_of(kind, labels=labels), torch.Generator().manual_seed(0)
    for length in [*range(1, 9)] * 10:
        spans = random_spans(length, generator, labels)
        actions = span_actions(spans, length, config)
        assert len(actions) == length + 1
        assert actions_to_spans(actions, config) == spans
    reordered = [(2, 3, "VP"), (0, 3, "S"), (0, 2, "NP")]
    if labels:
        assert span_actions(reordered, 3, config) == span_actions(
            sorted(reordered, key=lambda s: (s[0], -s[1])), 3, config
        )


def test_a_sentence_becomes_one_constituent():
    config = config_of("tg")
    assert actions_to_spans(span_actions([(0, 1, "NP"), (1, 2, "VP")], 2, config), config)[0] == (0, 2, "S")
    alike = [(0, 2, "VP"), (0, 2, "S"), (0, 2, "NP"), (0, 1, "NP"), (0, 1, "VP")]
    assert actions_to_spans(span_actions(alike, 2, config), config) == alike
    assert actions_to_spans(span_actions([(0, 2, "PP"), (1, 2, "VP")], 2, config), config) == [
        (0, 2, "S"),
        (1, 2, "VP"),
    ]
    deep = [(0, 3, "S"), (1, 3, "S"), (1, 2, "S"), (2, 3, "S")]
    flat = config_of("tg", max_open=2)
    assert actions_to_spans(span_actions(deep, 3, flat), flat) == [(0, 3, "S"), (1, 3, "S")]
    assert span_actions([], 1, config_of("tg", labels=None)) == [[0], [1]]


@pytest.mark.parametrize("spans", [[(0, 2, "S"), (1, 3, "S")], [(1, 1, "S")], [(0, 4, "S")]])
def test_impossible_spans(spans):
    with pytest.raises(ValueError, match="crosses another one"):
        span_actions(spans, 3, config_of("tg"))


def test_closings_without_openings():
    """The other actions stay, with their labels; binary trees come back, and of others the binary one."""
    closed, tg = config_of("closed"), config_of("tg")
    spans = [(0, 3, "S"), (0, 2, "NP"), (2, 3, "VP")]
    assert closed.action_names == ["</S>", "</NP>", "</VP>"]
    assert span_actions(spans, 3, closed) == [[], [], [1], [2, 0]]
    assert actions_to_spans([[], [], [1], [2, 0]], closed) == [(0, 3, "S"), (0, 3, "VP"), (0, 2, "NP")]
    generator = torch.Generator().manual_seed(0)
    for length in [*range(1, 9)] * 10:
        spans = random_spans(length, generator)
        with_openings = span_actions(spans, length, tg)
        expected = [[action - len(LABELS) for action in some if action >= len(LABELS)] for some in with_openings]
        assert span_actions(spans, length, closed) == expected
        binary = [(*span, LABELS[sum(span) % 3]) for span in binarise([span[:2] for span in spans], length)]
        if length > 1:
            assert actions_to_spans(span_actions(binary, length, closed), closed) == binary
    assert actions_to_spans([[], [2, 1, 0]], closed) == [(0, 1, "S"), (0, 1, "NP"), (0, 1, "VP")]


def test_compressed_closings():
    """Closings in a row are one: the tree comes back if it closes one, or all at the end."""
    config, plm = config_of("compressed"), config_of("plm")
    spans = [(0, 3, "S"), (0, 2, "NP"), (2, 3, "VP")]
    assert config.action_names == ["<S>", "<NP>", "<VP>", "</>"]
    assert span_actions(spans, 3, config) == [[0, 1], [], [3, 2], [3]]
    assert actions_to_spans([[0, 1], [], [3, 2], [3]], config) == spans
    assert actions_to_spans([[0], [3], [3, 1], [3]], config) == [(0, 3, "S"), (2, 3, "NP")]
    generator = torch.Generator().manual_seed(0)
    for length in [*range(1, 9)] * 10:
        spans = random_spans(length, generator)
        expected = [
            sorted(set(some) & {3}) + [action for action in some if action < 3]
            for some in span_actions(spans, length, plm)
        ]
        assert span_actions(spans, length, config) == expected


def test_heads_come_back():
    generator = torch.Generator().manual_seed(0)
    for length in [*range(1, 7)] * 10:
        heads = random_heads(length, generator)
        assert actions_to_heads(head_actions(heads)) == heads
    for heads in ([3, 4, 0, 3], [0, 0], [2, 1]):
        with pytest.raises(ValueError, match="no projective tree"):
            head_actions(heads)


def test_actions_stand_before_the_first_piece_of_a_word():
    actions = [[0, 1], [], [4, 2], [5, 3]]
    assert at_tokens(actions, [0, 1, 1, 2, 3, 3, 3, 0]) == [[], [0, 1], [], [], [4, 2], [], [], [5, 3]]


# b. The machine


def replay(actions: list[list[list[int]]], config: TransformerGrammarConfig, events: torch.Tensor | None = None):
    """Tape and replay of texts, the actions before each token."""
    tokens = max(map(len, actions))
    most = max(len(some) for text in actions for some in text)
    padded = torch.full((len(actions), tokens, most), -1)
    kinds = torch.full((len(actions), tokens), -1)
    for row, text in enumerate(actions):
        kinds[row, : len(text)] = WORD
        for place, some in enumerate(text):
            padded[row, place, : len(some)] = torch.tensor(some, dtype=torch.long)
    tape = Tape.of(padded, kinds if events is None else events, config)
    return tape, Replay.of(tape, Machine.empty(config, len(actions)))


def rows_of(found: Replay, head: int = 0) -> list[str]:
    """The mask of the first text as the papers' tables have it, and the positions of what is seen."""
    rows = []
    for seen, positions in zip(found.visible[0, head], found.positions[0], strict=True):
        mask = "".join(str(int(one)) for one in seen)
        rows.append(f"{mask} {' '.join(str(one) for one in positions[seen].tolist())}")
    return rows


def table(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


CAT = [[], [0, 1], [], [4, 2], [5, 3]]  # <s> (S (NP the cat NP) (VP meows VP) S)


def test_the_mask_of_a_transformer_grammar():
    """As the paper defines it and its release does it, up to the end token."""
    _, found = replay([CAT], config_of("tg"))
    assert rows_of(found)[:13] == table(
        """
        10000000000000 0
        11000000000000 1 0
        11100000000000 2 1 0
        11110000000000 3 2 1 0
        11111000000000 3 2 1 0 0
        00111100000000 0 -1 -1 0
        11000110000000 2 1 0 0
        11000101000000 2 1 0 0
        11000101100000 3 2 1 1 0
        00000001110000 0 -1 0
        11000100011000 2 1 0 0 0
        01000100010100 0 -1 -1 0
        10000000000110 1 0 0
        """
    )


def test_the_mask_of_a_dependency_transformer_grammar():
    """There <- is -> difference, a <- difference: after figure 2 of the DTG paper, with an arc from the root."""
    actions = [[], [], [], [0], [], [0, 1, 1]]
    _, found = replay([actions], config_of("dtg"))
    assert rows_of(found)[:13] == table(
        """
        10000000000000 0
        11000000000000 1 0
        11100000000000 2 1 0
        01110000000000 -1 0 0
        10011000000000 1 0 0
        10010100000000 2 1 0
        10010110000000 3 2 1 0
        00000111000000 -1 0 0
        10010001100000 2 1 0 0
        00010001010000 0 -1 0
        10000000011000 1 0 0
        10000000010100 0 -1 0
        00000000000110 0 0
        """
    )


def test_the_masks_of_plm_mask():
    actions = [[], [0, 1], [], [3, 2], [3, 3]]
    _, found = replay([actions], config_of("plm-mask"))
    masks = [[row.split()[0] for row in rows_of(found, head)][:10] for head in range(3)]
    outside, inside = zip(
        *(
            line.split()
            for line in table(
                """
                10000000000 10000000000
                10000000000 01000000000
                11000000000 00100000000
                11000000000 00110000000
                11000000000 00111000000
                10000000000 01111100000
                11111100000 00000010000
                11111100000 00000011000
                10000000000 01111111100
                11111111110 11111111110
                """
            )
        ),
        strict=True,
    )
    assert masks[0] == list(outside)
    assert masks[1] == list(inside)
    assert masks[2] == ["1" * (row + 1) + "0" * (10 - row) for row in range(10)]
    _, plain = replay([actions], config_of("plm"))
    assert [row.split()[0] for row in rows_of(plain)][:10] == masks[2]
    assert plain.positions[0, 9, :10].tolist() == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def literal(actions: list[list[int]], config: TransformerGrammarConfig, pieces: list[bool]) -> list[tuple[set, dict]]:
    """What each event sees, and at which position: a list of items, each with its keys, its depth and its opening."""
    stack: list[dict] = []
    rows = []
    count = 0
    is_dependency = config.formalism == "dependency"
    openings = 0 if is_dependency else len(config.labels or [0])

    def depth() -> int:
        return len(stack) if is_dependency else sum(item["open"] for item in stack) + bool(stack)

    def see(items: list[dict], own: int) -> None:
        seen = {key: own - item["depth"] for item in items for key in item["keys"]}
        rows.append({**seen, count: 0})

    for place, some in enumerate(actions):
        for action in some:
            if action < openings:
                see(stack, depth())
                stack.append({"keys": [count], "depth": depth(), "open": True})
            else:
                first = len(stack) - 2
                if not is_dependency:
                    first = max(number for number, item in enumerate(stack) if item["open"])
                items, own = stack[first:], stack[first]["depth"]
                see(items, own)
                if is_dependency and action == 0:  # the head, above, at 0; the dependent at -1
                    rows[-1] = {key: -1 if key in stack[first]["keys"] else 0 for key in rows[-1]}
                stack[first:] = [{"keys": [count], "depth": own, "open": False}]
                count += 1
                see(stack, own)  # the copy
            count += 1
        if pieces[place] and is_dependency:
            see(stack, stack[-1]["depth"])
            stack[-1]["keys"].append(count)
        else:
            see(stack, depth())
            stack.append({"keys": [count], "depth": depth(), "open": False})
        count += 1
    return rows


@pytest.mark.parametrize("kind", ["tg", "dtg"])
@pytest.mark.parametrize("max_depth", [62, 2])
def test_the_machine_walks_as_a_naive_one(kind, max_depth):
    config, generator = config_of(kind, max_depth=max_depth), torch.Generator().manual_seed(1)
    texts, starts = [], []
    for length in (1, 2, 3, 5, 6, 6):
        words = [
            number
            for number in range(1, length + 1)
            for _ in range(1 + int(torch.rand((), generator=generator) < 0.3))
        ]
        words = [0, *words, 0]
        texts.append(at_tokens(random_actions(length, generator, config), words))
        starts.append([place > 0 and word == words[place - 1] for place, word in enumerate(words)])
    events = torch.full((len(texts), max(map(len, texts))), -1)
    for row, pieces in enumerate(starts):
        events[row, : len(pieces)] = torch.tensor([PIECE if piece else WORD for piece in pieces])
    tape, found = replay(texts, config, events)
    for row, (actions, pieces) in enumerate(zip(texts, starts, strict=True)):
        expected = literal(actions, config, pieces)
        assert int((tape.events[row] != -1).sum()) == len(expected)
        for event, seen in enumerate(expected):
            columns = found.visible[row, 0, event].nonzero().flatten().tolist()
            positions = found.positions[row, event, columns].tolist()
            clipped = {key: min(max(position, -1), max_depth) for key, position in seen.items()}
            assert dict(zip(columns, positions, strict=True)) == clipped
        assert found.visible[row, 0, len(expected) :].sum(1).ge(1).all()  # softmaxes of padding are defined


@pytest.mark.parametrize("kind", ["tg", "plm", "plm-mask", "dtg", "arcs", "plm-3"])
def test_what_happens_is_legal(kind):
    """And the end alone at the end."""
    config, generator = config_of(kind), torch.Generator().manual_seed(2)
    texts = [[[], *random_actions(length, generator, config)] for length in (1, 2, 4, 6, 6, 6)]
    tape, found = replay(texts, config)
    for row, text in enumerate(texts):
        starts = tape.starts[row]
        for token, some in enumerate(text[1:], start=1):
            for slot, action in enumerate(some):
                assert found.legal[row, starts[token, slot] - 1, TOKEN_KINDS + action]
            legal = found.legal[row, starts[token, -1] - 1]
            is_end = token == len(text) - 1
            may_go_on = not is_end and (token == 1 or not some)
            assert legal[:TOKEN_KINDS].tolist() == [not is_end, may_go_on, is_end]
            assert not is_end or not legal[TOKEN_KINDS:].any()
    assert not found.legal[:, 0, ENDS].any()


def all_texts(config: TransformerGrammarConfig, length: int) -> list[list[list[int]]]:
    """All legal actions before each word of a sentence and its end, the machine asked at each step."""

    def read(machine: Machine, event: int) -> Machine:
        return machine.step(torch.tensor([event]), torch.zeros(1).long())[0]

    found = []
    grown = [([[]], read(Machine.empty(config, 1).with_room(50, 20), WORD))]
    while grown:
        text, machine = grown.pop()  # the last are the actions before what comes next
        word, _, end, *actions = machine.legal()[0].tolist()
        if end and len(text) == length + 1:
            found.append(text)
        if word and len(text) <= length:
            grown.append(([*text, []], read(machine, WORD)))
        for action, may_come in enumerate(actions):
            if may_come:
                grown.append(([*text[:-1], [*text[-1], action]], read(machine, FIRST_ACTION + action)))
    return found


def test_derivations_of_dependency_trees():
    """Of n words there are 1, 2, 7, 30, ... trees, each with one sequence of actions."""
    config = config_of("dtg")
    for length, count in enumerate((1, 2, 7, 30), start=1):
        texts = all_texts(config, length)
        assert len(texts) == count
        heads = [tuple(actions_to_heads(text)) for text in texts]
        assert len({*heads}) == count
        assert all(head_actions(each) == text for each, text in zip(heads, texts, strict=True))


@pytest.mark.parametrize("labels", [None, ["A", "B"]])
def test_closings_are_the_legal_actions(labels):
    """Up to two after every word, and at least one before the end; some are those of several trees, or of none."""
    config = config_of("closed", labels=labels, max_open=2)
    kinds = len(labels or "X")
    runs = kinds + kinds**2
    for length in (1, 2, 3):
        texts = all_texts(config, length)
        assert len(texts) == len({str(text) for text in texts}) == (1 + runs) ** (length - 1) * runs
        assert all(actions_to_spans(text, config)[0][:2] == (0, length) for text in texts)
        # Every tree is among them.
        trees = all_texts(config_of("tg", labels=labels, max_open=2), length)
        found = [
            span_actions(actions_to_spans(tree, config_of("tg", labels=labels)), length, config) for tree in trees
        ]
        assert {str(text) for text in found} <= {str(text) for text in texts}
        assert length < 3 or len({str(text) for text in found}) < len(trees)


@pytest.mark.parametrize("labels", [None, ["A", "B"]])
def test_openings_and_compressed_closings_are_the_legal_actions(labels):
    """Openings before the first word, openings with or without a closing between words, a closing before the end."""
    config = config_of("compressed", labels=labels, max_open=2)
    plm = config_of("plm", labels=labels, max_open=2)
    kinds = len(labels or "X")
    runs = kinds + kinds**2
    for length in (1, 2, 3)[: 4 - kinds]:
        texts = all_texts(config, length)
        assert len(texts) == len({str(text) for text in texts}) == runs * (2 + 2 * runs) ** (length - 1)
        assert all(actions_to_spans(text, config)[0][:2] == (0, length) for text in texts)
        trees = [actions_to_spans(tree, plm) for tree in all_texts(plm, length)]
        assert {str(span_actions(tree, length, config)) for tree in trees} <= {str(text) for text in texts}
    # Two trees of the same actions: the first closing closes one constituent or two.
    deeper = config_of("compressed")
    pair = [[(0, 3, "S"), (0, end, "NP"), (0, 2, "VP")] for end in (2, 3)]
    assert span_actions(pair[0], 3, deeper) == span_actions(pair[1], 3, deeper) == [[0, 1, 2], [], [3], [3]]
    assert actions_to_spans([[0, 1, 2], [], [3], [3]], deeper) == pair[1]


@pytest.mark.parametrize("kind", ["plm-2", "plm-3", "closed-3"])
def test_copies_of_closings_see_everything_and_are_seen(kind):
    config = config_of(kind)
    first = len(LABELS) if config.openings else 0
    actions = [[], [0, 1] if config.openings else [], [], [first], [first]]
    tape, found = replay([actions], config)
    size = int((tape.events[0] != -1).sum())
    openings = 2 if config.openings else 0
    assert size == 5 + openings + 2 * config.closings
    assert (tape.events[0] == COPY).sum() == 2 * (config.closings - 1)
    for event in range(size):
        assert found.visible[0, 0, event].nonzero().flatten().tolist() == list(range(event + 1))
        assert found.positions[0, event, : event + 1].tolist() == list(range(event, -1, -1))


@pytest.mark.parametrize("labels", [None, ["A", "B"]])
def test_constituency_trees_are_the_legal_actions(labels):
    """All of two levels: a flat constituent, of which each part is a word or a flat constituent."""
    config = config_of("plm", labels=labels, max_open=2)
    kinds = len(labels or "X")
    parts = [1]  # ways to divide so many words
    for length in (1, 2, 3, 4):
        parts.append(parts[-1] + kinds * sum(parts))
        texts = all_texts(config, length)
        assert len(texts) == len({str(text) for text in texts}) == kinds * parts[length]
        assert all(span_actions(actions_to_spans(text, config), length, config) == text for text in texts)
