"""A histogram as it is counted: how many values were at most each bound, and their sum."""

from bisect import bisect_left
from typing import Final


class HistogramCounts:
    """Counts values in fixed buckets. Adding one is a search among a few bounds and an increment.

    1. `counts` has one entry for each bound, and one more for what is above the last.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds: Final = bounds
        self.counts: Final[list[int]] = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value: in the bucket of the first bound that it does not exceed."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value
