"""
Syntactic generalisation: the test suites of SyntaxGym (Hu et al. 2020), read, evaluated and summed up.

An item of a suite has a sentence for every condition, cut into numbered regions. A prediction is a formula over the
surprisals of these regions (see `hf_structure.metrics.formulas`), and an item counts as right if it holds. The score
of a suite is the share of items that are right, that of a circuit (a phenomenon) the mean over its suites, and the SG
score of the GiLT paper the mean over the six circuits (`"without_other"`). A circuit knows its suites by their names.

Where a suite has several predictions (`fgd_hierarchy` and `nn-nv-rpl`), published figures are on the first one; the
second one of `fgd_hierarchy` asks for equal surprisals, which hardly occur. `PREDICTIONS` are the ways to count:

- `"first"`: the first prediction. So in the results published with Hu et al. 2020, and with GiLT.
- `"mean"`: the mean over predictions of the share of items that each of them is right for.
- `"all"`: an item is right if all predictions are.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from hf_structure.metrics.formulas import MAX_DIGITS, Formula, FormulaError, Table, parse_formula

PREDICTIONS = ("first", "mean", "all")
CIRCUITS = {
    "Agreement": ("number_orc", "number_prep", "number_src"),
    "Licensing": (
        "npi_orc_any",
        "npi_orc_ever",
        "npi_src_any",
        "npi_src_ever",
        "reflexive_orc_fem",
        "reflexive_orc_masc",
        "reflexive_prep_fem",
        "reflexive_prep_masc",
        "reflexive_src_fem",
        "reflexive_src_masc",
    ),
    "Garden-Path Effects": ("mvrr", "mvrr_mod", "npz_ambig", "npz_ambig_mod", "npz_obj", "npz_obj_mod"),
    "Gross Syntactic State": (
        "subordination",
        "subordination_orc-orc",
        "subordination_pp-pp",
        "subordination_src-src",
    ),
    "Center Embedding": ("center_embed", "center_embed_mod"),
    "Long-Distance Dependencies": (
        "cleft",
        "cleft_modifier",
        "fgd-embed3",
        "fgd-embed4",
        "fgd_hierarchy",
        "fgd_object",
        "fgd_pp",
        "fgd_subject",
    ),
    "Other": ("nn-nv-rpl",),
}  # the names of their suites


class SuiteError(ValueError):
    """A file that is no test suite; the message begins with its name."""


@dataclass(frozen=True)
class Item:
    """
    Args:
        number (`int`): Its number in the suite.
        sentences (`dict[str, dict[int, str]]`): For each condition the text of its regions by number, in their order.
    """

    number: int
    sentences: dict[str, dict[int, str]]


@dataclass(frozen=True)
class Suite:
    """
    Args:
        name (`str`): Name of the suite, which tells its circuit.
        predictions (`tuple[Formula, ...]`): One or more formulas.
        items (`tuple[Item, ...]`): One or more items.
    """

    name: str
    predictions: tuple[Formula, ...]
    items: tuple[Item, ...]

    def sentences(self) -> list[str]:
        """The different sentences of the suite, in their order."""
        texts = (sentence_of(regions) for item in self.items for regions in item.sentences.values())
        return list(dict.fromkeys(texts))


def read_suite(path: str | os.PathLike) -> Suite:
    """
    Reads a test suite in SyntaxGym's JSON format.

    Raises:
        SuiteError: not JSON, not of this form, a metric other than `sum`, a malformed formula, or one with a region or
            condition that an item lacks; the message names the file, and formula and position.
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        suite = Suite(
            _string(content["meta"], "name", "'meta'"),
            tuple(_prediction(values) for values in content["predictions"]),
            tuple(_item(place, values) for place, values in enumerate(content["items"], start=1)),
        )
        if content["meta"].get("metric", "sum") != "sum":
            raise ValueError(f"the metric {content['meta']['metric']!r} is not sum")
        _check(suite)
    except KeyError as error:
        raise SuiteError(f"{path}: not a test suite: {error.args[0]!r} is missing") from error
    except (TypeError, AttributeError) as error:
        raise SuiteError(f"{path}: not a test suite: {error}") from error
    except RecursionError as error:
        raise SuiteError(f"{path}: JSON that is nested too deeply") from error
    except ValueError as error:
        raise SuiteError(f"{path}: {error}") from error
    return suite


def _prediction(values: Mapping) -> Formula:
    if values["type"] != "formula":
        raise ValueError(f"a prediction of type {values['type']!r}, not formula")
    return parse_formula(_string(values, "formula", "a prediction"))


def _item(place: int, values: Mapping) -> Item:
    number, sentences = _whole(values, "item_number", f"item {place} of the file"), {}
    for condition in values["conditions"]:
        name, regions = _string(condition, "condition_name", f"item {number}"), condition["regions"]
        where = f"item {number}, condition {name!r}"
        texts = {_whole(region, "region_number", where): _string(region, "content", where) for region in regions}
        if name in sentences or len(texts) < len(regions):
            raise ValueError(f"item {number}: condition {name!r}, or one of its regions, is there twice")
        sentences[name] = texts
    return Item(number, sentences)


def _string(values: Mapping, key: str, where: str) -> str:
    if not isinstance(values[key], str):
        raise ValueError(f"{where}: {key!r} is {values[key]!r}, not a string")
    return values[key]


