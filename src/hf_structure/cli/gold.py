"""Gold sentences of commands that score, and masks of the words that count."""

import argparse
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.normalization import keep_mask

T = TypeVar("T")


def read_gold(sentences: Iterable[T], name: str) -> list[T]:
    """Lists the sentences of the file `name`. Raises `ValueError` if there are none."""
    found = list(sentences)
    if not found:
        raise ValueError(f"{name} has no sentence to score")
    return found


def add_label_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds the options for ignored relations and for subtypes of labels."""
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="LABEL",
        help="do not score words with this gold label; may be given several times. punct: all punctuation, also where "
        "its relation is not called so (then the tag or the form decides)",
    )
    parser.add_argument(
        "--universal", action="store_true", help="compare labels without subtypes (nsubj:pass as nsubj)"
    )


def label_conventions(options: argparse.Namespace) -> dict[str, Any]:
    """Returns these options as the keyword arguments of metrics."""
    return {"ignore_labels": set(options.ignore), "universal_labels": options.universal}


def scored_masks(gold: Iterable[ConlluSentence], ignored: Collection[str]) -> list[list[bool]] | None:
    """Masks of the words that are not punctuation; None if punctuation is scored."""
    if "punct" not in ignored:
        return None
    # By the relations of the gold trees, so that no prediction changes the words that count.
    rows = map(ConlluSentence.to_sentence, gold)
    return [keep_mask(row["words"], row["tags"], row["deprels"]) for row in rows]
