"""
Reads, evaluates and summarises SyntaxGym's test suites for syntactic generalisation (Hu et al. 2020).

An item of a suite has a sentence for every condition, divided into numbered regions. A prediction is a formula over
the surprisals of these regions (see `hf_structure.metrics.formulas`), and an item is right if it holds. The score of a
suite is the share of right items. The score of a circuit (a phenomenon) is the mean over its suites, and the SG score
of the GiLT paper the mean over the six circuits (`"without_other"`). Circuits are lists of the names of suites.

For suites with several predictions (`fgd_hierarchy` and `nn-nv-rpl`), published figures use the first one; the second
one of `fgd_hierarchy` requires equal surprisals, which hardly ever occur. `PREDICTIONS` names the ways to count:

- `"first"`: the first prediction, as in the results published with Hu et al. 2020 and with GiLT.
- `"mean"`: the mean over predictions of the share of items for which they hold.
- `"all"`: an item is right if all predictions hold.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from hf_structure.metrics.formulas import MAX_DIGITS, Formula, FormulaError, Table, parse_formula

PREDICTIONS = ("first", "mean", "all")
# fmt: off
CIRCUITS = {  # names of suites
    "Agreement": ("number_orc", "number_prep", "number_src"),
    "Licensing": (
        "npi_orc_any", "npi_orc_ever", "npi_src_any", "npi_src_ever", "reflexive_orc_fem", "reflexive_orc_masc",
        "reflexive_prep_fem", "reflexive_prep_masc", "reflexive_src_fem", "reflexive_src_masc",
    ),
    "Garden-Path Effects": ("mvrr", "mvrr_mod", "npz_ambig", "npz_ambig_mod", "npz_obj", "npz_obj_mod"),
    "Gross Syntactic State": (
        "subordination", "subordination_orc-orc", "subordination_pp-pp", "subordination_src-src",
    ),
    "Center Embedding": ("center_embed", "center_embed_mod"),
    "Long-Distance Dependencies": (
        "cleft", "cleft_modifier", "fgd-embed3", "fgd-embed4", "fgd_hierarchy", "fgd_object", "fgd_pp", "fgd_subject",
    ),
    "Other": ("nn-nv-rpl",),
}
# fmt: on


class SuiteError(ValueError):
    """An invalid test suite; the message begins with the name of the file."""


@dataclass(frozen=True)
class Item:
    """An item of a suite."""

    number: int  # in the suite
    sentences: dict[str, dict[int, str]]  # for each condition the text of its regions by number, in order


@dataclass(frozen=True)
class Suite:
    """A test suite, with at least one prediction and item."""

    name: str  # determines its circuit
    predictions: tuple[Formula, ...]
    items: tuple[Item, ...]

    def sentences(self) -> list[str]:
        """The distinct sentences of the suite, in order."""
        texts = {}
        for item in self.items:
            texts |= dict.fromkeys(map(sentence_of, item.sentences.values()))
        return list(texts)


def read_suite(path: str | os.PathLike) -> Suite:
    """
    Reads a test suite in SyntaxGym's JSON format. Raises `OSError` if the file cannot be read, and [`SuiteError`] for
    one that is not JSON or not of this format, a metric other than `sum`, a malformed formula, or one with a region or
    condition that an item lacks; the message names the file, the formula and the position.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        suite = Suite(
            _string(content["meta"], "name", "'meta'"),
            tuple(_prediction(values) for values in content["predictions"]),
            tuple(_item(index, values) for index, values in enumerate(content["items"], start=1)),
        )
        if content["meta"].get("metric", "sum") != "sum":
            raise ValueError(f"the metric {content['meta']['metric']!r} is not sum")
        _check(suite)
    except KeyError as error:
        raise SuiteError(f"{path}: not a test suite: {error.args[0]!r} is missing") from error
    except (TypeError, AttributeError) as error:
        raise SuiteError(f"{path}: not a test suite: {error}") from error
    # Python's JSON parser is recursive.
    except RecursionError as error:
        raise SuiteError(f"{path}: JSON that is nested too deeply") from error
    except ValueError as error:
        raise SuiteError(f"{path}: {error}") from error
    return suite


def _prediction(values: Mapping) -> Formula:
    if values["type"] != "formula":
        raise ValueError(f"a prediction of type {values['type']!r}, not formula")
    return parse_formula(_string(values, "formula", "a prediction"))


