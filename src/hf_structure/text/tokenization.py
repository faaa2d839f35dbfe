"""
Word-level tokenizers, with one id for each word; subword tokenizers, and the word of each subword.

They are plain `tokenizers` pipelines inside `TokenizersBackend`, so `AutoTokenizer` loads them without custom code.
The papers' normalisation (lower case, digit runs to `N`) is part of the pipeline and is saved with it.
"""

import itertools
import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, TokenizersBackend

SPECIAL_TOKENS = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
SUBWORD_SPECIAL_TOKENS = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
SUBWORD_KINDS = ("unigram", "bpe")  # of trained tokenizers
# No warning about long texts: callers report texts that are too long.
_PLAIN: dict[str, Any] = {"add_special_tokens": False, "verbose": False}
# Cache for each tokenizer: the size of its vocabulary, and the ids of the words it has split.
_KNOWN_WORDS: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[int, dict[str, list[int]]]] = WeakKeyDictionary()
_MOST_KNOWN_WORDS = 1 << 16
_SPACES = ("\u0120", "\u2581")  # prefixes of pieces that begin with a space: byte-level BPE and SentencePiece


def build_word_tokenizer(
    words: Iterable[str], *, lowercase: bool = True, replace_digits: bool = True, skip_punctuation: bool = True
) -> TokenizersBackend:
    """
    Builds a word-level tokenizer over a given vocabulary.

    Args:
        words (`Iterable[str]`):
            The vocabulary, already normalised, in the order of the ids after the special tokens `<unk>`, `<pad>` and
            `<mask>`.
        lowercase (`bool`):
            If True, words are lower-cased.
        replace_digits (`bool`):
            If True, each run of digits becomes `N`.
        skip_punctuation (`bool`):
            Stored with the vocabulary: if True, the model was trained without punctuation, and parsing withholds it
            from the model.
    """
    vocabulary = {token: i for i, token in enumerate(SPECIAL_TOKENS.values())}
    # Repeated words would leave gaps between the ids, which models turn into unused rows.
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS["unk_token"]))
    steps: list[normalizers.Normalizer] = []
    if lowercase:
        steps.append(normalizers.Lowercase())
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
    Trains a word-level tokenizer over the words of a corpus, the most frequent first (ties in alphabetical order).

    Args:
        sentences (`Iterable[Sequence[str]]`):
            Sentences as lists of words.
        min_frequency (`int`):
            Less frequent words become `<unk>`.
        vocab_size (`int`, *optional*):
            Upper bound on the size of the vocabulary, including special tokens.
        lowercase, replace_digits, skip_punctuation:
            See [`build_word_tokenizer`].

    Raises:
        ValueError: if no word is frequent enough.
    """
    options = {"lowercase": lowercase, "replace_digits": replace_digits, "skip_punctuation": skip_punctuation}
    normalizer: Any = build_word_tokenizer([], **options).backend_tokenizer.normalizer
    raw = Counter(word for sentence in sentences for word in sentence)
    counts = Counter()
    for word, count in raw.items():
        counts[normalizer.normalize_str(word)] += count
    # Special tokens have ids of their own.
    for token in SPECIAL_TOKENS.values():
        counts.pop(token, None)
    frequent = [word for word, count in counts.items() if count >= min_frequency]
    ranked = sorted(frequent, key=lambda word: (-counts[word], word))
    if not ranked:
        raise ValueError(
            f"no word occurs {min_frequency} times or more in {sum(raw.values())} words: lower min_frequency"
        )
    if vocab_size is not None:
        ranked = ranked[: max(vocab_size - len(SPECIAL_TOKENS), 0)]
    return build_word_tokenizer(ranked, **options)


def encode_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """
    Returns one id for each given word, however the tokenizer splits raw text. White space inside a word does not split
    it, and a word that contains a special token, such as `<unk>-like`, is unknown.

    Raises:
        ValueError: if the tokenizer has no vocabulary of words, or is not a fast one.
    """
    if not is_word_level(tokenizer):
        raise ValueError("the vocabulary of the tokenizer is one of pieces: one of words is needed")
    if not words:
        return []
    tokenizer = _fast(tokenizer)
    backend = tokenizer.backend_tokenizer
    added = tokenizer.added_tokens_encoder
    unknown = tokenizer.unk_token_id
    glued = ["".join(word.split()) for word in words]
    text = "\n".join(glued)  # normalised in one call: letter by letter, so that each line stays a word
    if backend.normalizer is not None:
        text = backend.normalizer.normalize_str(text)
    ids = []
    for word, normalised in zip(glued, text.split("\n"), strict=True):
        token_id = added.get(word, backend.token_to_id(normalised))
        ids.append(unknown if token_id is None else token_id)
    return ids


def encode(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """
    Returns the `input_ids` of given words, without special tokens, by [`encode_words`] if the tokenizer is word-level.
    Other tokenizers add `word_ids`, the word of each id from 0, and replace words that they drop by the unknown token.

    Raises:
        ValueError: if the tokenizer drops a word and has no unknown token, or if it is not a fast one.
    """
    if is_word_level(tokenizer):
        return {"input_ids": encode_words(words, tokenizer)}
    input_ids, word_ids = _flat(_without_gaps(words, _ids_of_words(words, tokenizer), tokenizer))
    return {"input_ids": input_ids, "word_ids": word_ids}


def is_word_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Returns True for a vocabulary of words, not of pieces. Raises `ValueError` for a tokenizer that is not fast."""
    return isinstance(_fast(tokenizer).backend_tokenizer.model, models.WordLevel)


