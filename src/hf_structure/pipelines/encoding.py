"""From sentences in any form to the inputs of a model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Protocol, TypeGuard

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.abilities import abilities_of
from hf_structure.data.normalization import is_punctuation
from hf_structure.data.sentences import (
    EmptySentenceError,
    LongSentenceError,
    SentenceError,
    as_python,
    as_sentence,
    check_characters,
    read_batch,
)
from hf_structure.data.text import Token, find_words, words_of_tokens
from hf_structure.pipelines.annotation import Tree, encode_tags, encode_tree, ids_of
from hf_structure.pipelines.options import MAX_WORDS
from hf_structure.tokenization import encode, encode_subwords

_CONTENT = {"words", "text"}
_GIVEN = (*_CONTENT, "start", "tags", "initial")


class Annotated(Protocol):
    """A sentence with columns, such as one of CoNLL-U."""

    def to_sentence(self) -> dict[str, Any]:
        """The sentence as a dictionary."""
        ...


OneSentence = str | Mapping[str, Any] | Annotated
Sentence = OneSentence | Sequence[str]


def encoding_options(model: PreTrainedModel) -> dict[str, Any]:
    """Options of [`encode_sentence`] for a model: how it reads words, how many at most, and what else it reads."""
    abilities = abilities_of(model.config)
    return {
        "encode_words": encode_subwords if abilities.incremental else encode,
        "model_words": abilities.max_words,
        "model_tokens": abilities.max_tokens,
        "tag_ids": ids_of(abilities.tags),
        "label_ids": ids_of(abilities.initial_labels),
        "read_beside": abilities.read_beside,
    }


def is_one_sentence(sentences: Any) -> TypeGuard[OneSentence]:
    """Whether this is one sentence: a list of strings is several raw sentences."""
    return isinstance(sentences, str | Mapping) or hasattr(sentences, "to_sentence")


def read_sentences(sentences: Any) -> Sentence | Iterable[Sentence]:
    """One sentence as it is; several as [`~hf_structure.data.sentences.read_batch`] gives them, with its errors."""
    return sentences if is_one_sentence(sentences) else read_batch(sentences)


def with_columns(sentences: Iterable[Sentence], **columns: Iterable | None) -> Iterator[tuple[Sentence, dict]]:
    """
    Each sentence with its values in the columns that are not None; a missing value is None. Raises `ValueError` if a
    column is longer than the sentences, when their end is reached, and `SentenceError` if one is shorter, for the
    first sentence without its value.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    end: Any = object()
    for number, (sentence, *values) in enumerate(zip_longest(sentences, *given.values(), fillvalue=end), start=1):
        beside = dict(zip(given, values, strict=True))
        for name, value in beside.items():
            if sentence is end and value is not end:
                raise ValueError(f"{name} goes on after the last sentence, which is number {number - 1}")
            if value is end and sentence is not end:
                raise SentenceError(number, f"{name} ends after {number - 1} sentences")
        yield sentence, {name: as_python(value) for name, value in beside.items()}


def encode_all(
    sentences: Iterable[tuple[Sentence, dict]], encode: Callable, skipped: tuple[type[ValueError], ...] = ()
) -> Iterator[dict[str, Any] | None]:
    """
    What `encode` makes of the sentences of [`with_columns`]; None for those that are `skipped` for these errors.
    Raises `SentenceError` if `encode` raises another `ValueError`.
    """
    for number, (sentence, beside) in enumerate(sentences, start=1):
        try:
            encoded = encode(sentence, **beside)
        except skipped:
            encoded = None
        except ValueError as error:
            raise SentenceError(number, str(error)) from error
        yield encoded


def skipped_errors(skip_long: bool, skip_empty: bool) -> tuple[type[ValueError], ...]:
    """The errors of the sentences that are left out."""
    return (LongSentenceError,) * skip_long + (EmptySentenceError,) * skip_empty


