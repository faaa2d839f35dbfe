"""Encodes sentences in any form as the inputs of a model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any

from transformers import PreTrainedTokenizerBase

from hf_structure.models.abilities import Abilities
from hf_structure.parsing.annotation import Tree, encode_tags, encode_tree, ids_of
from hf_structure.parsing.options import MAX_WORDS
from hf_structure.text.normalization import is_punctuation
from hf_structure.text.sentences import (
    EmptySentenceError,
    LongSentenceError,
    SentenceError,
    SourceSentence,
    as_python,
)
from hf_structure.text.tokenization import encode, encode_subwords
from hf_structure.text.words import Token, find_words, words_of_tokens

POSITIONS = "that this model has positions for"


def with_columns(sentences: Iterable[Any], **columns: Iterable | None) -> Iterator[tuple[Any, dict]]:
    """
    Pairs each sentence with its values in the columns that are not None; a missing value is None. Raises `ValueError`
    at the end of the sentences if a column is longer, and `SentenceError` for the first sentence without a value if a
    column is shorter.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    # A unique object marks the end of a column, because None is a valid value.
    end: Any = object()
    for number, (sentence, *values) in enumerate(zip_longest(sentences, *given.values(), fillvalue=end), start=1):
        value_of = dict(zip(given, values, strict=True))
        for name, value in value_of.items():
            if sentence is end and value is not end:
                raise ValueError(f"{name} goes on after the last sentence, which is number {number - 1}")
            if value is end and sentence is not end:
                raise SentenceError(number, f"{name} ends after {number - 1} sentences")
        yield sentence, {name: as_python(value) for name, value in value_of.items()}


def encode_all(
    sentences: Iterable[tuple[Any, dict]], encode: Callable, skipped: tuple[type[ValueError], ...] = ()
) -> Iterator[dict[str, Any] | SentenceError]:
    """
    Encodes the sentences of [`with_columns`] with `encode`. A `ValueError` of `encode` becomes a `SentenceError`,
    which is yielded if the error is in `skipped`, and else raised.
    """
    for number, (sentence, annotations) in enumerate(sentences, start=1):
        try:
            encoded = encode(sentence, **annotations)
        except ValueError as error:
            encoded = SentenceError(number, str(error), getattr(sentence, "place", ""))
            if not isinstance(error, skipped):
                raise encoded from error
        yield encoded


def skipped_errors(skip_long: bool, skip_empty: bool) -> tuple[type[ValueError], ...]:
    """Returns the errors for which a sentence is skipped."""
    return (LongSentenceError,) * skip_long + (EmptySentenceError,) * skip_empty


