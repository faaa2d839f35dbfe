import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast, TokenizersBackend

from hf_structure.text.normalization import normalize_word
from hf_structure.text.tokenization import (
    build_word_tokenizer,
    encode,
    encode_words,
    is_word_level,
    train_subword_tokenizer,
    train_word_tokenizer,
)

WORDS = ["the", "dog", "N", "nth", "a-b"]
words_without_space = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tokenizer():
    return build_word_tokenizer(WORDS)


def test_special_tokens_come_first(tokenizer):
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == ["<unk>", "<pad>", "<mask>", *WORDS]
    assert (tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 1, 2)
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2]


def test_doubled_words_keep_their_first_id():
    tokenizer = build_word_tokenizer(["a", "b", "a", "<pad>", "c"])
    assert tokenizer.get_vocab() == {"<unk>": 0, "<pad>": 1, "<mask>": 2, "a": 3, "b": 4, "c": 5}


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["The", "DOG"], ["the", "dog"]),
        (["1984", "12th", "1,2"], ["N", "<unk>", "<unk>"]),
        (["a-b", "a"], ["a-b", "<unk>"]),
        (["the", "<mask>", "dog"], ["the", "<mask>", "dog"]),
        ([], []),
        (["", " ", "\u2003"], ["<unk>"] * 3),
        (["t he", " dog\n", "d\to\u00a0g"], ["the", "dog", "dog"]),
        (["<unk>-like", "the<unk>dog", "<unk>"], ["<unk>"] * 3),
        (["the<mask>dog", "<mask><mask>", "dog<pad>", "the"], ["<unk>", "<unk>", "<unk>", "the"]),
        (["hello", "🙂", "naïve", "\u200b"], ["<unk>"] * 4),
    ],
    ids=lambda value: " ".join(value).strip() or "empty",
)
def test_one_id_for_each_word(tokenizer, words, tokens):
    assert encode_words(words, tokenizer) == tokenizer.convert_tokens_to_ids(tokens)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=6))
def test_any_words_give_one_id_each(tokenizer, words):
    assert len(encode_words(words, tokenizer)) == len(words)


def test_given_words_are_not_split():
    backend = Tokenizer(models.WordLevel({"<unk>": 0, "do": 1, "n't": 2, "'": 3, "n": 4, "t": 5}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Punctuation()
    splitting = TokenizersBackend(tokenizer_object=backend, unk_token="<unk>")
    assert splitting("n't")["input_ids"] == [4, 3, 5]
    assert encode_words(["do", "n't"], splitting) == [1, 2]


def test_pieces_are_no_words():
    pieces = train_subword_tokenizer([["a", "b"]], vocab_size=262, kind="bpe")
    with pytest.raises(ValueError, match="one of pieces: one of words is needed"):
        encode_words(["a"], pieces)


@given(words_without_space)
@example("1,200th")
@example("İSTANBUL")
@example("ΣΊΣΥΦΟΣ")
@example("٣٤")
def test_normalisation_is_that_of_normalize_word(tokenizer, word):
    assert tokenizer.backend_tokenizer.normalizer.normalize_str(word) == normalize_word(word)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "nNth"),
        ({"lowercase": False}, "NNth"),
        ({"replace_digits": False}, "n12th"),
        ({"lowercase": False, "replace_digits": False}, "N12th"),
    ],
    ids=["both", "digits", "case", "none"],
)
def test_normalisation_can_be_left_out(options, expected, tmp_path):
    tokenizer = build_word_tokenizer(["nNth", "NNth", "n12th", "N12th"], **options)
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert each.convert_ids_to_tokens(encode_words(["N12th"], each)) == [expected]


def test_auto_tokenizer_loads_what_was_saved(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert "auto_map" not in saved
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded) is type(tokenizer)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    words = ["The", "1984", "unheard", "a-b"]
    encoding = loaded([words, ["dog"]], is_split_into_words=True, padding=True)
    assert set(encoding) == {"input_ids", "attention_mask"}
    assert encoding["input_ids"] == [[3, 5, 0, 7], [4, 1, 1, 1]]
    assert encoding["attention_mask"] == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert encoding.word_ids(0) == [0, 1, 2, 3]
    assert encode_words(words, loaded) == [3, 5, 0, 7]


@pytest.mark.parametrize("skip", [True, False])
def test_whether_punctuation_is_skipped_is_kept(skip, tmp_path):
    build_word_tokenizer(WORDS, skip_punctuation=skip).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.init_kwargs["skip_punctuation"] is skip
    loaded.save_pretrained(tmp_path / "again")
    assert AutoTokenizer.from_pretrained(tmp_path / "again").init_kwargs["skip_punctuation"] is skip