def encode_sentence(
    sentence: Sentence,
    tokenizer: PreTrainedTokenizerBase,
    *,
    tags: Sequence[str] | None = None,
    initial: Tree | None = None,
    punctuation: str = "attach",
    word_tokenizer: Callable[[str], Sequence[Token]],
    max_words: int = MAX_WORDS,
    model_words: int | None = None,
    model_tokens: int | None = None,
    encode_words: Callable[[Sequence[str], PreTrainedTokenizerBase], dict[str, list[int]]] = encode,
    tag_ids: Mapping[str, int] | None = None,
    label_ids: Mapping[str, int] | None = None,
    read_beside: Callable[[Sequence[str]], dict[str, list]] | None = None,
    treebank_id: int | None = None,
) -> dict[str, Any]:
    """
    Words of a sentence (`words`), which of them the model sees (`keep`), and what `encode_words` makes of those; of
    raw text also the `source`: `text`, `word_spans`, `start` and `multiword_tokens`, as a `Parse` has them. For a
    model that reads tags (`tag_ids` are their numbers) also `tag_ids`, and if there is an initial tree `initial_heads`
    and `initial_relations` (by the numbers in `label_ids`), of the words that it sees; and what `read_beside` gives of
    them, and `treebank_ids`.

    `model_words` and `model_tokens` are as many as the model can see. `tags` and `initial` come before those of the
    sentence itself.

    Raises `LongSentenceError`, `EmptySentenceError`, and `ValueError` for half a character, a sentence of no form that
    is known, another number of tags or heads than of words, or an initial tree that is none of this sentence or that
    the model cannot use.
    """
    given = _as_dictionary(sentence)
    words, multiword_tokens = _words_of(given, word_tokenizer, max_words)
    keep = seen_mask(words, tokenizer, punctuation)
    seen = [word for word, kept in zip(words, keep, strict=True) if kept]
    _check_positions(len(seen), "words", model_words)
    source = _source(given, words, multiword_tokens)
    encoded = {"words": words, "keep": keep, "source": source, **encode_words(seen, tokenizer)}
    _check_positions(len(encoded["input_ids"]), "tokens", model_tokens)
    encoded |= encode_beside(seen, read_beside, treebank_id)
    if tag_ids is not None:
        encoded["tag_ids"] = encode_tags(given.get("tags") if tags is None else tags, keep, tag_ids)
    initial = given.get("initial") if initial is None else initial
    return encoded if initial is None else {**encoded, **encode_tree(initial, keep, label_ids)}


def encode_beside(
    words: Sequence[str], read_beside: Callable[[Sequence[str]], dict[str, list]] | None, treebank_id: int | None
) -> dict[str, list]:
    """What a model reads of words beside their ids: what `read_beside` gives, and the treebank, if there is one."""
    beside = {} if read_beside is None else read_beside(words)
    return beside if treebank_id is None else beside | {"treebank_ids": [treebank_id] * len(words)}


def _as_dictionary(sentence: Any) -> Mapping[str, Any]:
    if hasattr(sentence, "to_sentence"):
        return sentence.to_sentence()
    sentence = as_sentence(sentence)
    if isinstance(sentence, Mapping):
        cells = {name: as_python(sentence[name]) for name in _GIVEN if name in sentence}
        given = {name: value for name, value in cells.items() if value is not None}
        if cells.keys() & _CONTENT and not given.keys() & _CONTENT:
            raise EmptySentenceError("the sentence is empty")
    else:
        given = {"text" if isinstance(sentence, str) else "words": sentence}
    words = given.get("words")
    text = given.get("text")
    is_known = isinstance(words, Sequence) and not isinstance(words, str)
    if is_known or (words is None and isinstance(text, str)):
        return given
    raise ValueError(f"a sentence is a string, a list of words or a dictionary that has words, not {sentence!r}")


def _words_of(
    given: Mapping[str, Any], word_tokenizer: Callable[[str], Sequence[Token]], max_words: int
) -> tuple[list[str], list[tuple[int, int]]]:
    """The words, and of text also the first and the last one of each multiword token."""
    multiword_tokens: list[tuple[int, int]] = []
    if given.get("words") is None:
        check_characters(given["text"])
        words, multiword_tokens = words_of_tokens(word_tokenizer(given["text"]))
    else:
        words = list(given["words"])
    for position, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"word {position} is {word!r}: words are strings that are not empty")
        check_characters(word)
    if not words:
        raise EmptySentenceError("the sentence is empty")
    if len(words) > max_words:
        raise LongSentenceError(f"the sentence has {len(words)} words, more than the {max_words} of max_words")
    return words, multiword_tokens


def _source(
    given: Mapping[str, Any], words: Sequence[str], multiword_tokens: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """The part of raw text that a parse keeps. Words that are no parts of the text make up no tokens of it."""
    if given.get("words") is not None:
        return {}
    spans = find_words(given["text"], words)
    source = {"text": given["text"], "word_spans": spans, "start": given.get("start", 0), "multiword_tokens": []}
    if spans is None:
        return source
    for first, last in multiword_tokens:
        if any(end != start for (_, end), (start, _) in pairwise(spans[first - 1 : last])):
            raise ValueError(f"the words {first} to {last} are one token, but there is white space between them")
    return source | {"multiword_tokens": multiword_tokens}


def seen_mask(words: Sequence[str], tokenizer: PreTrainedTokenizerBase, punctuation: str = "attach") -> list[bool]:
    """Which words the model sees; all, if all are punctuation."""
    keep = [True] * len(words)
    if punctuation == "parse" or not tokenizer.init_kwargs.get("skip_punctuation"):
        return keep
    marked = [not is_punctuation(word) for word in words]
    return marked if any(marked) else keep


def _check_positions(number: int, kind: str, longest: int | None) -> None:
    if longest is not None and number > longest:
        message = f"the sentence has {number} {kind}, more than the {longest} that this model has positions for"
        raise LongSentenceError(message)