@dataclass(frozen=True)
class SentenceEncoder:
    """Encodes a sentence as the inputs of a model."""

    tokenizer: PreTrainedTokenizerBase
    word_tokenizer: Callable[[str], Sequence[Token]]  # splits raw text
    abilities: Abilities = field(default_factory=Abilities)  # the model's limits and additional inputs
    punctuation: str = "attach"
    max_words: int = MAX_WORDS
    treebank_id: int | None = None
    encode_words: Callable[[Sequence[str], PreTrainedTokenizerBase], dict[str, list[int]]] = encode

    @classmethod
    def with_abilities(cls, abilities: Abilities, **options) -> "SentenceEncoder":
        """Makes an encoder for a model with these abilities, with ids as in its training."""
        # Language models read the words between a beginning and an end token, parsers read them alone.
        encode_words = encode_subwords if abilities.incremental else encode
        return cls(abilities=abilities, **{"encode_words": encode_words, **options})

    @cached_property
    def _tag_ids(self) -> dict[str, int] | None:
        return ids_of(self.abilities.tags)

    @cached_property
    def _label_ids(self) -> dict[str, int] | None:
        return ids_of(self.abilities.initial_labels)

    def __call__(
        self, source: SourceSentence, tags: Sequence[str] | None = None, initial: Tree | None = None
    ) -> dict[str, Any]:
        """
        Encodes a sentence. `tags` and `initial` override its own.

        Returns:
            `dict`: `words`; `keep`, a mask of the words that the model sees, and their ids as in `encode_words`;
                `layer`, the text layer as arguments of a [`Parse`]; `tag_ids` for a model that reads tags;
                `initial_heads` and `initial_deprels` if there is an initial tree; and the model's other inputs.

        Raises:
            LongSentenceError: more words than `max_words`, or than the model has positions for.
            EmptySentenceError: no words.
            ValueError: a source with an `error`, another number of tags or heads than of words, an initial tree that
                does not fit the sentence or that the model cannot use.
        """
        if source.error is not None:
            raise ValueError(source.error)
        words, layer = self._words(source)
        keep = seen_mask(words, self.tokenizer, self.punctuation)
        seen = [word for word, kept in zip(words, keep, strict=True) if kept]
        _check_length(len(seen), "words", self.abilities.max_words, POSITIONS)
        encoded = {"words": words, "keep": keep, "layer": layer, **self.encode_words(seen, self.tokenizer)}
        _check_length(len(encoded["input_ids"]), "tokens", self.abilities.max_tokens, POSITIONS)
        encoded |= encode_beside(seen, self.abilities.read_beside, self.treebank_id)
        if self._tag_ids is not None:
            encoded["tag_ids"] = encode_tags(source.tags if tags is None else tags, keep, self._tag_ids)
        initial = source.initial if initial is None else initial
        return encoded if initial is None else {**encoded, **encode_tree(initial, keep, self._label_ids)}

    def _words(self, source: SourceSentence) -> tuple[list[str], dict[str, Any]]:
        """Returns the words and the text layer; there are no spans if the words do not match the text."""
        multiword_tokens: Sequence[tuple[int, int]] = source.multiword_tokens
        spans = source.word_spans
        words = source.words
        if words is None:
            words, multiword_tokens = words_of_tokens(self.word_tokenizer(source.text or ""))
        if not words:
            raise EmptySentenceError("the sentence is empty")
        _check_length(len(words), "words", self.max_words, "of max_words")
        # CoNLL-U has computed its own spans; if these are None, the words do not match the text.
        if spans is None and source.text is not None and source.source is None:
            spans = find_words(source.text, words)
            if source.is_text:
                multiword_tokens = _checked_tokens(multiword_tokens, spans)
        layer = {"text": source.text, "word_spans": spans, "start": source.start, "multiword_tokens": multiword_tokens}
        others = {"spaces_after": source.spaces_after, "metadata": source.metadata, "source": source.source}
        return words, layer | {name: value for name, value in others.items() if value}


def _checked_tokens(
    multiword_tokens: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]] | None
) -> Sequence[tuple[int, int]]:
    """Returns the tokens; none if their words do not match the text. Raises `ValueError` for spaces inside a token."""
    if spans is None:
        return []
    for first, last in multiword_tokens:
        if any(end != start for (_, end), (start, _) in pairwise(spans[first - 1 : last])):
            raise ValueError(f"the words {first} to {last} are one token, but there is white space between them")
    return multiword_tokens


def encode_beside(
    words: Sequence[str], read_beside: Callable[[Sequence[str]], dict[str, list]] | None, treebank_id: int | None
) -> dict[str, list]:
    """Makes the additional word-level inputs of a model: the result of `read_beside`, and the treebank, if any."""
    inputs = {} if read_beside is None else read_beside(words)
    return inputs if treebank_id is None else inputs | {"treebank_ids": [treebank_id] * len(words)}


def seen_mask(words: Sequence[str], tokenizer: PreTrainedTokenizerBase, punctuation: str = "attach") -> list[bool]:
    """Mask of the words that the model sees; all of them if all are punctuation."""
    keep = [True] * len(words)
    if punctuation == "parse" or not tokenizer.init_kwargs.get("skip_punctuation"):
        return keep
    marked = [not is_punctuation(word) for word in words]
    return marked if any(marked) else keep


def _check_length(number: int, kind: str, longest: int | None, limit: str) -> None:
    if longest is not None and number > longest:
        raise LongSentenceError(f"the sentence has {number} {kind}, more than the {longest} {limit}")
