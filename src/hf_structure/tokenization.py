"""
Word-level tokenizers: one word, one id.

They are plain `tokenizers` pipelines inside `TokenizersBackend`, so `AutoTokenizer` loads them without custom code.
The papers' normalisation (lower case, digit runs to `N`) is part of the pipeline and is saved with it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerBase, TokenizersBackend

SPECIAL_TOKENS = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}


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
    One id for each given word. White space inside a word does not split it, and a word with a special token inside,
    such as `<unk>-like`, is unknown.

    Raises:
        ValueError: if the tokenizer splits a word into several tokens, i.e. is no word-level tokenizer.
    """
    glued = ["".join(word.split()) or tokenizer.unk_token for word in words]
    encoding = tokenizer(glued, is_split_into_words=True, add_special_tokens=False)
    ids_of_words = [[] for _ in words]
    for token_id, word in zip(encoding["input_ids"], encoding.word_ids(), strict=True):
        ids_of_words[word].append(token_id)
    special_ids = set(tokenizer.all_special_ids)
    for word, ids in zip(words, ids_of_words, strict=True):
        if len(ids) != 1 and special_ids.isdisjoint(ids):
            raise ValueError(
                f"the tokenizer gives {len(ids)} tokens for the word {word!r}: a word-level one is needed"
            )
    return [ids[0] if len(ids) == 1 else tokenizer.unk_token_id for ids in ids_of_words]


__all__ = ["build_word_tokenizer", "encode_words", "train_word_tokenizer"]
