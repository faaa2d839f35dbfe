import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure import ConstituencyTree
from hf_structure.text.bracket_tree import BracketTree, escape_word, ptb_words, unescape_word
from hf_structure.text.brackets import BracketError, read_brackets

TEXT = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBD was)
      (VP (VBN seen)
        (NP (-NONE- *-1) )
        (PRT|ADVP (RP out) )
        (PP=2 (IN at)
          (NP (CD 1\\/2) (-LRB- -LRB-) (NN
             bay) ))))
    (. .) ))
"""


def parse(text, **options):
    return list(read_brackets(io.StringIO(text), **options))


def test_a_tree_over_several_lines():
    (tree,) = parse(TEXT)
    assert str(tree) == (
        "(S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)) (PRT|ADVP (RP out)) "
        "(PP=2 (IN at) (NP (CD 1\\/2) (-LRB- -LRB-) (NN bay))))) (. .))"
    )
    assert tree.leaves()[:2] == [("The", "DT"), ("dog", "NN")]


def test_cleaning():
    (tree,) = parse(TEXT, unescape=True)
    before = str(tree)
    clean = tree.remove_traces().remove_punctuation().strip_functions()
    assert str(clean) == (
        "(S (NP (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen) (PRT (RP out)) (PP (IN at) (NP (CD 1/2) (NN bay))))))"
    )
    assert clean.spans() == [
        (0, 8, "S"),
        (0, 2, "NP"),
        (2, 8, "VP"),
        (3, 8, "VP"),
        (4, 5, "PRT"),
        (5, 8, "PP"),
        (6, 8, "NP"),
    ]
    assert str(clean.map_words(str.upper)).startswith("(S (NP (DT THE) (NN DOG))")
    assert str(tree) == before  # nothing changed in place


def test_punctuation_by_form_keeps_currency():
    (tree,) = parse("(S (NP ($ $) (CD 5)) (. .))")
    assert str(tree.remove_punctuation("form")) == "(S (NP ($ $) (CD 5)))"
    assert str(tree.remove_punctuation("tags")) == "(S (NP (CD 5)))"


def test_nothing_left():
    assert parse("(S (NP (-NONE- *)))")[0].remove_traces() is None
    assert parse("( (FRAG (. .)) )")[0].remove_punctuation() is None


@pytest.mark.parametrize(
    ("text", "trees"),
    [
        ("( (S (A a)) )", ["(S (A a))"]),
        ("((S (A a)))", ["(S (A a))"]),
        ("(TOP (S (A a)))", ["(TOP (S (A a)))"]),
        ("( (A a) (B b) )", ["( (A a) (B b))"]),
        ("(A a)(B b)\n(C c)", ["(A a)", "(B b)", "(C c)"]),
        ("( S ( A a ) )", ["(S (A a))"]),
        ("(S\r\n(A\r\na))\r\n", ["(S (A a))"]),
        ("", []),
    ],
    ids=["outer", "outer close", "top", "outer of two", "three", "spaces", "CRLF", "empty"],
)
def test_shapes_of_brackets(text, trees):
    assert list(map(str, parse(text))) == trees


@pytest.mark.parametrize(
    ("escaped", "word"),
    [
        *[("-LRB-", "("), ("-RCB-", "}"), ("1\\/2", "1/2"), ("\\*\\*", "**"), ("--", "--")],
        *[("a-LRB-", "a("), (":--RRB-", ":-)"), ("-LRB--RRB-", "()"), ("a-LRB", "a-LRB"), ("\\-RRB-", "-RRB-")],
    ],
)
def test_unescape_word(escaped, word):
    assert unescape_word(escaped) == word


@pytest.mark.parametrize(
    ("word", "escaped"),
    [
        *[(":)", ":-RRB-"), (")", "-RRB-"), ("((a))", "-LRB--LRB-a-RRB--RRB-"), ("{a}", "{a}"), ("1/2", "1/2")],
        *[("-LRB(", "\\-LRB-LRB-"), ("\\(", "\\\\-LRB-"), ("(RRB-", "-LRB-RRB-"), ("\\", "\\"), ("-", "-")],
    ],
)
def test_escape_word(word, escaped):
    assert escape_word(word) == escaped
    assert unescape_word(escaped) == word


@pytest.mark.parametrize("word", ["-RRB-", ":-RRB-", "1\\/2", "\\*"])
def test_what_is_escaped_already_is_left_so(word):
    """Text that was made of the Penn Treebank has its escapes, which stand for the same in its trees."""
    assert escape_word(word) == word
    (tree,) = parse(str(BracketTree("A", word=word)), unescape=True)
    assert tree.word == unescape_word(word) != word


PENN = re.compile(r"-[LR][RCS]B-|\\[/*]")
PIECES = st.sampled_from([*"()\\/*-:aLR{]", "LRB", "RRB", "-LRB", "RCB-", "\\-", "é"])
WORDS = st.one_of(st.text(min_size=1), st.lists(PIECES, min_size=1, max_size=8).map("".join)).filter(
    lambda word: not re.search(r"[\s\0]", word) and not PENN.search(word)
)


@settings(deadline=None, max_examples=150)
@given(st.lists(WORDS, min_size=1, max_size=5))
def test_all_words_come_back(words):
    """But those with Penn Treebank escapes in them, and white space, which no brackets hold."""
    text = str(BracketTree("S", [BracketTree("X", word=word) for word in words]))
    (tree,) = parse(text, unescape=True)
    assert [word for word, _ in tree.leaves()] == words
    assert str(tree) == text


TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="()"), min_size=1, max_size=4)
TREES = st.recursive(
    st.tuples(TOKENS, TOKENS), lambda trees: st.tuples(TOKENS, st.lists(trees, min_size=1, max_size=3))
)


def nested_text(tree):
    label, content = tree
    return f"({label} {content if isinstance(content, str) else ' '.join(map(nested_text, content))})"


def nested_spans(tree, start=0):
    label, content = tree
    if isinstance(content, str):
        return [], start + 1
    inner, end = [], start
    for child in content:
        spans, end = nested_spans(child, end)
        inner += spans
    return [(start, end, label), *inner], end


@settings(deadline=None)
@given(st.lists(TREES, max_size=4), st.sampled_from([" ", "\n", "  \n "]))
def test_write_and_read_any_trees(trees, space):
    text = "\n".join(map(nested_text, trees))
    read = parse(text.replace(" ", space))
    assert "\n".join(map(str, read)) == text
    assert [tree.spans() for tree in read] == [nested_spans(tree)[0] for tree in trees]


def test_deep_trees():
    depth = 5_000
    (tree,) = parse("(X" * depth + " (NN a) (. .)" + ")" * depth)
    assert tree.remove_punctuation().strip_functions().leaves() == [("a", "NN")]
    assert len(tree.spans()) == depth
    assert str(tree).count("(") == depth + 2


MALFORMED = {
    "never closed": ("\n(S (A a)", r"^<input>:2: .*never closed"),
    "closed twice": ("(S (A a))\n)", r"^<input>:2: .*closing bracket"),
    "empty": ("(S\n(NP ) (A a))", r"^<input>:2: an empty bracket: \(NP\)"),
    "nothing at all": ("()", "empty bracket"),
    "loose text": ("(S (A a))\nword", r"^<input>:2: text outside of brackets: 'word'"),
    "no label": ("(S (NP the dog))\n(S\n((A a) b))", r"^<input>:3: a bracket without a label in a file that has them"),
    "one word without label": ("(yes)", r"^<input>:1: an empty bracket: \(yes\)"),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_brackets(text, message):
    with pytest.raises(BracketError, match=message):
        parse(text)


UNTAGGED = {
    "(S (NP the dog) (VP barks))": "(S (NP (X the) (X dog)) (VP (X barks)))",
    "(S (NP the dog) barks)": "(S (NP (X the) (X dog)) (X barks))",
    "(S he (VP barks))": "(S (X he) (VP (X barks)))",
    "(S (NP the\n  old dog) (VP ( V barks)))": "(S (NP (X the) (X old) (X dog)) (VP (V (X barks))))",
    "( (S (NP the dog) barks) )": "(S (NP (X the) (X dog)) (X barks))",
    "(S (NP (DT the) dog) (VP (-NONE- *T*) barks))": "(S (NP (DT (X the)) (X dog)) (VP (-NONE- *T*) (X barks)))",
    "(S a b)": "(S (X a) (X b))",
}


@pytest.mark.parametrize(("text", "tree"), UNTAGGED.items())
def test_words_without_tags(text, tree):
    """A word that shares its bracket has no tag, nor has any other of the tree: each bracket is a constituent."""
    assert list(map(str, parse(text))) == [tree]
    assert list(map(str, parse(f"(S (A a) (B b))\n{text}"))) == ["(S (A a) (B b))", tree]
    assert list(map(str, parse(tree))) == [tree]


UNLABELLED = {
    "((the dog) barks)": "(X (X (X the) (X dog)) (X barks))",
    "( ( the dog ) barks )": "(X (X (X the) (X dog)) (X barks))",
    "(she (saw (the dog)))": "(X (X she) (X (X saw) (X (X the) (X dog))))",
    "((the dog) (saw it))": "(X (X (X the) (X dog)) (X (X saw) (X it)))",
    "( ( the dog ) ( saw it ) )": "(X (X (X the) (X dog)) (X (X saw) (X it)))",
    "((the dog) (sees it now))": "(X (X (X the) (X dog)) (X (X sees) (X it) (X now)))",
    "(dogs bark)": "(X (X dogs) (X bark))",
    "(the old dog)": "(X (X the) (X old) (X dog))",
    "(((the dog) barks))": "(X (X (X the) (X dog)) (X barks))",
    "(yes)": "(X yes)",
    "(a ((b c) d -RRB-))": "(X (X a) (X (X (X b) (X c)) (X d) (X -RRB-)))",
    "(:-LRB- (a b))": "(X (X :-LRB-) (X (X a) (X b)))",
}


@pytest.mark.parametrize("unescape", [True, False])
def test_brackets_without_labels(unescape):
    """Trees that could have labels wait for the first one that cannot."""
    early = [text for text in UNLABELLED if text != "(the old dog)"]
    for texts in (list(UNLABELLED), [*reversed(early), "(the old dog)"]):
        trees = parse("\n".join(texts), unescape=unescape)
        assert list(map(str, trees)) == [UNLABELLED[text] for text in texts]
        assert [tree.line for tree in trees] == list(range(1, len(texts) + 1))
    words = [word for tree in trees for word, _ in tree.leaves()]
    assert (":(" in words) == (")" in words) == unescape


@pytest.mark.parametrize(("text", "tree"), UNLABELLED.items())
def test_labels_that_the_caller_knows_of(text, tree):
    assert list(map(str, parse(text, labels=False))) == [tree]


def test_shapes_that_are_taken_for_labels():
    """What could have labels is read with them, if nothing in the file tells otherwise."""
    assert str(parse("(she (saw (the dog)))")[0]) == "(she (saw (the dog)))"
    assert str(parse("((A a) (B b))", labels=True)[0]) == "( (A a) (B b))"
    assert str(parse("((A a) (B b))")[0]) == "(X (X (X A) (X a)) (X (X B) (X b)))"
    assert str(parse("((S (A a) (B b)) (C c))")[0]) == "( (S (A a) (B b)) (C c))"


def test_trees_without_labels_after_many_with():
    """The reader does not wait for ever."""

    def trees():
        for _ in range(5000):
            yield "(A a)\n"
        yield "((a b) c)\n"

    with pytest.raises(BracketError, match="<input>:5001: a bracket without a label in a file that has them"):
        list(read_brackets(trees()))


def test_deep_trees_without_labels():
    depth = 5_000
    (tree,) = parse("(" * depth + "(a b)" + " c)" * depth)
    assert len(tree.leaves()) == depth + 2
    assert len(tree.spans()) == depth + 1


BINARY = st.recursive(st.sampled_from(["the", "dog", "(", ":)", "S", "-"]), lambda part: st.tuples(part, part))


def unlabelled_text(tree) -> str:
    return escape_word(tree) if isinstance(tree, str) else f"({' '.join(map(unlabelled_text, tree))})"


def expected_text(tree) -> str:
    return f"(X {escape_word(tree)})" if isinstance(tree, str) else f"(X {' '.join(map(expected_text, tree))})"


@settings(deadline=None)
@given(st.lists(BINARY.filter(lambda tree: not isinstance(tree, str)), max_size=4), st.integers(0, 4))
def test_any_binary_trees_without_labels(trees, place):
    trees.insert(place, (("the", "dog"), "barks"))  # one that tells
    read = parse("\n".join(map(unlabelled_text, trees)), unescape=True)
    assert list(map(str, read)) == list(map(expected_text, trees))


def test_reading_streams():
    def endless():
        while True:
            yield "(S (A a))\n"

    assert str(next(read_brackets(endless()))) == "(S (A a))"


def test_write_escapes_brackets():
    assert str(BracketTree("A", word="(a)")) == "(A -LRB-a-RRB-)"


def test_wsj_sample(data_dir):
    from hf_structure.text.conllu import read_conllu

    for split, count in [("dev", 273), ("test", 245)]:
        trees = list(read_brackets(data_dir / f"wsj_sample/{split}.mrg"))
        dependencies = read_conllu(data_dir / f"wsj_sample/{split}.dep.conllu")
        assert len(trees) == count
        for tree, sentence in zip(trees, dependencies, strict=True):
            leaves = tree.remove_traces().leaves()
            assert leaves == [(token.form, token.xpos) for token in sentence.words]


PTB_WORDS = [
    (["(", "[", "{", "x", "}", "]", ")"], ["-LRB-", "-LSB-", "-LCB-", "x", "-RCB-", "-RSB-", "-RRB-"]),
    (["1/2", "*", "a[1]", ":-("], [r"1\/2", r"\*", "a-LSB-1-RSB-", ":--LRB-"]),
    (["“", "Yes", "”", "’s", "–", "…"], ["``", "Yes", "''", "'s", "--", "..."]),
    (['"', "a", '"', '"', "b", '"'], ["``", "a", "''", "``", "b", "''"]),
    (["``", "a", "''", "-LRB-", "`", "don't"], ["``", "a", "''", "-LRB-", "`", "don't"]),
]


@pytest.mark.parametrize(("words", "expected"), PTB_WORDS)
def test_words_of_the_penn_treebank(words, expected):
    assert ptb_words(words) == expected


def test_quotes_follow_their_tags():
    words = ['"', "a", '"', '"']
    assert ptb_words(words, ["''", "NN", "''", "``"]) == ["''", "a", "''", "``"]
    assert ptb_words(words, ["''", "NN", ".", "."]) == ["''", "a", "``", "''"]


@pytest.mark.parametrize(
    "word", ["(", "-LSB(", r"\*", r"\[", "a/b*c", "/(", "]{", r"\-LRB(", r"a\/[x]", "[-LRB", "--[("]
)
def test_reading_restores_brackets_slashes_and_stars(word):
    tree = ConstituencyTree([word, "x"], [(0, 2)], ["S"], ["NN", "NN"])
    written = tree.to_brackets(ptb_words=True)
    assert not set("[]{}") & set(written)
    assert ConstituencyTree.from_brackets(written).words == tree.words
