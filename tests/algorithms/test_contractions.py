"""Multiword tokens as edit rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.algorithms.contractions import apply_rule
from hf_structure.training.token_splits import split_rule

SPLITS = {
    "zum": ("zu", "dem"),
    "im": ("in", "dem"),
    "du": ("de", "le"),
    "aux": ("à", "les"),
    "della": ("di", "la"),
    "comigo": ("com", "migo"),
    "במצב": ("ב", "מצב"),
    "ושבבית": ("ו", "ש", "בבית"),
    "evdeydi": ("evde", "ydi"),
    "dámelo": ("da", "me", "lo"),
    "l'homme": ("l'", "homme"),
}


@pytest.mark.parametrize("token", SPLITS)
def test_rules_make_what_they_were_made_of(token):
    rule = split_rule(token, SPLITS[token])
    assert apply_rule(rule, token) == SPLITS[token]


@pytest.mark.parametrize(
    ("token", "words", "other", "expected"),
    [
        ("zum", ("zu", "dem"), "Im", ("I", "dem")),
        ("במצב", ("ב", "מצב"), "למצבים", ("ל", "מצבים")),
        ("evdeydi", ("evde", "ydi"), "okuldaydi", ("okulda", "ydi")),
        ("dello", ("di", "lo"), "Della", ("Di", "la")),
        ("neste", ("em", "este"), "Neste", ("Em", "este")),
        ("du", ("de", "le"), "DU", ("DE", "LE")),
        ("aux", ("à", "les"), "Aux", ("À", "les")),
    ],
)
def test_rules_are_for_other_tokens_too(token, words, other, expected):
    assert apply_rule(split_rule(token, words), other) == expected


@given(st.lists(st.text("abcאב", min_size=1, max_size=4), min_size=2, max_size=4))
def test_words_that_are_parts_are_found_again(words):
    token = "".join(words)
    assert apply_rule(split_rule(token, words), token) == tuple(words)


@pytest.mark.parametrize(
    ("rule", "token"), [("[0:3] [3:]", "abc"), ("[0:-2] [-2:]", "a"), ("[2:] x", "ab"), ("[", "a")]
)
def test_rules_that_do_not_fit(rule, token):
    assert apply_rule(rule, token) is None


@pytest.mark.parametrize(("token", "words"), [("a[b", ("a[", "b")), ("a b", ("a ", "b")), ("İx", ("İ", "x"))])
def test_tokens_without_a_rule(token, words):
    assert split_rule(token, words) is None