def _fast(tokenizer: PreTrainedTokenizerBase) -> TokenizersBackend:
    if not isinstance(tokenizer, TokenizersBackend):
        raise ValueError("this tokenizer does not tell where its tokens stand in the text: a fast one is needed")
    return tokenizer


def _flat(ids_of_words: list[list[int]], first: int = 0) -> tuple[list[int], list[int]]:
    """Concatenates all ids, and returns the word of each, counted from `first`."""
    word_ids = [word for word, ids in enumerate(ids_of_words, start=first) for _ in ids]
    return list(itertools.chain.from_iterable(ids_of_words)), word_ids


def _ids_of_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """
    Returns the ids of each word, which do not depend on the words around it. Words split before are looked up in a
    cache, until the vocabulary grows.
    """
    size = len(tokenizer)
    cached_size, ids = _KNOWN_WORDS.get(tokenizer, (0, {}))
    if cached_size != size or len(ids) > _MOST_KNOWN_WORDS:
        ids = {}
        _KNOWN_WORDS[tokenizer] = (size, ids)
    new = [word for word in dict.fromkeys(words) if word not in ids]
    if new:
        ids |= zip(new, _split_words(new, tokenizer), strict=True)
    return [ids[word] for word in words]


def _split_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    encoding = tokenizer(list(words), is_split_into_words=True, **_PLAIN)
    ids_of_words = [[] for _ in words]
    for token_id, word in zip(encoding["input_ids"], encoding.word_ids(), strict=True):
        if word is not None:
            ids_of_words[word].append(token_id)
    return ids_of_words


def _without_gaps(
    words: Sequence[str], ids_of_words: list[list[int]], tokenizer: PreTrainedTokenizerBase
) -> list[list[int]]:
    """Inserts the unknown token for every word that the tokenizer drops."""
    unknown = tokenizer.unk_token_id
    filled = []
    for word, ids in zip(words, ids_of_words, strict=True):
        if not ids and unknown is None:
            raise ValueError(f"the tokenizer has no token for the word {word!r}, and no unknown token")
        filled.append(ids or [unknown])
    return filled


