"""How long the control server held the event loop: one measurement for each step of its work."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.model.histogram import HistogramCounts


class SliceTimes:
    """Measures steps of work for the control socket."""

    def __init__(self, histogram: HistogramCounts) -> None:
        self.histogram: Final = histogram

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the block. Requires: it does not wait."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.histogram.add(time.perf_counter() - began_s)
