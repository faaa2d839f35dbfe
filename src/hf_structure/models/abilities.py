"""Outputs and inputs of models, declared by their configurations; pipelines and scripts ask nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Column:
    """
    A prediction for each word of a tree, in [`~hf_structure.models.modeling_outputs.DecoderOutput`] and in
    [`DependencyTree`] alike.

    Args:
        name (`str`): Its name.
        vocabulary (`Mapping[int, str]`, *optional*): Names of its ids; without it, the values are numbers.
        of_punctuation (`str`, *optional*): The value of a punctuation mark that is restored to a tree by rule.
        spelled (`Callable[[Sequence, Sequence[str], Mapping[str, Sequence]], list[str]]`, *optional*): Turns names of
            the vocabulary (or lists of the best ones) into values for the words of a sentence, given the names in the
            other columns: `spelled(["lower-1+"], ["Cats"], {})` is `["cat"]`. By default values are the names.
    """

    name: str
    vocabulary: Mapping[int, str] | None = None
    of_punctuation: str | None = None
    spelled: Callable[[Sequence[Any], Sequence[str], Mapping[str, Sequence[Any]]], list[str]] | None = None


PROBABILITIES = Column("probabilities")  # of heads


def label_columns(id2label: Mapping[int, str]) -> tuple[Column, Column]:
    """The columns of a model that labels arcs."""
    return Column("labels", id2label, of_punctuation="punct"), Column("label_probabilities")


@dataclass(frozen=True)
class Abilities:
    """
    Outputs and inputs of a model; by default, of a model without structures.

    Args:
        structures (`tuple[str, ...]`): Kinds of structure it gives: `"dependency"`, `"constituency"`, `"graph"`.
        columns (`tuple[Column, ...]`): Predictions for each word of a dependency tree.
        optional_constituents (`bool`): It gives constituents on request, the best `decode(constituents=k)`.
        span_labels (`tuple[str, ...]`, *optional*): Names of the labels that it gives constituents; None without any.
        decoders (`tuple[str, ...]`): How it decodes: `"tree"`, `"projective"`, `"argmax"`.
        k_best (`bool`): It gives several structures, best first.
        marginals (`bool`): It gives probabilities of all arcs.
        beam (`bool`): It searches with a beam.
        rounds (`bool`): It refines its trees in several rounds.
        tags (`tuple[str, ...]`, *optional*):
            Part-of-speech tags it reads: empty if it does not name them, None if it reads none.
        initial_labels (`tuple[str, ...]`, *optional*):
            Labels of the trees it can start from: empty if it reads unlabelled trees, None if it starts from none.
        treebanks (`tuple[str, ...]`): Treebanks whose habits it can follow, the default first.
        read_beside (`Callable[[Sequence[str]], dict[str, list]]`, *optional*):
            Returns its further inputs for words, besides their ids, by the names of its arguments, one value a word.
        segments (`bool`): It finds sentence starts in running text.
        read_texts (`Callable[[model, str | None, str | None], RawTextReader]`, *optional*):
            Makes a reader of raw text with the habits of a treebank or language, if any is given; `auto` finds it.
        reads (`"text"`, `"words"` or `"pieces"`):
            Running text, as the models of transformers; whole words; or words that may be split into pieces.
        incremental (`bool`):
            It is a language model that builds structures as it reads: it sums over them to score a sentence.
        reads_sentences (`bool`):
            It is a causal language model of sentences of words, each of which ends in the end token.
        max_words, max_tokens (`int`, *optional*): The longest sentence it has positions for.
        column_probabilities (`tuple[Column, ...]`): Columns that `decode(column_probabilities=True)` adds.
    """

    structures: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    optional_constituents: bool = False
    span_labels: tuple[str, ...] | None = None
    decoders: tuple[str, ...] = ()
    k_best: bool = False
    marginals: bool = False
    beam: bool = False
    rounds: bool = False
    tags: tuple[str, ...] | None = None
    initial_labels: tuple[str, ...] | None = None
    treebanks: tuple[str, ...] = ()
    read_beside: Callable[[Sequence[str]], dict[str, list]] | None = None
    segments: bool = False
    read_texts: Callable[[Any, str | None, str | None], Any] | None = None
    reads: Literal["text", "words", "pieces"] = "text"
    incremental: bool = False
    reads_sentences: bool = False
    max_words: int | None = None
    max_tokens: int | None = None
    column_probabilities: tuple[Column, ...] = ()


def abilities_of(config: PreTrainedConfig) -> Abilities:
    """The abilities of models with a configuration; models of transformers read text and give no structure."""
    longest = getattr(config, "max_position_embeddings", None)
    return getattr(config, "abilities", Abilities(max_tokens=longest))