def train_subword_tokenizer(
    sentences: Iterable[Sequence[str]],
    *,
    vocab_size: int = 8000,
    kind: str = "unigram",
    word_tokenizer: str = "english",
) -> TokenizersBackend:
    """
    Trains a subword tokenizer on space-separated words. A text begins with `<s>`; callers add `</s>` at its end.

    Args:
        sentences (`Iterable[Sequence[str]]`):
            Sentences as lists of words.
        vocab_size (`int`):
            Size of the vocabulary, including special tokens; smaller for small corpora.
        kind (`"unigram"` or `"bpe"`):
            SentencePiece's unigram model over characters, or byte-level BPE, which covers every character.
        word_tokenizer (`str`):
            Stored with the vocabulary: the name of the tokenizer that splits raw text into these words, see
            [`~hf_structure.scoring.scoring.score`].

    Raises:
        ValueError: if `kind` is unknown, or `vocab_size` too small for the characters of the corpus.
    """
    if kind not in SUBWORD_KINDS:
        raise ValueError(f"kind must be 'unigram' or 'bpe', not {kind!r}")
    special = list(SUBWORD_SPECIAL_TOKENS.values())
    options = {"vocab_size": vocab_size, "special_tokens": special, "show_progress": False}
    texts = (_as_text(words) for words in sentences)
    if kind == "unigram":
        backend = unigram_backend(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token=SUBWORD_SPECIAL_TOKENS["unk_token"], **options)
        texts = _counting_characters(texts, vocab_size, len(special))
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    backend.train_from_iterator(texts, trainer)
    if kind == "unigram":
        backend.model = _reproducible(backend, len(special))
    return subword_tokenizer(backend, word_tokenizer=word_tokenizer)


def unigram_backend(model: models.Unigram) -> Tokenizer:
    """A backend with SentencePiece's unigram model, pre-tokenizer and decoder."""
    backend = Tokenizer(model)
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return backend


def subword_tokenizer(backend: Tokenizer, **settings: Any) -> TokenizersBackend:
    """Wraps a backend with `SUBWORD_SPECIAL_TOKENS`; a text begins with `<s>`. `settings` are saved."""
    bos = SUBWORD_SPECIAL_TOKENS["bos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    return TokenizersBackend(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        **settings,
        **SUBWORD_SPECIAL_TOKENS,
    )


def _counting_characters(texts: Iterable[str], vocab_size: int, num_special: int) -> Iterator[str]:
    """
    Passes texts through. Raises `ValueError` at the end if their characters do not fit the vocabulary, because
    `UnigramTrainer`, which keeps all characters, might never end.
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


def _reproducible(backend: Tokenizer, num_special: int) -> models.Unigram:
    """
    Makes the trained model reproducible. Training sums in the order of a hash table with a random seed, so that the
    last digits of the scores differ: scores are rounded, and pieces of equal score sorted alphabetically. Characters
    too rare to be pieces get the lowest score plus 0.0001, 0.0002, ... in random order: they are sorted
    alphabetically, too.
    """
    state = json.loads(backend.to_str())["model"]
    special = state["vocab"][:num_special]
    pieces = dict(state["vocab"][num_special:])
    lowest = min(pieces.values())
    steps = {piece: round((score - lowest) / 1e-4, 5) for piece, score in pieces.items() if len(piece) == 1}
    count = next(number for number in itertools.count() if number not in steps.values())
    added = sorted(piece for piece, step in steps.items() if step in range(count))
    pieces |= {piece: lowest + 1e-4 * min(number, count - 1) for number, piece in enumerate(added)}
    rounded = [(piece, round(score, 5)) for piece, score in pieces.items()]
    ranked = sorted(rounded, key=lambda pair: (-pair[1], pair[0]))
    return models.Unigram([*map(tuple, special), *ranked], unk_id=state["unk_id"])


def encode_subwords(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """
    Encodes space-separated words between a beginning and an end token, and numbers the word of each token.

    The text consists of the words with single spaces between them (white space inside a word is removed), and is
    tokenized as a whole. A token of only the space before a word belongs to that word. A word that the tokenizer drops
    becomes the unknown token.

    Args:
        words (`Sequence[str]`): The words.
        tokenizer (`PreTrainedTokenizerBase`): Any fast tokenizer with a beginning or an end token; if it has only one
            of them, it is used for both.

    Returns:
        `dict`: `input_ids`, and `word_ids` (from 1; 0 for beginning and end).

    Raises:
        ValueError: an empty word; a tokenizer that is not fast or has neither beginning nor end token; tokens that
            join words, or a dropped word where there is no unknown token.
    """
    bos, eos = _ends(tokenizer)
    input_ids, word_ids = _flat(pieces_of_words(words, tokenizer), first=1)
    return {"input_ids": [bos, *input_ids, eos], "word_ids": [0, *word_ids, 0]}


def pieces_of_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """
    Returns the token ids of each word in the text of these space-separated words; see [`encode_subwords`], also for
    the errors raised.
    """
    tokenizer = _fast(tokenizer)
    text = _as_text(words)
    word_at = []  # word of each character; a space belongs to the word after it
    for number, word in enumerate(text.split(" "), start=1):
        word_at += [number] * len(f" {word}")
    word_at = word_at[1:]
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
    Encodes an unchanged text between a beginning and an end token, and numbers the word of each token. The tokenizer
    must suit [`encode_subwords`].

    Words are separated by white space, which belongs to the word after it, at the end to the last word. A token of
    several words belongs to the first.

    Returns:
        `dict`: `input_ids`, `word_ids` (from 1; 0 for beginning and end), and `word_spans`, start and end in the text
        of each word with a token. If the text itself begins with a beginning token, no other is added.

    Raises `ValueError` for a text without words, or a tokenizer that is not fast or has neither beginning nor end
    token.
    """
    bos, eos = _ends(tokenizer)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    encoding = tokenizer(text, return_offsets_mapping=True, **_PLAIN)
    input_ids = encoding["input_ids"]
    starts = [start for start, _ in encoding["offset_mapping"]]
    if input_ids[:1] == [bos]:
        input_ids = input_ids[1:]
        starts = starts[1:]
    if not spans or not input_ids:
        raise ValueError("a sentence without words")
    words = _words_at(starts, spans)
    # Numbered without gaps, since the tokenizer may drop words.
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    return {
        "input_ids": [bos, *input_ids, eos],
        "word_ids": [0, *(numbers[word] for word in words), 0],
        "word_spans": [spans[word] for word in numbers],
    }


