"""Lemmas as edit rules, and features behind their part of speech."""

import random
import zlib

import pytest

from hf_structure.algorithms.word_annotations import (
    NO_LEXICON,
    Lexicon,
    choose_lexicon,
    features_label,
    features_of,
    form_ids,
    lemma_of,
    lemma_rule,
    read_lexicons,
    spell_lemmas,
)
from hf_structure.text.conllu import ConlluSentence, ConlluToken
from hf_structure.text.lexicons import known_lemmas, known_words


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


# Form, lemma, UPOS and XPOS of the words of a text, partly annotated by a tagger.
TEXT = [
    *[("they", "they", "PRON", "PRP"), ("Fled", "flee", "VERB", "VBD"), ("Fri", "Friday", "PROPN", "NNP")],
    *[("saw", "see", "VERB", "VBD"), ("saw", "saw", "VERB", "VBD"), ("saw", "see", "VERB", "VBD")],
    *[("saw", "saw", "NOUN", "NN"), ("x y", "xy", "NOUN", "NN"), ("7", "seven", "NUM", "CD"), ("cats", "_", "X", "_")],
    *[("a@b.c", "A@b.c", "X", "ADD"), ("Mp3s", "mp3", "NOUN", "NNS")],
    *[("Depict", "depict", "VERB", "VB"), ("depict", "depict", "VERB", "VBP")],
    *[("Oslo", "Oslo", "PROPN", "NNP")] * 2,
    *[("quickened", "quickene", "VERB", "VBD")] * 3,
    *[("acting", "act", "VERB", "VBG"), ("seeing", "see", "VERB", "VBG"), ("making", "make", "VERB", "VBG")],
    *[
        ("created", "create", "VERB", "VBN"),
        ("permitted", "permit", "VERB", "VBN"),
        ("agrees", "agree", "VERB", "VBZ"),
    ],
    *[("b", "benefit", "NOUN", "NN"), ("media", "media", "NOUN", "NN"), ("media", "media", "NOUN", "NN")],
    *[("co-op", "co-op", "NOUN", "NN"), ("9th", "9th", "ADJ", "JJ")] * 2,
    ("rare", "rare", "ADJ", "JJ"),
]


FORMS, *ANNOTATIONS = zip(*TEXT, strict=True)
SENTENCES = [
    ConlluSentence.from_words(FORMS).with_columns(dict(zip(("lemma", "upos", "xpos"), ANNOTATIONS, strict=True)))
]


def test_known_words():
    assert known_words(SENTENCES) == {
        "NN lower-0+enefit": "b",
        "NNP keep-0+": "Oslo",
        "NNP keep-0+day": "Fri",
        "NNS lower-1+": "Mp3s",
        "VB lower-0+": "Depict",
        "VBD lower-1+": "quickened",
        "VBD lower-1+e": "Fled",
        "VBD lower-2+ee": "saw",
        "VBG lower-3+": "acting seeing",
        "VBG lower-3+e": "making",
        "VBN lower-1+": "created",
        "VBN lower-3+": "permitted",
        "VBZ lower-1+": "agrees",
    }


@pytest.mark.parametrize(
    ("form", "lemma"), [("كتب", "كتاب"), ("ילדים", "ילד"), ("먹었다", "먹+었+다"), ("मुलांना", "मूल")]
)
def test_known_words_of_scripts_without_capitals(form, lemma):
    number = ConlluToken("2", "2026", "20", upos="NUM", head="1", deprel="dep")
    word = ConlluToken("1", form, lemma, upos="NOUN", head="0", deprel="root")
    known = known_words([ConlluSentence([], [word, number])], "upos", several=True)
    assert known == {f"NOUN {lemma_rule(form, lemma)}": form}
    assert Lexicon.read(known, "").lemma(["lower-0+"], form, "NOUN", "NOUN") == lemma


def test_known_lemmas():
    """Not `quickene`, which is no word of the text, and none of names, numbers and closed classes."""
    assert known_lemmas(SENTENCES) == "co-op depict media saw"
    assert known_lemmas(SENTENCES, min_frequency=1) == "co-op depict media rare saw"


LEXICON = Lexicon.read(known_words(SENTENCES), known_lemmas(SENTENCES))