def _whole(values: Mapping, key: str, where: str) -> int:
    """A whole number, or its digits."""
    digits = str(values[key])
    if isinstance(values[key], bool) or not digits.isdecimal() or len(digits) > MAX_DIGITS:
        raise ValueError(f"{where}: {key!r} is {digits}, not a whole number of at most {MAX_DIGITS} digits")
    return int(digits)


def _check(suite: Suite) -> None:
    if Path(suite.name).name != suite.name:
        raise ValueError(f"the name {suite.name!r} cannot be that of a file")
    if not suite.predictions or not suite.items:
        raise ValueError("no predictions" if suite.items else "no items")
    for item in suite.items:
        for condition, regions in item.sentences.items():
            if not sentence_of(regions):
                raise ValueError(f"item {item.number}: the sentence of condition {condition!r} is empty")
        for formula in suite.predictions:
            _check_formula(formula, item)


def _check_formula(formula: Formula, item: Item) -> None:
    for region in formula.regions():
        if region.condition not in item.sentences:
            message = f"item {item.number} has no condition {region.condition!r}"
        elif region.number not in item.sentences[region.condition]:
            message = f"item {item.number} has no region {region.number} in condition {region.condition!r}"
        else:
            continue
        raise FormulaError(message, formula.text, region.position)


def sentence_of(regions: Mapping[int, str]) -> str:
    """The text of a sentence: that of its regions, with single spaces."""
    return " ".join(word for content in regions.values() for word in content.split())


def region_surprisals(
    regions: Mapping[int, str], words: Sequence[str], surprisals: Sequence[float]
) -> dict[int, float]:
    """
    Adds up the surprisals of the words of each region.

    Args:
        regions (`Mapping[int, str]`): The text of each region, in their order.
        words (`Sequence[str]`): The words of the sentence, split in whatever way, white space within them or not.
        surprisals (`Sequence[float]`): One for each word.

    Returns:
        `dict[int, float]`: The surprisal of each region, 0 for an empty one.

    Raises:
        ValueError: words that are not those of the sentence, or that reach over the end of a region.
    """
    region_at = [number for number, content in regions.items() for _ in "".join(content.split())]
    glued = ["".join(word.split()) for word in words]
    if "".join(glued) != "".join(sentence_of(regions).split()):
        raise ValueError(f"the words {' '.join(words)!r} are not those of the sentence {sentence_of(regions)!r}")
    sums, start = dict.fromkeys(regions, 0.0), 0
    for word, surprisal in zip(glued, surprisals, strict=True):
        end = start + len(word)
        if end > start and region_at[start] != region_at[end - 1]:
            raise ValueError(f"the word {word!r} reaches over the end of region {region_at[start]}")
        sums[region_at[min(start, len(region_at) - 1)]] += surprisal
        start = end
    return sums


def evaluate_item(suite: Suite, surprisals: Table) -> list[bool]:
    """
    Which predictions of a suite hold for an item.

    Args:
        suite (`Suite`): The suite.
        surprisals (`Mapping[tuple[str, int], float]`): The surprisal of each `(condition, region)` of the item.

    Raises:
        FormulaError: the surprisal of a region is missing.
    """
    return [formula.holds(surprisals) for formula in suite.predictions]


def suite_score(results: Sequence[Sequence[bool]], predictions: str = "first") -> float:
    """
    Share of items that are right.

    Args:
        results (`Sequence[Sequence[bool]]`): What [`evaluate_item`] gives for each item.
        predictions (`str`, defaults to `"first"`): What counts where there are several predictions, see above.

    Raises:
        ValueError: no items, or unknown `predictions`.
    """
    if predictions not in PREDICTIONS:
        raise ValueError(f"predictions={predictions!r} is none of {', '.join(PREDICTIONS)}")
    if not results:
        raise ValueError("there are no items to score")
    count = {"first": lambda row: row[0], "mean": fmean, "all": all}[predictions]
    return fmean(count(row) for row in results)


def circuit_of(suite: str) -> str | None:
    """Name of the circuit that a suite belongs to; None for suites that are not of Hu et al. 2020."""
    return next((circuit for circuit, suites in CIRCUITS.items() if suite in suites), None)


def circuit_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """
    Mean score of the suites of each circuit.

    Args:
        scores (`Mapping[str, float]`): Scores by the names of suites; those that belong to no circuit do not count.

    Returns:
        `dict[str, float]`: Scores of the circuits that there are suites of, in the order of `CIRCUITS`.
    """
    groups = {
        circuit: [score for name, score in scores.items() if circuit_of(name) == circuit] for circuit in CIRCUITS
    }
    return {circuit: fmean(group) for circuit, group in groups.items() if group}


def overall_scores(circuits: Mapping[str, float]) -> dict[str, float | None]:
    """
    Mean over circuits.

    Args:
        circuits (`Mapping[str, float]`): As from [`circuit_scores`].

    Returns:
        `dict[str, float | None]`: `without_other` and `with_other`; None where one of the circuits is missing, so that
            there is no number that could be taken for the mean over all of them.
    """
    names = {"without_other": list(CIRCUITS)[:-1], "with_other": list(CIRCUITS)}
    return {
        name: fmean(circuits[circuit] for circuit in wanted) if set(wanted) <= set(circuits) else None
        for name, wanted in names.items()
    }


__all__ = [
    "CIRCUITS",
    "PREDICTIONS",
    "Item",
    "Suite",
    "SuiteError",
    "circuit_of",
    "circuit_scores",
    "evaluate_item",
    "overall_scores",
    "read_suite",
    "region_surprisals",
    "sentence_of",
    "suite_score",
]
