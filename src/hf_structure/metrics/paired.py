"""Differences of two models on the same items, and how far chance may have made them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

Scores = Sequence[float] | Mapping[str, "Scores"]  # of items, or of groups of them


@dataclass(frozen=True)
class PairedDifference:
    """
    Args:
        first, second (`float`): Mean scores of the two models.
        difference (`float`): The first less the second.
        standard_error (`float`, *optional*): Of the difference; None where a group has one item alone.
        items (`int`): How many items both have.
    """

    first: float
    second: float
    difference: float
    standard_error: float | None
    items: int


def paired_difference(first: Scores, second: Scores) -> PairedDifference:
    """
    The mean difference of paired scores, with its standard error: the sample standard deviation of the items'
    differences over the root of their number.

    Scores that are grouped, also more than once, are means of the groups' means, each group counting alike. The groups
    are taken as given and the items in them as drawn, so that the variances of the groups add up.

    Args:
        first, second (sequences of `float`, or mappings of names to such or to further mappings):
            Scores of the same items in the same order.

    Raises:
        ValueError: other groups, or another number of items; no items at all.
    """
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        return _of_groups(first, second)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} items, and {len(second)}: they must be the same")
    if not first:
        raise ValueError("there are no items to compare")
    gains = [one - other for one, other in zip(first, second, strict=True)]
    error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None
    return PairedDifference(fmean(first), fmean(second), fmean(gains), error, len(gains))


def mean_scores(several: Sequence[Scores]) -> Scores:
    """
    Item by item the mean of the scores of several models, of one model with several seeds say, grouped as they are.

    Raises:
        ValueError: other groups, or another number of items; no models at all.
    """
    if not several:
        raise ValueError("there are no scores to take the mean of")
    first = several[0]
    if isinstance(first, Mapping):
        if any(not isinstance(scores, Mapping) or set(scores) != set(first) for scores in several):
            raise ValueError("they have not the same groups of items")
        return {name: mean_scores([scores[name] for scores in several]) for name in first}
    if any(isinstance(scores, Mapping) or len(scores) != len(first) for scores in several):
        raise ValueError("they have not the same items")
    return [fmean(of_item) for of_item in zip(*several, strict=True)]


def _of_groups(first: Scores, second: Scores) -> PairedDifference:
    groups = [set(side) if isinstance(side, Mapping) else None for side in (first, second)]
    if None in groups or groups[0] != groups[1]:
        only = "" if None in groups else ": " + ", ".join(sorted(groups[0] ^ groups[1]))
        raise ValueError(f"one of them has groups of items that the other has not{only}")
    if not first:
        raise ValueError("there are no items to compare")
    parts = [_of_group(name, first[name], second[name]) for name in first]
    means = (fmean(getattr(part, name) for part in parts) for name in ("first", "second", "difference"))
    errors = [part.standard_error for part in parts]
    error = None if None in errors else math.hypot(*errors) / len(parts)
    return PairedDifference(*means, error, sum(part.items for part in parts))


def _of_group(name: str, first: Scores, second: Scores) -> PairedDifference:
    try:
        return paired_difference(first, second)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


__all__ = ["PairedDifference", "mean_scores", "paired_difference"]
