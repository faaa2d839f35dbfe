import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.text.conllu import read_conllu
from hf_structure.text.formats import load_sentences
from hf_structure.text.normalization import (
    PTB_WORD_TAGS,
    UPOS_WORD_TAGS,
    is_punctuation,
    keep_mask,
    normalize_word,
)


@pytest.mark.parametrize(
    ("word", "normal"),
    [
        ("The", "the"),
        ("1,200", "N,N"),
        ("3.14", "N.N"),
        ("1990s", "Ns"),
        ("A4", "aN"),
        ("٣", "٣"),
        ("ΑΣ", "ασ"),
        ("", ""),
    ],
)
def test_normalize_word(word, normal):
    assert normalize_word(word) == normal


@given(st.text())
def test_normalized_words_have_no_digits_and_stay_themselves(word):
    normal = normalize_word(word)
    assert not set(normal) & set("0123456789")
    assert "NN" not in normal
    assert normalize_word(normal.replace("N", "1")) == normal


@pytest.mark.parametrize("word", [*".,:;!?'\"`-–—()[]{}/*^~|=+<>_«»…", "--", "...", "``", "''", "-LRB-", "-RCB-"])
def test_punctuation(word):
    assert is_punctuation(word)


@pytest.mark.parametrize(
    "word", ["%", "&", "#", "@", "$", "€", "£", "a", "1", "'s", "n't", "e-mail", "3.5", "$.", "", "LRB"]
)
def test_no_punctuation(word):
    assert not is_punctuation(word)


WORDS, TAGS, DEPRELS = (
    ["It", "cost", "$", "5", "/", "!"],
    ["PRP", "VBD", "$", "CD", "SYM", "."],
    [*"abcde", "punct"],
)


@pytest.mark.parametrize(
    ("tags", "deprels", "by", "kept"),
    [
        (TAGS, DEPRELS, "auto", "It cost $ 5 /"),
        (TAGS, None, "auto", "It cost 5 /"),
        (None, None, "auto", "It cost $ 5"),
        (TAGS, DEPRELS, "tags", "It cost 5 /"),
        (TAGS, DEPRELS, "deprel", "It cost $ 5 /"),
        (TAGS, DEPRELS, "form", "It cost $ 5"),
        (["PRON", "VERB", "SYM", "NUM", "X", "PUNCT"], None, "tags", "It cost $ 5 /"),
        (None, ["punct:x"] + ["dep"] * 5, "deprel", "cost $ 5 / !"),
    ],
)
def test_keep_mask(tags, deprels, by, kept):
    mask = keep_mask(WORDS, tags, deprels, by)
    assert [word for word, keep in zip(WORDS, mask, strict=True) if keep] == kept.split()


GERMAN = ["Der", "alte", "Hund", "bellt", ",", "laut", "."]
TAG_SETS = {
    "STTS": ["ART", "ADJA", "NN", "VVFIN", "$,", "ADV", "$."],
    "Prague": ["P4", "AA", "NNIS1", "VB", "Z:", "Dg", "Z:"],
    "Chinese": ["DT", "JJ", "NR", "VV", "PU", "AD", "PU"],
    "unknown": ["_"] * 7,
}
RELATIONS = {
    "SPMRL": ["NK", "NK", "SB", "--", "--", "MO", "--"],
    "French": ["det", "mod", "suj", "root", "ponct", "mod", "ponct"],
    "capitals": ["DET", "AMOD", "NSUBJ", "ROOT", "PONCT", "ADVMOD", "PUNCT"],
    "PUNC": ["Atr", "Atr", "Sb", "Pred", "PUNC", "Adv", "PUNC"],
    "partly annotated": ["det", "_", "nsubj", "root", "_", "_", "punct"],
}


@pytest.mark.parametrize("tags", TAG_SETS.values(), ids=TAG_SETS)
@pytest.mark.parametrize("by", ["auto", "tags"])
def test_tags_of_other_sets_say_nothing(tags, by):
    assert keep_mask(GERMAN, tags, by=by) == keep_mask(GERMAN, by="form") == [True] * 4 + [False, True, False]


