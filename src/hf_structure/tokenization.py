"""
Word-level tokenizers, one word, one id; subword tokenizers, and the words that subwords belong to.

They are plain `tokenizers` pipelines inside `TokenizersBackend`, so `AutoTokenizer` loads them without custom code.
The papers' normalisation (lower case, digit runs to `N`) is part of the pipeline and is saved with it.
"""

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, TokenizersBackend

SPECIAL_TOKENS = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
SUBWORD_SPECIAL_TOKENS = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
SUBWORD_KINDS = ("unigram", "bpe")  # of tokenizers that are trained
_PLAIN = {"add_special_tokens": False, "verbose": False}  # no warning of long texts: callers say which are too long
_SPACES = ("\u0120", "\u2581")  # how a piece says that it begins with a space: byte-level BPE and SentencePiece


def build_word_tokenizer(
    words: Iterable[str], *, lowercase: bool = True, replace_digits: bool = True, skip_punctuation: bool = True
) -> TokenizersBackend:
    """
    Word-level tokenizer over a given vocabulary.

    Args:
        words (`Iterable[str]`):
            The vocabulary, already normalised, in the order of the ids after the special tokens `<unk>`, `<pad>` and
            `<mask>`.
        lowercase (`bool`):
            Whether words are lower-cased.
        replace_digits (`bool`):
            Whether each run of digits becomes `N`.
        skip_punctuation (`bool`):
            Stored beside the vocabulary: whether the model was trained without punctuation, so that parsing keeps
            punctuation from it.
    """
    vocabulary = {token: i for i, token in enumerate(SPECIAL_TOKENS.values())}
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS["unk_token"]))
    steps = [normalizers.Lowercase()] if lowercase else []
    if replace_digits:
        steps.append(normalizers.Replace(Regex("[0-9]+"), "N"))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return TokenizersBackend(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        skip_punctuation=skip_punctuation,
        **SPECIAL_TOKENS,
    )


def train_word_tokenizer(
    sentences: Iterable[Sequence[str]],
    *,
    min_frequency: int = 5,
    vocab_size: int | None = None,
    lowercase: bool = True,
    replace_digits: bool = True,
    skip_punctuation: bool = True,
) -> TokenizersBackend:
    """
    Word-level tokenizer over the words of a corpus, the most frequent first (ties in alphabetical order).

    Args:
        sentences (`Iterable[Sequence[str]]`):
            Sentences as lists of words.
        min_frequency (`int`):
            Words seen fewer times become `<unk>`.
        vocab_size (`int`, *optional*):
            Upper bound on the vocabulary, special tokens included.
        lowercase, replace_digits, skip_punctuation:
            See [`build_word_tokenizer`].

    Raises:
        ValueError: if no word is frequent enough.
    """
    options = {"lowercase": lowercase, "replace_digits": replace_digits, "skip_punctuation": skip_punctuation}
    normalizer = build_word_tokenizer([], **options).backend_tokenizer.normalizer
    raw = Counter(word for sentence in sentences for word in sentence)
    counts = Counter()
    for word, count in raw.items():
        counts[normalizer.normalize_str(word)] += count
    for token in SPECIAL_TOKENS.values():
        counts.pop(token, None)
    ranked = sorted((word for word, count in counts.items() if count >= min_frequency), key=lambda w: (-counts[w], w))
    if not ranked:
        raise ValueError(
            f"no word occurs {min_frequency} times or more in {sum(raw.values())} words: lower min_frequency"
        )
    if vocab_size is not None:
        ranked = ranked[: max(vocab_size - len(SPECIAL_TOKENS), 0)]
    return build_word_tokenizer(ranked, **options)


