import json
import unicodedata
from itertools import chain, pairwise

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, TokenizersBackend

from hf_structure.text.tokenization import (
    build_word_tokenizer,
    encode,
    encode_subwords,
    inner_pieces,
    number_words,
    train_subword_tokenizer,
    word_start_mask,
)

CORPUS = [
    ["The", "cats", "are", "n't", "sleeping", "."],
    ["Sleeping", "dogs", "chase", "cats", ",", "and", "cats", "sleep", "."],
    ["A", "naïve", "dog", "sleeps", "in", "the", "café", "..."],
] * 3
UNSEEN = ["Dogs", "🙂", "x" * 30, "日本語", "the", "caf\u0065\u0301", "'s"]


def byte_level(prefix: bool, trim: bool = True) -> TokenizersBackend:
    """In the style of GPT-2: one token begins and ends, and the first word has a space before it or has not."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("Ġ", "c"), ("Ġ", "s"), ("c", "a"), ("Ġc", "a")]
    vocabulary = {token: i for i, token in enumerate(["<|end|>", *alphabet, *("".join(pair) for pair in pairs)])}
    backend = Tokenizer(models.BPE(vocabulary, pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix, trim_offsets=trim)
    backend.decoder = decoders.ByteLevel()
    return TokenizersBackend(tokenizer_object=backend, bos_token="<|end|>", eos_token="<|end|>")


def sentence_piece(prepend: str) -> TokenizersBackend:
    """In the style of Llama: spaces as marks, unknown characters by name, a beginning but no end token."""
    characters = "▁abcdefghilnoprstuvwxyzADST.,'"
    vocabulary = [("<unk>", 0.0), ("<s>", 0.0), *((c, -5.0) for c in characters), ("▁cats", -2.0), ("sleep", -2.0)]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=False)
    backend.normalizer = normalizers.NFC()
    return TokenizersBackend(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token=None)


TOKENIZERS = {
    "unigram": lambda: train_subword_tokenizer(CORPUS, vocab_size=60),
    "bpe": lambda: train_subword_tokenizer(CORPUS, vocab_size=300, kind="bpe"),
    "byte-level": lambda: byte_level(False),
    "byte-level-prefix": lambda: byte_level(True),
    "byte-level-untrimmed": lambda: byte_level(False, trim=False),
    "sentence-piece": lambda: sentence_piece("always"),
    "sentence-piece-bare": lambda: sentence_piece("never"),
}


@pytest.fixture(params=TOKENIZERS.values(), ids=TOKENIZERS.keys())
def tokenizer(request):
    return request.param()


@pytest.mark.parametrize(
    "words", [CORPUS[0], CORPUS[1], CORPUS[2], UNSEEN, ["a"]], ids=["1", "2", "3", "unseen", "one"]
)
def test_tokens_and_their_words(tokenizer, words):
    encoded = encode_subwords(words, tokenizer)
    ids, word_ids = encoded["input_ids"], encoded["word_ids"]
    end = tokenizer.bos_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    assert (ids[0], ids[-1], word_ids[0], word_ids[-1]) == (tokenizer.bos_token_id, end, 0, 0)
    assert ids[1:-1] == tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    assert sorted(word_ids[1:-1]) == word_ids[1:-1]
    assert set(word_ids[1:-1]) == set(range(1, len(words) + 1))
    for number, word in enumerate(words, start=1):
        pieces = [token_id for token_id, of in zip(ids, word_ids, strict=True) if of == number]
        if tokenizer.unk_token_id not in pieces and tokenizer.backend_tokenizer.decoder is not None:
            text = tokenizer.backend_tokenizer.decode(pieces)
            assert text.strip() in (word, unicodedata.normalize("NFKC", word))


@pytest.mark.parametrize(
    "words", [CORPUS[0], CORPUS[1], CORPUS[2], UNSEEN, ["a"]], ids=["1", "2", "3", "unseen", "one"]
)
def test_words_are_known_from_the_tokens_alone(tokenizer, words):
    encoded = encode_subwords(words, tokenizer)
    assert number_words(torch.tensor([encoded["input_ids"]]), tokenizer).tolist() == [encoded["word_ids"]]
    starts = word_start_mask(tokenizer)
    assert starts.shape == (len(tokenizer),)
    assert not starts[torch.tensor(tokenizer.all_special_ids)].any()


@pytest.mark.parametrize("words", [CORPUS[0], CORPUS[2], UNSEEN], ids=["1", "3", "unseen"])
def test_pieces_that_go_on_with_a_word(tokenizer, words):
    encoded = encode_subwords(words, tokenizer)
    inner = inner_pieces(tokenizer)
    assert inner
    for (_, before), (token, word) in pairwise(zip(encoded["input_ids"], encoded["word_ids"], strict=True)):
        if before > 0 and token != tokenizer.unk_token_id:  # which also stands for words that are dropped
            assert (token in inner) == (word == before)


def test_whole_words_have_no_inner_pieces():
    assert inner_pieces(build_word_tokenizer(["a", "cat"])) is None


def split_at_once(words: list[str], tokenizer: TokenizersBackend) -> dict[str, list[int]]:
    encoding = tokenizer(words, is_split_into_words=True, add_special_tokens=False)
    return {"input_ids": encoding["input_ids"], "word_ids": encoding.word_ids()}


def test_words_met_before_have_the_same_pieces(tokenizer):
    sentences = [*CORPUS[:3], UNSEEN, [*reversed(UNSEEN), "cats", "The", "The"], CORPUS[2][::-1]]
    for words in sentences:
        assert encode(words, tokenizer) == split_at_once(words, tokenizer)


def test_words_met_before_the_vocabulary_grew(tokenizer):
    before = encode(["cats", "sleeping"], tokenizer)
    assert tokenizer.add_tokens(["sleeping"]) == 1
    after = encode(["cats", "sleeping"], tokenizer)
    assert after == split_at_once(["cats", "sleeping"], tokenizer)
    assert after != before


def test_words_of_padded_batches():
    tokenizer = TOKENIZERS["unigram"]()
    rows = [encode_subwords(words, tokenizer) for words in (CORPUS[0], ["cats"])]
    length = len(rows[0]["input_ids"])
    missing = [0] * (length - len(rows[1]["input_ids"]))
    pads = [tokenizer.pad_token_id] * len(missing)
    for side in ("left", "right"):
        second = (pads, rows[1]["input_ids"]) if side == "left" else (rows[1]["input_ids"], pads)
        words = (missing, rows[1]["word_ids"]) if side == "left" else (rows[1]["word_ids"], missing)
        batch = torch.tensor([rows[0]["input_ids"], list(chain(*second))])
        assert number_words(batch, tokenizer).tolist() == [rows[0]["word_ids"], list(chain(*words))]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_trained_tokenizers_load_again(kind, tmp_path):
    tokenizer = train_subword_tokenizer(iter(CORPUS), vocab_size=280, kind=kind)
    assert tokenizer.convert_ids_to_tokens(range(4)) == ["<unk>", "<pad>", "<s>", "</s>"]
    assert len(tokenizer) <= 280
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The cats chase a dog ."
    encoding = loaded(text)
    assert encoding["input_ids"] == tokenizer(text)["input_ids"]
    assert set(encoding) == {"input_ids", "attention_mask"}
    assert encoding["input_ids"][0] == loaded.bos_token_id == 2
    assert loaded.eos_token_id not in encoding["input_ids"]
    assert loaded.decode(encoding["input_ids"], skip_special_tokens=True).strip() == text
    assert encode_subwords(text.split(), loaded)["input_ids"][:-1] == encoding["input_ids"]


def test_bpe_knows_every_character():
    tokenizer = train_subword_tokenizer(CORPUS, vocab_size=300, kind="bpe")
    assert tokenizer.unk_token_id not in encode_subwords(UNSEEN, tokenizer)["input_ids"]


def test_white_space_inside_words_is_taken_out():
    tokenizer = TOKENIZERS["bpe"]()
    assert encode_subwords(["c a\u00a0ts", " dog\n"], tokenizer) == encode_subwords(["cats", "dog"], tokenizer)


def test_dropped_words_are_unknown():
    tokenizer = train_subword_tokenizer(CORPUS, vocab_size=60)
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("cats", "")
    encoded = encode_subwords(["the", "cats"], tokenizer)
    assert encoded["word_ids"][-2] == 2


def test_what_cannot_be_encoded():
    tokenizer = TOKENIZERS["bpe"]()
    with pytest.raises(ValueError, match="word 2 is empty"):
        encode_subwords(["a", "\u00a0"], tokenizer)
    with pytest.raises(ValueError, match="without words"):
        encode_subwords([], tokenizer)
    with pytest.raises(ValueError, match="neither a beginning nor an end token"):
        encode_subwords(["a"], build_word_tokenizer(["a"]))
    joining = Tokenizer(models.WordLevel({"<s>": 0, "a b": 1, "<unk>": 2}, unk_token="<unk>"))
    joining = TokenizersBackend(tokenizer_object=joining, bos_token="<s>")
    with pytest.raises(ValueError, match="joins words: 'a b' is one token"):
        encode_subwords(["a", "b"], joining)
    with pytest.raises(ValueError, match="'unigram' or 'bpe', not 'words'"):
        train_subword_tokenizer(CORPUS, kind="words")


def test_training_a_unigram_model_again_gives_the_same_tokenizer():
    """Also the characters that are too rare to be pieces by themselves, which get the lowest scores."""
    corpus = [[*sentence, rare] for sentence, rare in zip(CORPUS, "ξψωζχ", strict=False)] + CORPUS
    first, *others = (train_subword_tokenizer(corpus, vocab_size=60).backend_tokenizer.to_str() for _ in range(4))
    assert all(other == first for other in others)
    vocabulary = json.loads(first)["model"]["vocab"]
    assert [piece for piece, _ in vocabulary[:4]] == ["<unk>", "<pad>", "<s>", "</s>"]
    assert vocabulary[4:] == sorted(vocabulary[4:], key=lambda pair: (-pair[1], pair[0]))
    assert {"ξ", "ψ"} <= {piece for piece, _ in vocabulary}
