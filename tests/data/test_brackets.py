import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.data.bracket_tree import BracketTree, escape_word, unescape_word
from hf_structure.data.brackets import BracketError, read_brackets

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


@settings(deadline=None, max_examples=500)
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
    depth = 20_000
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
    "two words": ("(S (A a b))", "beside other nodes: 'b'"),
    "word after node": ("(S (A a) b)", "beside other nodes: 'b'"),
    "node after word": ("(S a (A a))", "beside the word 'a'"),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_brackets(text, message):
    with pytest.raises(BracketError, match=message):
        parse(text)


def test_reading_streams():
    def endless():
        while True:
            yield "(S (A a))\n"

    assert str(next(read_brackets(endless()))) == "(S (A a))"


def test_write_escapes_brackets():
    assert str(BracketTree("A", word="(a)")) == "(A -LRB-a-RRB-)"


def test_wsj_sample(data_dir):
    from hf_structure.data.conllu import read_conllu

    for split, count in [("dev", 273), ("test", 245)]:
        trees = list(read_brackets(data_dir / f"wsj_sample/{split}.mrg"))
        dependencies = read_conllu(data_dir / f"wsj_sample/{split}.dep.conllu")
        assert len(trees) == count
        for tree, sentence in zip(trees, dependencies, strict=True):
            leaves = tree.remove_traces().leaves()
            assert leaves == [(token.form, token.xpos) for token in sentence.words]
