"""Differences between two models on the same items, and their standard errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

_DIFFERENT_GROUPS = "one of them has groups of items that the other has not"

Scores = Sequence[float] | Mapping[str, "Scores"]  # of items, or of groups of items


@dataclass(frozen=True)
class PairedDifference:
    """Mean scores of two models, and their difference."""

    first: float
    second: float
    difference: float  # the first minus the second
    standard_error: float | None  # of the difference; None if a group has a single item
    items: int  # number of items


def paired_difference(first: Scores, second: Scores) -> PairedDifference:
    """
    Computes the mean difference of paired scores, of the same items in the same order, with its standard error: the
    sample standard deviation of the items' differences, divided by the root of their number.

    For grouped scores, also with nested groups, the mean is the unweighted mean of the groups' means. The groups are
    considered fixed and their items sampled, so that the variances of the groups add up.

    Raises `ValueError` for different groups or numbers of items, or no items at all.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _of_groups(first, second)
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        raise ValueError(_DIFFERENT_GROUPS)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} items, and {len(second)}: they must be the same")
    if not first:
        raise ValueError("there are no items to compare")
    gains = [one - other for one, other in zip(first, second, strict=True)]
    error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None
    return PairedDifference(fmean(first), fmean(second), fmean(gains), error, len(gains))


def mean_scores(several: Sequence[Scores]) -> Scores:
    """
    Averages the scores of several models, such as one model with several seeds, item by item; groups are kept. Raises
    `ValueError` for different groups or numbers of items, or no models at all.
    """
    if not several:
        raise ValueError("there are no scores to take the mean of")
    return _mean_of_groups(several) if isinstance(several[0], Mapping) else _mean_of_items(several)


def _mean_of_groups(several: Sequence[Scores]) -> Scores:
    groups = [scores for scores in several if isinstance(scores, Mapping)]
    if len(groups) < len(several) or any(set(scores) != set(groups[0]) for scores in groups):
        raise ValueError("they have not the same groups of items")
    return {name: mean_scores([scores[name] for scores in groups]) for name in groups[0]}


def _mean_of_items(several: Sequence[Scores]) -> Scores:
    items = [scores for scores in several if not isinstance(scores, Mapping)]
    if len(items) < len(several) or any(len(scores) != len(items[0]) for scores in items):
        raise ValueError("they have not the same items")
    return [fmean(scores_of_item) for scores_of_item in zip(*items, strict=True)]


def _of_groups(first: Mapping[str, Scores], second: Mapping[str, Scores]) -> PairedDifference:
    if unshared := set(first) ^ set(second):
        raise ValueError(f"{_DIFFERENT_GROUPS}: {', '.join(sorted(unshared))}")
    if not first:
        raise ValueError("there are no items to compare")
    parts = [_of_group(name, first[name], second[name]) for name in first]
    return PairedDifference(
        first=fmean(part.first for part in parts),
        second=fmean(part.second for part in parts),
        difference=fmean(part.difference for part in parts),
        standard_error=_error_of_mean(parts),
        items=sum(part.items for part in parts),
    )


def _error_of_mean(groups: Sequence[PairedDifference]) -> float | None:
    """Standard error of the mean over independent groups; None if that of a group is unknown."""
    errors = [group.standard_error for group in groups if group.standard_error is not None]
    # The variances of independent groups add up.
    return math.hypot(*errors) / len(groups) if len(errors) == len(groups) else None


def _of_group(name: str, first: Scores, second: Scores) -> PairedDifference:
    try:
        return paired_difference(first, second)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
