import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hf_structure.text.normalization import is_punctuation, normalize_word
from hf_structure.text.pre_tokenization import prepare_for_pipelines, word_pre_tokenizer
from hf_structure.text.tokenization import build_word_tokenizer, encode_words, train_subword_tokenizer
from hf_structure.text.words import tokenize_words

TEXTS = [
    "I can't stop; wouldn't've, cannot, gonna!",
    'Dr. Smith (of the U.S.) said: "It\'s non-profit..."',
    "Write to me@example.org or see https://example.org/a?b=c.",
    "At 5 pm, 1,200 people ran 12km and 3.5% left -- didnt they?",
    "Naïve façades, ΣΊΣΥΦΟΣ and ’tis the ’90s 🙂",
    "well-known and/or w/o :-) ^_^",
    "   ",
    "",
]
PIECES = [
    "do",
    "Can",
    "not",
    "n't",
    "n’t",
    "'s",
    "'",
    '"',
    "I",
    "m",
    "ve",
    ".",
    "...",
    ",",
    "-",
    "non-",
    " ",
    "  ",
    "(",
]
PIECES += ["U.S.", "Mr.", "a", "B", "ed", " www.x.org ", "/", "@", "&", "%", "\n", "_", "é"]
PIECES += ["etc.", " th- ", "#", "`s", "s' ", "?", " +", "mailto:", ".doc", "thats"]


def split(text: str, skip_punctuation: bool = False) -> list[str]:
    return [word for word, _ in word_pre_tokenizer(skip_punctuation).pre_tokenize_str(normalise(text))]


def normalise(text: str) -> str:
    return build_word_tokenizer([]).backend_tokenizer.normalizer.normalize_str(text)


@pytest.mark.parametrize("skip", [False, True], ids=["all", "no_punctuation"])
@pytest.mark.parametrize("text", TEXTS)
def test_splits_as_the_rules_do(text, skip):
    words = [word for word in tokenize_words(text) if not (skip and is_punctuation(word))]
    assert split(text, skip) == list(map(normalize_word, words))


@given(st.lists(st.sampled_from(PIECES), max_size=12))
@example(["do", "n't", "'s", "'s"])
def test_splits_anything_as_the_rules_do(pieces):
    text = "".join(pieces)
    assert split(text) == list(map(normalize_word, tokenize_words(text)))


def test_tokenizers_give_the_words_of_raw_text(tmp_path):
    tokenizer = build_word_tokenizer(["it", "is", "n't", "here", "N"])
    words = ["It", "is", "n't", "here", "1984"]
    assert tokenizer("It isn't here, 1984!")["input_ids"] != encode_words(words, tokenizer)
    prepare_for_pipelines(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, type(tokenizer).from_pretrained(tmp_path)):
        assert each("It isn't here, 1984!")["input_ids"] == encode_words(words, each) == [3, 4, 5, 6, 7]
        assert encode_words(["isn't", "7"], each) == [0, 7]  # given words stay whole
        assert each("It <mask> here")["input_ids"] == [3, 2, 6]


def test_sentences_of_pairs_are_told_apart(tmp_path):
    tokenizer = build_word_tokenizer(["a", "b"])
    prepare_for_pipelines(tokenizer, pairs=True)
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, type(tokenizer).from_pretrained(tmp_path)):
        assert each("a a.", "b!")["token_type_ids"] == [0, 0, 1]


def test_tokenizers_that_split_by_spaces_or_into_pieces_stay(tmp_path):
    spaces = build_word_tokenizer(["isn't", "it?"])
    spaces.init_kwargs["word_tokenizer"] = "spaces"
    pieces = train_subword_tokenizer([["isn't", "it?"]], vocab_size=300, kind="bpe")
    for tokenizer in (spaces, pieces):
        before = tokenizer("isn't it?")["input_ids"]
        prepare_for_pipelines(tokenizer)
        assert tokenizer("isn't it?")["input_ids"] == before
