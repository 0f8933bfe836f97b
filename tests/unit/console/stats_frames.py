"""Frames of numbers for tests."""

from holdfast.control.words import Histogram, Stats
from holdfast.model.time import SECOND_US

#: A moment that divides by every step of the charts.
BEGIN_S = 1_800_000_000


def frame(
    second: float = 0, *, started: float = 1.0, histograms: dict[str, Histogram] | None = None, **numbers: float
) -> Stats:
    """A frame `second` seconds behind BEGIN_S."""
    at_us = int((BEGIN_S + second) * SECOND_US)
    return Stats(at_us, {"start_time_seconds": started, **numbers}, {}, histograms or {}, "taking")
