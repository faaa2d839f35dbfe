"""Annotations that a parser can use as input: part-of-speech tags and an initial tree."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Protocol

from transformers import PreTrainedModel

from hf_structure.algorithms.trees import remove_words
from hf_structure.models.abilities import abilities_of
from hf_structure.text.sentences import as_python
from hf_structure.text.user_warnings import warn_user

UNKNOWN = -1  # id of a tag or label outside the model's vocabulary
CANNOT_START = "cannot start from a tree: an RNGTransformerForParsing with graph input (use_graph_input) can"


class Labelled(Protocol):
    """A sentence with heads and labels: a [`DependencyTree`], a [`Parse`], or a sentence of CoNLL-U."""

    def initial_tree(self) -> tuple[Sequence[int], Sequence[str] | None]:
        """Heads and labels. Raises `ValueError` if there are none."""
        ...


Tree = Labelled | Sequence[int] | tuple[Sequence[int], Sequence[str] | None]


def ids_of(names: Sequence[str] | None) -> dict[str, int] | None:
    """Maps tags or labels to their ids; None if the model reads none."""
    return None if names is None else {name: number for number, name in enumerate(names)}


def check_given(model: PreTrainedModel, tags: object, initial: object) -> None:
    """Raises `ValueError` if tags or initial trees are given to a model that reads none."""
    abilities = abilities_of(model.config)
    if tags is not None and abilities.tags is None:
        raise ValueError(f"this {type(model).__name__} reads no part-of-speech tags: leave tags out")
    if initial is not None and abilities.initial_labels is None:
        raise ValueError(f"this {type(model).__name__} {CANNOT_START}")


def encode_tags(tags: Sequence[str | None] | None, keep: Sequence[bool], ids: Mapping[str, int]) -> list[int]:
    """
    Returns the ids of the tags of the kept words. Warns if the model knows none of them; Python shows the warning
    once. Raises `ValueError` if there are not as many tags as words.
    """
    tags = [None] * len(keep) if tags is None else tags
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise ValueError(f"the tags of a sentence are a list of names, one a word, not {tags!r}")
    if len(tags) != len(keep):
        raise ValueError(f"the sentence has {len(keep)} words but {len(tags)} tags")
    numbers = _numbers(tags, keep, ids)
    if max(numbers) == UNKNOWN:
        names = _some(ids) if ids else "its config.tags does not name them"
        warn_user(
            f"this model reads part-of-speech tags ({names}), and a sentence comes without any that it knows: it is "
            "parsed by its words alone. Give them as tags=..., or in CoNLL-U (XPOS, or else UPOS)"
        )
    return numbers


def encode_tree(tree: Tree, keep: Sequence[bool], ids: Mapping[str, int] | None) -> dict[str, list[int]]:
    """
    Returns `initial_heads` and `initial_deprels` (label ids) of the kept words; the dependents of other words go to
    their nearest kept ancestor. Warns if the model knows none of the labels. Raises `ValueError` if the model cannot
    start from a tree or needs labels, or the tree does not fit the sentence.
    """
    if ids is None:
        raise ValueError(f"this model {CANNOT_START}")
    heads, labels = _heads_and_labels(tree)
    for name, values in (("heads", heads), ("labels", labels)):
        if values is not None and len(values) != len(keep):
            raise ValueError(f"the sentence has {len(keep)} words, but its initial tree {len(values)} {name}")
    if ids and set(labels or "_") == {"_"}:
        raise ValueError("the initial tree has no labels, and this model reads labelled arcs only")
    numbers = _numbers([None] * len(keep) if labels is None else labels, keep, ids)
    if ids and max(numbers) == UNKNOWN:
        warn_user(
            f"this model reads arcs with its own labels ({_some(ids)}), and an initial tree has none of these: the "
            "sentence is parsed from the start"
        )
    return {"initial_heads": remove_words(heads, keep), "initial_deprels": numbers}


def _numbers(names: Sequence[str | None], keep: Sequence[bool], ids: Mapping[str, int]) -> list[int]:
    return [ids.get(name or "", UNKNOWN) for name, kept in zip(names, keep, strict=True) if kept]


def _some(names: Mapping[str, int]) -> str:
    return ", ".join([*list(names)[:3], "..."])


def _heads_and_labels(tree: Any) -> tuple[Sequence[int], Sequence[str] | None]:
    if hasattr(tree, "initial_tree"):
        return tree.initial_tree()
    if isinstance(tree, str) or not hasattr(tree, "__len__"):
        raise ValueError(f"an initial tree is a DependencyTree, heads, or heads and labels, not {tree!r}")
    if isinstance(tree, Sequence) and len(tree) == 2 and not isinstance(tree[0], Integral):  # not two heads
        return as_python(tree[0]), as_python(tree[1])
    return tree, None
