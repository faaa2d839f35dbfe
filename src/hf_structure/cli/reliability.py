"""`hf-structure evaluate --calibration`."""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hf_structure.cli.common import check_files, print_table, save_figure
from hf_structure.drawing.figures import plot_reliability
from hf_structure.metrics.calibration import Reliability, reliability
from hf_structure.text.conllu import ConlluSentence, ConlluToken

COLUMNS = ("upos", "xpos", "feats", "lemma")


def evaluate_calibration(
    system: Sequence[ConlluSentence], gold: Sequence[ConlluSentence], options: argparse.Namespace
) -> None:
    """Prints, and draws, the reliability of the probabilities in MISC. Raises `ValueError` if there are none."""
    if options.figure:
        check_files([options.gold, options.system], options.figure)
    found = {
        name: reliability([value for value, _ in pairs], [is_right for _, is_right in pairs])
        for name, pairs in judged(system, gold).items()
    }
    if not found:
        raise ValueError(
            f"{options.system} has no probabilities in MISC: write it with hf-structure parse --probabilities"
        )
    if options.json:
        print(json.dumps({name: asdict(each) for name, each in found.items()}, indent=2))
    else:
        _print(found)
    if options.figure:
        curves = {name: [(each.confidence, each.accuracy) for each in values.bins] for name, values in found.items()}
        save_figure(plot_reliability(curves), Path(options.figure))


def judged(system: Sequence[ConlluSentence], gold: Sequence[ConlluSentence]) -> Mapping[str, list[tuple[float, bool]]]:
    """
    Probabilities and whether the prediction is right, by name. Labels are judged where the head is right. Raises
    `ValueError` if words differ.
    """
    found: dict[str, list[tuple[float, bool]]] = {}
    for number, (predicted, right) in enumerate(zip(system, gold, strict=False), start=1):
        if predicted.forms != right.forms or len(system) != len(gold):
            raise ValueError(f"sentence {number}: words differ; --calibration needs the same words in both files")
        for pair in zip(predicted.words, right.words, strict=True):
            for name, probability, is_right in _judged_word(*pair):
                found.setdefault(name, []).append((probability, is_right))
    return found


def _judged_word(predicted: ConlluToken, gold: ConlluToken) -> Iterator[tuple[str, float, bool]]:
    entries = (note.partition("=") for note in predicted.misc.split("|"))
    notes = {key: value for key, _, value in entries}
    has_head = predicted.head == gold.head
    has_label = predicted.deprel == gold.deprel
    head = float(notes.get("HeadProb", "nan"))
    label = float(notes.get("LabelProb", "nan"))
    judged_parts = [("head", head, has_head), ("head and label", head * label, has_head and has_label)]
    if has_head:
        judged_parts.insert(1, ("label", label, has_label))
    yield from (part for part in judged_parts if not math.isnan(part[1]))
    for column in COLUMNS:
        if value := notes.get(f"{column.capitalize()}Prob"):
            yield column, float(value), getattr(predicted, column) == getattr(gold, column)


def _title(name: str, values: Reliability) -> str:
    found = 100 * values.found_errors
    return (
        f"{name}: {values.count:,} words, {100 * values.accuracy:.2f}% right, mean probability "
        f"{100 * values.confidence:.2f}%, expected calibration error {100 * values.ece:.2f}; the least sure 10% of "
        f"words have {found:.1f}% of the errors"
    )


def _print(found: Mapping[str, Reliability]) -> None:
    for index, (name, values) in enumerate(found.items()):
        print("\n" * (index > 0) + _title(name, values))
        rows = [
            [f"{each.low:.2f}-{each.high:.2f}", f"{each.count:,}", *_percent(each.confidence, each.accuracy)]
            for each in values.bins
        ]
        print_table([["probability", "words", "mean", "right"], *rows])


def _percent(*shares: float) -> list[str]:
    return [f"{100 * share:.2f}" for share in shares]
