"""Quantiles of a few measured values, and the longest of a histogram."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; of few values, the largest. Requires: there is one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def longest(before: Sequence[int], after: Sequence[int], bounds: Sequence[float]) -> float:
    """The bound of the highest bucket that something was added to; 0 if nothing was.

    What happened took at most so long. Above the last bound that is not known: then it is that bound.
    """
    there = [place for place, (was, now) in enumerate(zip(before, after, strict=True)) if now > was]
    return bounds[min(there[-1], len(bounds) - 1)] if there else 0.0
