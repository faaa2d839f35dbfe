import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.data.normalization import PTB_WORD_TAGS, is_punctuation, keep_mask, normalize_word


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


@pytest.mark.parametrize("by", ["tags", "deprel", "upos"])
def test_keep_mask_without_the_annotation(by):
    with pytest.raises(ValueError, match=by):
        keep_mask(WORDS, by=by)


def test_word_tags_of_the_penn_treebank():
    assert len(PTB_WORD_TAGS) == 38
    assert not PTB_WORD_TAGS & {".", ",", ":", "``", "''", "-LRB-", "-RRB-", "$", "#", "-NONE-"}


def test_form_agrees_with_the_annotation_of_ewt(data_dir):
    from hf_structure.data.corpus import load_sentences

    total = different = 0
    for sentence in load_sentences(data_dir / "ewt/en_ewt-dev.conllu"):
        by_form, by_deprel = keep_mask(sentence["words"]), keep_mask(sentence["words"], None, sentence["deprels"])
        total += len(by_form)
        different += sum(one != other for one, other in zip(by_form, by_deprel, strict=True))
    assert different / total < 0.005