@pytest.mark.parametrize("relations", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("tags", [None, TAG_SETS["STTS"], ["DET", "ADJ", "NOUN", "VERB", "PUNCT", "ADV", "PUNCT"]])
@pytest.mark.parametrize("by", ["auto", "deprel"])
def test_relations_of_other_schemes_say_nothing(relations, tags, by):
    assert keep_mask(GERMAN, tags, relations, by=by) == keep_mask(GERMAN, by="form")


def test_other_relations_of_words_that_look_like_punctuation():
    """The plural's apostrophe is a word, and a currency sign no punctuation, in Stanford dependencies too."""
    words, tags = ["the", "workers", "'", "$", "5", "."], ["DT", "NNS", "POS", "$", "CD", "."]
    assert keep_mask(words, tags, ["det", "poss", "possessive", "dobj", "num", "punct"]) == [True] * 5 + [False]


@pytest.mark.parametrize("by", ["tags", "deprel", "upos"])
def test_keep_mask_without_the_annotation(by):
    with pytest.raises(ValueError, match=by):
        keep_mask(WORDS, by=by)


def test_word_tags_of_the_penn_treebank():
    assert len(PTB_WORD_TAGS) == 38
    assert not PTB_WORD_TAGS & {".", ",", ":", "``", "''", "-LRB-", "-RRB-", "$", "#", "-NONE-"}


def disagreement(path, by: str) -> float:
    """Share of the words of a treebank whose universal tag is of another opinion."""
    total = different = 0
    for sentence in read_conllu(path):
        tags = [word.xpos for word in sentence.words]
        for word, kept in zip(sentence.words, keep_mask(sentence.forms, tags, sentence.deprels, by), strict=True):
            total += 1
            different += kept == (word.upos == "PUNCT")
    return different / total


@pytest.mark.parametrize("by", ["tags", "deprel"])
@pytest.mark.parametrize("name", ["de_gsd-dev", "zh_gsdsimp-dev", "ar_pud"])
def test_annotation_of_other_languages(data_dir, name, by):
    """By Penn tags alone, 61, 32 and 12 per cent of the words would be lost."""
    assert disagreement(data_dir / f"ud_other/{name}.conllu", by) < 0.0005


@pytest.mark.slow  # three of them are tested above
def test_annotation_of_many_languages(data_dir):
    """The largest share is that of a treebank whose `(2)` is one word, a mark of punctuation."""
    shares = [disagreement(path, "tags") for path in data_dir.glob("ud_many/*/dev.conllu.xz")]
    assert len(shares) > 70
    assert max(shares) < 0.015


@pytest.mark.parametrize("file", ["wsj_sample/test.mrg", "ewt216/en_ewt-ud-dev.conllu", "gum/en_gum-dev.conllu"])
def test_english_treebanks_lose_what_they_lost(data_dir, file):
    """By tag, all without the tag of a word; the WSJ has none of the tags of addresses, prefixes and the like."""
    later = {"ADD", "AFX", "GW", "XX"}
    for sentence in load_sentences(data_dir / file):
        words, tags, relations = (sentence[column] for column in ("words", "tags", "deprels"))
        mask = keep_mask(words, tags, by="tags")
        for word, tag, kept in zip(words, tags, mask, strict=True):
            assert kept == (not is_punctuation(word) if tag in later else tag in PTB_WORD_TAGS | UPOS_WORD_TAGS)
        if relations is not None:
            kept = [relation.partition(":")[0] != "punct" for relation in relations]
            assert keep_mask(words, tags, relations) == kept


def test_form_agrees_with_the_annotation_of_ewt(data_dir):
    total = different = 0
    for sentence in load_sentences(data_dir / "ewt/en_ewt-dev.conllu"):
        by_form, by_deprel = keep_mask(sentence["words"]), keep_mask(sentence["words"], None, sentence["deprels"])
        total += len(by_form)
        different += sum(one != other for one, other in zip(by_form, by_deprel, strict=True))
    assert different / total < 0.005