def encode_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """
    One id for each given word, however the tokenizer splits raw text. White space inside a word does not split it, and
    a word with a special token inside, such as `<unk>-like`, is unknown.

    Raises:
        ValueError: if the tokenizer has no vocabulary of words, or is none of the fast ones.
    """
    if not is_word_level(tokenizer):
        raise ValueError("the vocabulary of the tokenizer is one of pieces: one of words is needed")
    backend, added = tokenizer.backend_tokenizer, tokenizer.added_tokens_encoder
    glued = ["".join(word.split()) for word in words]
    # In one go: no normaliser of ours looks beyond a letter, and none of the words has a line break in it.
    text = "\n".join(glued) if backend.normalizer is None else backend.normalizer.normalize_str("\n".join(glued))
    ids = (added.get(word, backend.token_to_id(known)) for word, known in zip(glued, text.split("\n"), strict=True))
    return [tokenizer.unk_token_id if number is None else number for number in ids] if words else []


def encode(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """
    `input_ids` of given words, without special tokens: with a word-level tokenizer as [`encode_words`] gives them;
    with one of subwords there are also `word_ids`, the word of each id from 0, and a word that the tokenizer makes
    nothing of is unknown.

    Raises:
        ValueError: if that happens and the tokenizer has no unknown token, or if it is none of the fast ones.
    """
    if is_word_level(tokenizer):
        return {"input_ids": encode_words(words, tokenizer)}
    pieces = _without_gaps(words, _ids_of_words(words, tokenizer), tokenizer)
    return {
        "input_ids": [token_id for ids in pieces for token_id in ids],
        "word_ids": [word for word, ids in enumerate(pieces) for _ in ids],
    }


def is_word_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the vocabulary is one of words, not of pieces. Raises `ValueError` for a tokenizer that is not fast."""
    _check_fast(tokenizer)
    return isinstance(tokenizer.backend_tokenizer.model, models.WordLevel)


def _check_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    if not tokenizer.is_fast:
        raise ValueError("this tokenizer does not tell where its tokens stand in the text: a fast one is needed")


def _ids_of_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    encoding = tokenizer(list(words), is_split_into_words=True, **_PLAIN)
    ids_of_words = [[] for _ in words]
    for token_id, word in zip(encoding["input_ids"], encoding.word_ids(), strict=True):
        ids_of_words[word].append(token_id)
    return ids_of_words


def _without_gaps(
    words: Sequence[str], ids_of_words: list[list[int]], tokenizer: PreTrainedTokenizerBase
) -> list[list[int]]:
    """With the unknown token for every word that the tokenizer makes nothing of."""
    for word, ids in zip(words, ids_of_words, strict=True):
        if not ids and tokenizer.unk_token_id is None:
            raise ValueError(f"the tokenizer has no token for the word {word!r}, and no unknown token")
    return [ids or [tokenizer.unk_token_id] for ids in ids_of_words]


def train_subword_tokenizer(
    sentences: Iterable[Sequence[str]],
    *,
    vocab_size: int = 8000,
    kind: str = "unigram",
    word_tokenizer: str = "english",
) -> TokenizersBackend:
    """
    Subword tokenizer of space-separated words. A text begins with `<s>`; `</s>` is left to whoever ends it.

    Args:
        sentences (`Iterable[Sequence[str]]`):
            Sentences as lists of words.
        vocab_size (`int`):
            Size of the vocabulary, special tokens included; small corpora give less.
        kind (`"unigram"` or `"bpe"`):
            SentencePiece's unigram model over characters, or byte-level BPE, which knows every character.
        word_tokenizer (`str`):
            Stored beside the vocabulary: the name of what splits raw text into such words, see
            [`~hf_structure.pipelines.scoring.score`].

    Raises:
        ValueError: if `kind` is unknown, or `vocab_size` too small for the characters of the corpus.
    """
    if kind not in SUBWORD_KINDS:
        raise ValueError(f"kind must be 'unigram' or 'bpe', not {kind!r}")
    unk, _, bos, _ = special = list(SUBWORD_SPECIAL_TOKENS.values())
    options = {"vocab_size": vocab_size, "special_tokens": special, "show_progress": False}
    if kind == "unigram":
        backend = Tokenizer(models.Unigram())
        backend.normalizer = normalizers.NFKC()
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(unk_token=unk, **options)
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    texts = (_as_text(words) for words in sentences)
    if kind == "unigram":
        texts = _counting_characters(texts, vocab_size, len(special))
    backend.train_from_iterator(texts, trainer)
    if kind == "unigram":
        backend.model = _without_chance(backend, len(special))
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    return TokenizersBackend(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        word_tokenizer=word_tokenizer,
        **SUBWORD_SPECIAL_TOKENS,
    )


def _counting_characters(texts: Iterable[str], vocab_size: int, num_special: int) -> Iterator[str]:
    """
    The same texts. At the end a `ValueError` if their characters do not fit a vocabulary: `UnigramTrainer`, which
    keeps them all, might go on for ever.
    """
    characters = {" "}
    for text in texts:
        characters.update(unicodedata.normalize("NFKC", text))
        yield text
    if (least := len(characters) + num_special) > vocab_size:
        raise ValueError(
            f"vocab_size must be at least {least}, for {len(characters)} characters and {num_special} special tokens, "
            f"not {vocab_size}"
        )


def _without_chance(backend: Tokenizer, num_special: int) -> models.Unigram:
    """
    The trained model as it is after each training on the same text. Training adds in the order of a hash table that is
    seeded anew each time, so that the last digits of the scores differ: they are rounded, and pieces of equal score
    stand in alphabetical order. Characters that are no pieces by their frequency get the lowest score and 0.0001,
    0.0002, ... above it in any order: here in alphabetical order.
    """
    state = json.loads(backend.to_str())["model"]
    special, pieces = state["vocab"][:num_special], dict(state["vocab"][num_special:])
    lowest = min(pieces.values())
    steps = {piece: round((score - lowest) / 1e-4, 5) for piece, score in pieces.items() if len(piece) == 1}
    count = next(number for number in itertools.count() if number not in steps.values())
    added = sorted(piece for piece, step in steps.items() if step in range(count))
    pieces |= {piece: lowest + 1e-4 * min(number, count - 1) for number, piece in enumerate(added)}
    ranked = sorted(((piece, round(score, 5)) for piece, score in pieces.items()), key=lambda p: (-p[1], p[0]))
    return models.Unigram([*map(tuple, special), *ranked], unk_id=state["unk_id"])


def encode_subwords(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """
    The tokens of space-separated words between a beginning and an end token, and the word that each belongs to.

    The text is the words with single spaces between them (white space inside a word is taken out), and the tokens are
    those that the tokenizer gives for it. A token that is nothing but the space before a word belongs to that word. A
    word that the tokenizer drops becomes the unknown token.

    Args:
        words (`Sequence[str]`): The words.
        tokenizer (`PreTrainedTokenizerBase`): Any fast tokenizer with a beginning or an end token; one stands in for
            the other where there is but one.

    Returns:
        `dict`: `input_ids`, and `word_ids` (from 1; 0 for beginning and end).

    Raises:
        ValueError: an empty word; a tokenizer that is not fast or has neither beginning nor end token; tokens that
            join words, or a dropped word where there is no unknown token.
    """
    bos, eos = _ends(tokenizer)
    ids_of_words = pieces_of_words(words, tokenizer)
    return {
        "input_ids": [bos, *(token_id for ids in ids_of_words for token_id in ids), eos],
        "word_ids": [0, *(word for word, ids in enumerate(ids_of_words, start=1) for _ in ids), 0],
    }


def pieces_of_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """
    The token ids of each of space-separated words, as they are in a text of them; see [`encode_subwords`], also for
    the errors raised.
    """
    _check_fast(tokenizer)
    text = _as_text(words)
    word_at = [number for number, word in enumerate(text.split(" "), start=1) for _ in f" {word}"][1:]
    encoding = tokenizer(text, return_offsets_mapping=True, **_PLAIN)
    ids_of_words = [[] for _ in words]
    for token_id, (start, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
        word = word_at[min(start, len(text) - 1)]
        if end > start and word_at[end - 1] != word and text[end - 1] != " ":
            raise ValueError(f"the tokenizer joins words: {text[start:end]!r} is one token")
        ids_of_words[word - 1].append(token_id)
    return _without_gaps(words, ids_of_words, tokenizer)


def encode_text(text: str, tokenizer: PreTrainedTokenizerBase) -> dict[str, list]:
    """
    The tokens of a text as it is between a beginning and an end token, and the word that each belongs to.

    A word is what stands between white space. White space before a word belongs to it, at the end to the last one; a
    token of several words belongs to the first.

    Args:
        text (`str`): The text.
        tokenizer (`PreTrainedTokenizerBase`): As for [`encode_subwords`].

    Returns:
        `dict`: `input_ids`, `word_ids` (from 1; 0 for beginning and end), and `word_spans`, start and end in the text
            of each word that has a token. A beginning token that the text itself begins with is not doubled.

    Raises:
        ValueError: a text without words; a tokenizer that is not fast or has neither beginning nor end token.
    """
    bos, eos = _ends(tokenizer)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    word_at = [word for word, (_, end) in enumerate(spans) for _ in range(spans[word - 1][1] if word else 0, end)]
    encoding = tokenizer(text, return_offsets_mapping=True, **_PLAIN)
    input_ids, starts = encoding["input_ids"], [start for start, _ in encoding["offset_mapping"]]
    if input_ids[:1] == [bos]:
        input_ids, starts = input_ids[1:], starts[1:]
    if not spans or not input_ids:
        raise ValueError("a sentence without words")
    words = [word_at[min(start, len(word_at) - 1)] for start in starts]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    return {
        "input_ids": [bos, *input_ids, eos],
        "word_ids": [0, *(numbers[word] for word in words), 0],
        "word_spans": [spans[word] for word in numbers],
    }


def word_start_mask(tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """`(vocab_size,)`: which tokens begin with a space, and so begin a word."""
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return torch.tensor([piece.startswith(_SPACES) for piece in pieces])


def number_words(input_ids: torch.Tensor, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """
    The word of each token of running text, known from the tokens alone, as while they are generated: a token that
    begins with a space begins a word, and so does the first one after the beginning, end or padding token.

    Args:
        input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): One text a row.

    Returns:
        `torch.LongTensor` of shape `(batch_size, seq_len)`: from 1; 0 for beginning, end and padding.
    """
    ends = {*_ends(tokenizer), tokenizer.pad_token_id} - {None}
    is_end = torch.isin(input_ids, torch.tensor(sorted(ends), device=input_ids.device))
    after_end = torch.nn.functional.pad(is_end, (1, 0), value=True)[:, :-1]
    starts = word_start_mask(tokenizer).to(input_ids.device)[input_ids] | after_end
    return (starts & ~is_end).long().cumsum(1).masked_fill(is_end, 0)


def _as_text(words: Sequence[str]) -> str:
    glued = ["".join(word.split()) for word in words]
    if not glued or not all(glued):
        raise ValueError("a sentence without words" if not glued else f"word {glued.index('') + 1} is empty")
    return " ".join(glued)


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Ids of the tokens that begin and end a sentence."""
    _check_fast(tokenizer)
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    if bos is None and eos is None:
        raise ValueError("the tokenizer has neither a beginning nor an end token: sentences need one")
    return eos if bos is None else bos, bos if eos is None else eos


__all__ = [
    "build_word_tokenizer",
    "encode",
    "encode_subwords",
    "encode_text",
    "encode_words",
    "is_word_level",
    "number_words",
    "pieces_of_words",
    "train_subword_tokenizer",
    "train_word_tokenizer",
    "word_start_mask",
]