CORPUS = [["The", "cat", "saw", "the", "dog"], ["the", "dog", "saw", "7", "Cats"], ["cat", "12", "<mask>", "<mask>"]]


def test_training_ranks_words_by_frequency_then_alphabet():
    tokenizer = train_word_tokenizer(CORPUS, min_frequency=1)
    assert tokenizer.convert_ids_to_tokens(range(3, len(tokenizer))) == ["the", "N", "cat", "dog", "saw", "cats"]


def test_training_leaves_rare_words_out():
    tokenizer = train_word_tokenizer(iter(CORPUS), min_frequency=3)
    assert tokenizer.convert_ids_to_tokens(range(3, len(tokenizer))) == ["the"]
    assert encode_words(["THE", "dog"], tokenizer) == [3, 0]


@pytest.mark.parametrize("size", [4, 5, 100])
def test_training_bounds_the_vocabulary(size):
    tokenizer = train_word_tokenizer(CORPUS, min_frequency=1, vocab_size=size)
    assert len(tokenizer) == min(size, 9)
    assert tokenizer.convert_ids_to_tokens(3) == "the"


def test_training_keeps_the_options(tmp_path):
    tokenizer = train_word_tokenizer(
        CORPUS, min_frequency=2, lowercase=False, replace_digits=False, skip_punctuation=False
    )
    assert tokenizer.convert_ids_to_tokens(range(3, len(tokenizer))) == ["cat", "dog", "saw", "the"]
    assert tokenizer.init_kwargs["skip_punctuation"] is False


def test_training_needs_a_frequent_word():
    with pytest.raises(ValueError, match="no word occurs 5 times or more in 14 words: lower min_frequency"):
        train_word_tokenizer(CORPUS)
    with pytest.raises(ValueError, match="in 0 words"):
        train_word_tokenizer([])


# Words of any tokenizer


def test_encoding_of_words(tokenizer):
    assert is_word_level(tokenizer)
    words = ["The", "1984", "unheard", "<pad>", "a-b", ""]
    assert encode(words, tokenizer) == {"input_ids": encode_words(words, tokenizer)}


def test_encoding_of_words_by_subwords(subword_structformer):
    tokenizer = AutoTokenizer.from_pretrained(subword_structformer)
    assert not is_word_level(tokenizer)
    words = ["Antidisestablishment", "New York", "naïve", "🙂", "the", "3.14"]
    encoded = encode(words, tokenizer)
    assert set(encoded) == {"input_ids", "word_ids"}
    pieces = [[] for _ in words]
    for token_id, word in zip(encoded["input_ids"], encoded["word_ids"], strict=True):
        pieces[word].append(token_id)
    assert [tokenizer.decode(ids).strip() for ids in pieces] == words
    assert encoded["word_ids"] == sorted(encoded["word_ids"])
    assert len(encoded["input_ids"]) > 3 * len(words)
    assert encode([], tokenizer) == {"input_ids": [], "word_ids": []}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_words_are_encoded_without_special_tokens(kind):
    tokenizer = train_subword_tokenizer(CORPUS * 20, vocab_size=300, kind=kind)
    encoded = encode(["the", "cat"], tokenizer)
    assert set(encoded["input_ids"]).isdisjoint(tokenizer.all_special_ids)
    assert set(encoded["word_ids"]) == {0, 1}


def test_vocabulary_that_is_too_small_for_the_characters_is_refused():
    text = [["the", "old", "man"], ["walked", "slow"]] * 3
    least = len({*"theoldmanwalkedslow"}) + 1 + 4  # the space is one, too
    assert len(train_subword_tokenizer(text, vocab_size=least)) == least
    with pytest.raises(ValueError, match=f"vocab_size must be at least {least}, for {least - 4} characters and 4"):
        train_subword_tokenizer(text, vocab_size=least - 1)


def vanishing_tokenizer(unk_token: str | None) -> PreTrainedTokenizerFast:
    """Its normalisation makes nothing of some words."""
    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(clean_text=True)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=unk_token)


def test_word_of_which_a_tokenizer_makes_nothing_is_unknown():
    encoded = encode(["ab", "\u200b", "a"], vanishing_tokenizer("[UNK]"))
    assert encoded == {"input_ids": [1, 2, 0, 1], "word_ids": [0, 0, 1, 2]}
    with pytest.raises(ValueError, match=r"no token for the word '\\u200b', and no unknown token"):
        encode(["ab", "\u200b"], vanishing_tokenizer(None))


def test_tokenizer_that_is_not_fast_is_refused():
    for read in (is_word_level, lambda tokenizer: encode(["a"], tokenizer)):
        with pytest.raises(ValueError, match="a fast one is needed"):
            read(ByT5Tokenizer())
