"""From sentences, in whatever form they come, to what a model reads: ids of words, of tags, of initial trees."""

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from numbers import Integral
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.algorithms.trees import remove_words
from hf_structure.data.conllu import ConlluSentence
from hf_structure.data.corpus import conllu_sentence
from hf_structure.data.normalization import is_punctuation
from hf_structure.pipelines.graphs import encode_tokens, gives_graphs
from hf_structure.pipelines.loading import longest_input
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.parse import Parse
from hf_structure.tokenization import encode

MAX_WORDS = 1000
UNKNOWN = -1  # id of a tag or label that the model does not know
CANNOT_START = "cannot start from a tree: an RNGTransformerForParsing with graph input (use_graph_input) can"

Sentence = str | Sequence[str] | Mapping[str, Any] | ConlluSentence
Tree = DependencyTree | Parse | ConlluSentence | Sequence[int] | tuple[Sequence[int], Sequence[str] | None]


def decodes_with(model: PreTrainedModel, argument: str) -> bool:
    """Whether the model's `decode` has this argument."""
    return hasattr(model, "decode") and argument in inspect.signature(model.decode).parameters


def encoding_options(model: PreTrainedModel) -> dict[str, Any]:
    """What `encode_sentence` is told of the model: how it reads words, how many at most, and what else it reads."""
    if gives_graphs(model):
        return {"encode_words": functools.partial(encode_tokens, longest=longest_input(model))}
    return {"model_words": longest_sentence(model), "tag_ids": _ids_of_tags(model), "label_ids": _ids_of_labels(model)}


def longest_sentence(model: PreTrainedModel) -> int | None:
    """Number of words that the model has positions for, if there is a limit."""
    return getattr(model.config, "max_words", None)


def check_columns(model: PreTrainedModel, tags: object, initial: object) -> None:
    """Raises `ValueError` if tags or initial trees (None: there are none) are given to a model that reads none."""
    if tags is not None and _ids_of_tags(model) is None:
        raise ValueError(f"this {type(model).__name__} reads no part-of-speech tags: leave tags out")
    if initial is not None and _ids_of_labels(model) is None:
        raise ValueError(f"this {type(model).__name__} {CANNOT_START}")


def _ids_of_tags(model: PreTrainedModel) -> dict[str, int] | None:
    """None if the model reads no tags, nothing if it does not say what they are called."""
    if not getattr(model.config, "num_tags", 0):
        return None
    return {tag: number for number, tag in enumerate(model.config.tags or ())}


def _ids_of_labels(model: PreTrainedModel) -> dict[str, int] | None:
    """None if the model cannot start from a tree."""
    if not decodes_with(model, "initial_heads") or not getattr(model.config, "use_graph_input", True):
        return None
    return {label: number for number, label in model.config.id2label.items()}


def is_one_sentence(sentences: Sentence | Iterable[Sentence]) -> bool:
    """Whether this is a sentence and not several: a list of strings is several raw sentences."""
    return isinstance(sentences, str | Mapping | ConlluSentence)