def _words_at(offsets: Iterable[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the index of the word at each offset, the next one for white space, or else the last."""
    ends = [end for _, end in spans]
    return [min(bisect_right(ends, offset), len(spans) - 1) for offset in offsets]


def word_start_mask(tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """Mask `(vocab_size,)` of the tokens that begin with a space, and so begin a word."""
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return torch.tensor([piece.startswith(_SPACES) for piece in pieces])


def inner_pieces(tokenizer: PreTrainedTokenizerBase) -> list[int] | None:
    """
    Ids of the tokens that continue a word, and begin none but the first of a text: all tokens without a leading space,
    except special and added ones, which may do either. None if no token has a leading space to decide by.
    """
    starts = word_start_mask(tokenizer)
    if not starts.any():
        return None
    starts[[*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder]] = True
    return (~starts).nonzero().flatten().tolist()


def number_words(input_ids: torch.Tensor, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """
    Numbers the word of each token of running text from the tokens alone, so that it works during generation. A token
    with a leading space begins a word, and so does the first one after the beginning, end or padding token.

    Args:
        input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): One text a row.

    Returns:
        `torch.LongTensor` of shape `(batch_size, seq_len)`: from 1; 0 for beginning, end and padding.
    """
    ends = [token_id for token_id in (*_ends(tokenizer), tokenizer.pad_token_id) if token_id is not None]
    is_end = torch.isin(input_ids, torch.tensor(ends, device=input_ids.device))
    after_end = torch.nn.functional.pad(is_end, (1, 0), value=True)[:, :-1]  # (batch_size, seq_len)
    starts = word_start_mask(tokenizer).to(input_ids.device)[input_ids] | after_end
    return (starts & ~is_end).long().cumsum(1).masked_fill(is_end, 0)


def _as_text(words: Sequence[str]) -> str:
    if not words:
        raise ValueError("a sentence without words")
    check_words(words)
    return " ".join("".join(word.split()) for word in words)


def check_words(words: Sequence[str]) -> None:
    """Raises `ValueError` for a word that is empty or only white space."""
    for number, word in enumerate(words, start=1):
        if not word.strip():
            raise ValueError(f"word {number} is empty")


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Ids of the tokens that begin and end a sentence."""
    tokenizer = _fast(tokenizer)
    ids = [getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id")]
    present = [token_id for token_id in ids if token_id is not None]
    if not present:
        raise ValueError("the tokenizer has neither a beginning nor an end token: sentences need one")
    return present[0], present[-1]