@pytest.mark.parametrize(
    ("form", "upos", "xpos", "rules", "lemma"),
    [
        ("saw", "VERB", "VBD", ["lower-0+", "lower-1+w"], "see"),  # a known word, whatever the rules say
        ("saw", "NOUN", "NN", ["lower-0+", "lower-2+ee"], "saw"),  # not with this tag
        ("Saw", "VERB", "VBD", ["lower-0+", "lower-2+ee"], "saw"),  # nor as it is written
        ("depicting", "VERB", "VBG", ["lower-3+e", "lower-4+", "lower-3+"], "depict"),
        ("reacting", "VERB", "VBG", ["lower-3+", "lower-3+e"], "react"),  # nothing known: the best rule
        ("Braking", "PROPN", "NNP", ["keep-3+e", "lower-3+"], "Braking"),  # not with this tag
        ("depicting", "VERB", "VBG", ["lower-0+", "lower-3+"], "depicting"),  # a word that is its own lemma
        ("fleeing", "VERB", "VBG", ["lower-4+", "lower-3+"], "flee"),  # lemmas of known words are known
        ("sees", "VERB", "VBZ", ["lower-1+"], "see"),  # there are no other rules
        ("pls", "INTJ", "UH", ["lower-0+n", "lower-0+way"], "pls"),  # no known word ends so and has these rules
        ("THX", "NOUN", "NNS", ["lower-0+way", "lower-0+"], "thx"),
        ("c", "NOUN", "NN", ["lower-0+enefit"], "c"),
        ("mediated", "VERB", "VBN", ["lower-3+", "lower-1+"], "mediate"),  # not `media`, although that is known
        ("depicting", "NOUN", "NN", ["lower-3+"], "depict"),  # a known lemma, and a known word of another tag
        ("reacting", "NOUN", "NN", ["lower-3+"], "reacting"),  # no known lemma
        ("flown", "VERB", "VBN", ["lower-3+ee"], "flee"),  # a known lemma that begins likewise
        ("fle", "NOUN", "NN", ["lower-0+e"], "fle"),  # a longer one
        ("axed", "VERB", "VBD", ["lower-3+ct"], "axed"),  # one that shares its first letter alone
        ("seen", "AUX", "VBN", ["lower-4+act"], "act"),  # words of closed classes are irregular
        ("\u2014", "PUNCT", ":", ["lower-1+-"], "-"),  # signs are in no lexicon
    ],
)
def test_a_lexicon_corrects_lemmas(form, upos, xpos, rules, lemma):
    assert LEXICON.lemma(rules, form, upos, xpos) == lemma


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


def test_a_lexicon_knows_words_by_upos_where_there_is_no_xpos():
    lexicon = Lexicon.read({"NOUN lower-1+": "cats"}, "")
    columns = {"upos": ["NOUN", "VERB"]}
    assert spell_lemmas([["lower-0+"]] * 2, ["cats", "cats"], columns, [lexicon]) == ["cat", "cats"]


def test_a_word_of_several_languages_has_several_lemmas():
    """Of those that the lexicon lists, the best rule decides; a word that it lists once is looked up."""
    words = {"en": ("was", "be"), "nl": ("was", "zijn"), "fi": ("on", "olla")}
    sentences = [
        ConlluSentence([], [ConlluToken("1", form, lemma, upos="AUX", head="0", deprel="root")])
        for form, lemma in words.values()
    ]
    known = known_words(sentences, "upos", several=True)
    rules = {language: lemma_rule(form, lemma) for language, (form, lemma) in words.items()}
    assert known == {f"AUX {rules['en']}": "was", f"AUX {rules['nl']}": "was", f"AUX {rules['fi']}": "on"}
    lexicon = Lexicon.read(known, "")
    for language, (form, lemma) in words.items():
        assert lexicon.lemma(["lower-0+", rules[language], rules["nl"], rules["en"]], form, "AUX", "AUX") == lemma
    assert lexicon.lemma(["lower-0+"], "on", "AUX", "AUX") == "olla"
    assert lexicon.lemma(["lower-0+"], "was", "AUX", "AUX") in ("be", "zijn")


def test_the_language_with_most_words_of_a_sentence_corrects_them():
    words = {"en": {"AUX lower-3+be": "was", "NOUN lower-1+": "cats"}, "nl": {"AUX lower-3+zijn": "was"}}
    english, dutch = lexicons = read_lexicons(words, {"en": "", "nl": ""})
    assert choose_lexicon(lexicons, ["was", "cats"], ["AUX", "NOUN"]) is english
    assert choose_lexicon(lexicons, ["was", "cats"], ["AUX", "VERB"]) is english  # as many in both: the first one
    assert choose_lexicon((dutch, english), ["was"], ["AUX"]) is dutch
    assert choose_lexicon(lexicons, ["cat"], ["NOUN"]) is NO_LEXICON
    rules = [["lower-3+zijn", "lower-3+be"], ["lower-0+"]]
    assert spell_lemmas(rules, ["was", "cats"], {"upos": ["AUX", "NOUN"]}, lexicons) == ["be", "cat"]
    assert spell_lemmas(rules, ["was", "huis"], {"upos": ["AUX", "NOUN"]}, (dutch, english)) == ["zijn", "huis"]
    assert spell_lemmas([["lower-1+"]], ["cat"], {"upos": ["NOUN"]}, lexicons) == ["ca"]  # no language lists a word


def test_lexicons_are_read_once_and_again_when_they_have_changed():
    words = {"en": {"NOUN lower-1+": "cats"}, "nl": {"NOUN lower-2+": "katten"}}
    lemmas = {"en": "dog", "nl": "hond"}
    lexicons = read_lexicons(words, lemmas)
    assert [lexicon.lemmas for lexicon in lexicons] == [{"cat", "dog"}, {"katt", "hond"}]
    assert read_lexicons(words, lemmas) is lexicons
    words["en"]["NOUN lower-1+"] = "dogs"
    assert read_lexicons(words, lemmas)[0].rules == {("dogs", "NOUN"): ["lower-1+"]}