def with_columns(sentences: Iterable[Sentence], **columns: Iterable | None) -> Iterator[tuple[Sentence, dict]]:
    """
    Each sentence with what stands beside it in the columns, those that are None left out.

    Raises:
        ValueError: if a column is shorter or longer than the sentences, when the end of one is reached.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    end = object()
    for number, (sentence, *values) in enumerate(zip_longest(sentences, *given.values(), fillvalue=end), start=1):
        beside = dict(zip(given, values, strict=True))
        for name, value in beside.items():
            if sentence is end and value is not end:
                raise ValueError(f"{name} goes on after the last sentence, which is number {number - 1}")
            if value is end and sentence is not end:
                raise ValueError(f"sentence {number}: {name} ends after {number - 1} sentences")
        yield sentence, beside


def encode_all(sentences: Iterable[tuple[Sentence, dict]], encode: Callable) -> Iterator[dict[str, Any]]:
    """What `encode` makes of the sentences of [`with_columns`]; its errors say which sentence they are about."""
    for number, (sentence, beside) in enumerate(sentences, start=1):
        try:
            encoded = encode(sentence, **beside)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from error
        yield encoded


def encode_sentence(
    sentence: Sentence,
    tokenizer: PreTrainedTokenizerBase,
    *,
    tags: Sequence[str] | None = None,
    initial: Tree | None = None,
    punctuation: str = "attach",
    word_tokenizer: Callable[[str], list[str]],
    max_words: int = MAX_WORDS,
    model_words: int | None = None,
    encode_words: Callable[[Sequence[str], PreTrainedTokenizerBase], dict[str, list[int]]] = encode,
    tag_ids: Mapping[str, int] | None = None,
    label_ids: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """
    Words of a sentence (`words`), which of them the model sees (`keep`), and what `encode_words` makes of those. For a
    model that reads tags (`tag_ids` are their numbers) also `tag_ids`, and if there is an initial tree
    `initial_heads` and `initial_relations` (by the numbers in `label_ids`), of the words that it sees.

    `model_words` are as many as the model can see. `tags` and `initial` come before those of the sentence itself.

    Raises:
        ValueError: if the sentence is empty or too long, or of no form that is known; if there are not as many tags or
            heads as words; for heads that are none of this sentence, or an initial tree that the model cannot use.
    """
    given = _as_dictionary(sentence)
    words = _words_of(given, word_tokenizer, max_words)
    keep = _seen_mask(words, tokenizer, punctuation)
    seen = [word for word, kept in zip(words, keep, strict=True) if kept]
    if model_words is not None and len(seen) > model_words:
        raise ValueError(
            f"the sentence has {len(seen)} words, more than the {model_words} that this model has positions for"
        )
    encoded = {"words": words, "keep": keep, **encode_words(seen, tokenizer)}
    if tag_ids is not None:
        encoded["tag_ids"] = _encode_tags(given.get("tags") if tags is None else tags, keep, tag_ids)
    initial = given.get("initial") if initial is None else initial
    return encoded if initial is None else {**encoded, **_encode_tree(initial, keep, label_ids)}


def _as_dictionary(sentence: Sentence) -> Mapping[str, Any]:
    if isinstance(sentence, str):
        return {"text": sentence}
    if isinstance(sentence, ConlluSentence):
        return conllu_sentence(sentence)
    given = sentence if isinstance(sentence, Mapping) else {"words": sentence}
    words = given.get("words")
    if isinstance(words, Sequence) and not isinstance(words, str):
        return given
    if words is None and isinstance(given.get("text"), str):
        return given
    raise ValueError(f"a sentence is a string, a list of words or a dictionary that has words, not {sentence!r}")


def _words_of(given: Mapping[str, Any], word_tokenizer: Callable[[str], list[str]], max_words: int) -> list[str]:
    words = word_tokenizer(given["text"]) if given.get("words") is None else list(given["words"])
    for position, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"word {position} is {word!r}: words are strings that are not empty")
    if not words:
        raise ValueError("the sentence is empty")
    if len(words) > max_words:
        raise ValueError(f"the sentence has {len(words)} words, more than the {max_words} of max_words")
    return words


def _seen_mask(words: Sequence[str], tokenizer: PreTrainedTokenizerBase, punctuation: str) -> list[bool]:
    """Which words the model sees: all, if there is nothing but punctuation."""
    keep = [True] * len(words)
    if punctuation == "parse" or not tokenizer.init_kwargs.get("skip_punctuation"):
        return keep
    marked = [not is_punctuation(word) for word in words]
    return marked if any(marked) else keep


def _encode_tags(tags: Sequence[str] | None, keep: Sequence[bool], ids: Mapping[str, int]) -> list[int]:
    """Ids of the tags of the kept words. Warns if none is known; Python shows equal warnings of one place once."""
    tags = [None] * len(keep) if tags is None else tags
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise ValueError(f"the tags of a sentence are a list of names, one a word, not {tags!r}")
    if len(tags) != len(keep):
        raise ValueError(f"the sentence has {len(keep)} words but {len(tags)} tags")
    numbers = [ids.get(tag, UNKNOWN) for tag, kept in zip(tags, keep, strict=True) if kept]
    if max(numbers) == UNKNOWN:
        known = ", ".join([*list(ids)[:3], "..."]) if ids else "its config.tags does not name them"
        warnings.warn(
            f"this model reads part-of-speech tags ({known}), and a sentence comes without any that it knows: it is "
            "parsed by its words alone. Give them as tags=..., or in CoNLL-U (XPOS, or else UPOS)",
            stacklevel=2,
        )
    return numbers


def _encode_tree(tree: Tree, keep: Sequence[bool], ids: Mapping[str, int] | None) -> dict[str, list[int]]:
    """Heads and ids of the labels of the kept words: dependents of the others go to the nearest kept ancestor."""
    if ids is None:
        raise ValueError(f"this model {CANNOT_START}")
    heads, labels = _heads_and_labels(tree)
    for name, values in (("heads", heads), ("labels", labels)):
        if values is not None and len(values) != len(keep):
            raise ValueError(f"the sentence has {len(keep)} words, but its initial tree {len(values)} {name}")
    labels = [None] * len(keep) if labels is None else labels
    numbers = [ids.get(label, UNKNOWN) for label, kept in zip(labels, keep, strict=True) if kept]
    return {"initial_heads": remove_words(heads, keep), "initial_relations": numbers}


def _heads_and_labels(tree: Tree) -> tuple[Sequence[int], Sequence[str] | None]:
    if isinstance(tree, ConlluSentence):
        if tree.heads is None:
            raise ValueError("the initial tree has words without a head")
        return tree.heads, tree.deprels
    if isinstance(tree, Parse):
        if tree.dependency is None:
            raise ValueError("the initial parse has no dependency tree")
        tree = tree.dependency
    if isinstance(tree, DependencyTree):
        return tree.heads, tree.labels
    if isinstance(tree, str) or not hasattr(tree, "__len__"):
        raise ValueError(f"an initial tree is a DependencyTree, heads, or heads and labels, not {tree!r}")
    is_pair = isinstance(tree, Sequence) and len(tree) == 2 and not isinstance(tree[0], Integral)
    return tuple(tree) if is_pair else (tree, None)


__all__ = [
    "MAX_WORDS",
    "Sentence",
    "Tree",
    "check_columns",
    "decodes_with",
    "encode_all",
    "encode_sentence",
    "encoding_options",
    "is_one_sentence",
    "longest_sentence",
    "with_columns",
]
