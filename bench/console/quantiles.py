"""Quantiles of a few measured values, and of a histogram."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; of few values, the largest. Requires: there is one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def bucket_quantile(before: Sequence[int], after: Sequence[int], bounds: Sequence[float], share: float) -> float:
    """The bound that `share` of what was added to a histogram does not exceed; 0 if nothing was added.

    The truth is at most that. Above the last bound it is not known: then it is that bound.
    """
    added = [now - was for was, now in zip(before, after, strict=True)]
    wanted, seen = share * sum(added), 0
    for place, count in enumerate(added):
        seen += count
        if count and seen >= wanted:
            return bounds[min(place, len(bounds) - 1)]
    return 0.0
