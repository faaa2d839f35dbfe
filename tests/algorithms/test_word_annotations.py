"""Lemmas as edit rules, and features behind their part of speech."""

import random
import zlib

import pytest

from hf_structure.algorithms.word_annotations import features_label, features_of, form_ids, lemma_of, lemma_rule


@pytest.mark.parametrize(
    ("form", "lemma", "rule"),
    [
        ("cats", "cat", "lower-1+"),
        ("Cats", "cat", "lower-1+"),
        ("tries", "try", "lower-3+y"),
        ("Google", "Google", "keep-0+"),
        ("GOOGLE", "Google", "title-0+"),
        ("us", "US", "upper-0+"),
        ("went", "go", "lower-4+go"),
        ("n't", "not", "lower-2+ot"),
        (".", ".", "lower-0+"),
    ],
)
def test_rules(form, lemma, rule):
    assert lemma_rule(form, lemma) == rule
    assert lemma_of(rule, form) == lemma


def test_a_rule_gives_its_lemma_back():
    rng = random.Random(0)
    for _ in range(3000):
        form, lemma = ("".join(rng.choices("abAB-+'é1ßİ", k=rng.randint(1, 6))) for _ in range(2))
        assert lemma_of(lemma_rule(form, lemma), form) == lemma, (form, lemma)


def test_the_rule_is_as_short_as_any():
    rng = random.Random(1)
    for _ in range(300):
        form, lemma = ("".join(rng.choices("abAB", k=rng.randint(1, 4))) for _ in range(2))
        cut, added = lemma_rule(form, lemma).partition("-")[2].split("+")
        shortest = min(
            cut + len(lemma) - kept
            for cased in (form.lower(), form, form.capitalize(), form.upper())
            for cut in range(len(cased) + 1)
            for kept in [len(cased) - cut]
            if lemma.startswith(cased[:kept])
        )
        assert int(cut) + len(added) == shortest


@pytest.mark.parametrize("rule", ["lower-4+", "lower-3+", "keep-9+x"])
def test_a_rule_that_does_not_fit_leaves_the_word(rule):
    assert lemma_of(rule, "Abc") == "Abc"


def test_features():
    label = features_label("NOUN", "Case=Nom|Number=Plur")
    assert features_of(label) == "Case=Nom|Number=Plur"
    assert features_of(features_label("ADP", "_")) == "_"


@pytest.mark.parametrize(
    ("word", "looks"),
    [
        ("Walking", ("Walking", "walking", "wal", "ng", "ing", "king", "Xxxxx")),
        ("NATO-2025", ("NATO-2025", "nato-2025", "nat", "25", "025", "2025", "XXXX-dddd")),
        ("12345.", ("12345.", "12345.", "123", "5.", "45.", "345.", "dddd.")),
        ("of", ("of", "of", "of", "of", "of", "of", "xx")),
    ],
)
def test_looks_are_hashed_by_their_number(word, looks):
    hashed = [zlib.crc32(f"{number} {look}".encode()) % 1000 for number, look in enumerate(looks)]
    assert form_ids(word, 1000) == tuple(hashed)