def _item(index: int, values: Mapping) -> Item:
    number = _whole_number(values, "item_number", f"item {index} of the file")
    sentences = {}
    for condition in values["conditions"]:
        name = _string(condition, "condition_name", f"item {number}")
        regions = condition["regions"]
        where = f"item {number}, condition {name!r}"
        texts = {}
        for region in regions:
            texts[_whole_number(region, "region_number", where)] = _string(region, "content", where)
        if name in sentences or len(texts) < len(regions):
            raise ValueError(f"item {number}: condition {name!r}, or one of its regions, is there twice")
        sentences[name] = texts
    return Item(number, sentences)


def _string(values: Mapping, key: str, where: str) -> str:
    if not isinstance(values[key], str):
        raise ValueError(f"{where}: {key!r} is {values[key]!r}, not a string")
    return values[key]


def _whole_number(values: Mapping, key: str, where: str) -> int:
    """Reads a whole number, or a string of its digits."""
    digits = str(values[key])
    if isinstance(values[key], bool) or not digits.isdecimal() or len(digits) > MAX_DIGITS:
        raise ValueError(f"{where}: {key!r} is {digits}, not a whole number of at most {MAX_DIGITS} digits")
    return int(digits)


def _check(suite: Suite) -> None:
    if Path(suite.name).name != suite.name:
        raise ValueError(f"the name {suite.name!r} cannot be that of a file")
    if not suite.items:
        raise ValueError("no items")
    if not suite.predictions:
        raise ValueError("no predictions")
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
    """Joins the regions of a sentence with single spaces."""
    return " ".join(" ".join(regions.values()).split())


def region_surprisals(
    regions: Mapping[int, str], words: Sequence[str], surprisals: Sequence[float]
) -> dict[int, float]:
    """
    Adds up the surprisals of the words of each region, in order; an empty region has 0. The words may split the
    sentence in any way, with or without white space in them.

    Raises `ValueError` for words that do not match the sentence, or that cross the end of a region.
    """
    region_at = []  # region of each character but white space
    for number, content in regions.items():
        region_at += [number] * len("".join(content.split()))
    # Models may keep or change white space: only the other characters are compared.
    glued = ["".join(word.split()) for word in words]
    if "".join(glued) != "".join(sentence_of(regions).split()):
        raise ValueError(f"the words {' '.join(words)!r} are not those of the sentence {sentence_of(regions)!r}")
    sums = dict.fromkeys(regions, 0.0)
    start = 0
    for word, surprisal in zip(glued, surprisals, strict=True):
        end = start + len(word)
        if end > start and region_at[start] != region_at[end - 1]:
            raise ValueError(f"the word {word!r} reaches over the end of region {region_at[start]}")
        # A word of white space alone has no character: it counts in the region that it precedes.
        sums[region_at[min(start, len(region_at) - 1)]] += surprisal
        start = end
    return sums


def evaluate_item(suite: Suite, surprisals: Table) -> list[bool]:
    """
    Evaluates each prediction of a suite for an item. Raises `FormulaError` if the surprisal of a region is missing.
    """
    return [formula.holds(surprisals) for formula in suite.predictions]


def suite_score(results: Sequence[Sequence[bool]], predictions: str = "first") -> float:
    """
    Computes the share of right items from the results of [`evaluate_item`]; `predictions` determines how several are
    counted, see above. Raises `ValueError` without items, or for unknown `predictions`.
    """
    if predictions not in PREDICTIONS:
        raise ValueError(f"predictions={predictions!r} is none of {', '.join(PREDICTIONS)}")
    if not results:
        raise ValueError("there are no items to score")
    count = {"first": lambda row: row[0], "mean": fmean, "all": all}[predictions]
    return fmean(count(row) for row in results)


def circuit_of(suite: str) -> str | None:
    """Name of the circuit that a suite belongs to; None for suites that are not from Hu et al. 2020."""
    return next((circuit for circuit, suites in CIRCUITS.items() if suite in suites), None)


def circuit_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """
    Averages the scores of the suites of each circuit that has any, in the order of `CIRCUITS`. Suites outside all
    circuits are ignored.
    """
    means = {}
    for circuit, suites in CIRCUITS.items():
        present = [scores[suite] for suite in suites if suite in scores]
        if present:
            means[circuit] = fmean(present)
    return means


def overall_scores(circuits: Mapping[str, float]) -> dict[str, float | None]:
    """
    Averages the scores of circuits, `without_other` and `with_other`. None if a circuit is missing, so that no partial
    mean is mistaken for the full one.
    """
    means: dict[str, float | None] = {}
    for name, included in {"without_other": list(CIRCUITS)[:-1], "with_other": list(CIRCUITS)}.items():
        complete = set(included) <= set(circuits)
        means[name] = fmean(circuits[circuit] for circuit in included) if complete else None
    return means
