"""The console's own numbers: requests, time, processor and memory."""

import os
import resource
import time
from bisect import bisect_left
from pathlib import Path
from typing import Final

from holdfast.control.metrics import METRICS
from holdfast.control.words import Histogram, Stats

_BOUNDS: Final = METRICS["console_request_seconds"].bounds
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class OwnNumbers:
    """Counts what the console answers."""

    def __init__(self) -> None:
        self._by_status: Final[dict[str, float]] = {}
        self._counts: Final = [0] * (len(_BOUNDS) + 1)
        self._sum_s = 0.0

    def answered(self, status: int, seconds: float | None) -> None:
        """A request was answered. An event stream has no duration (None)."""
        key = str(status)
        self._by_status[key] = self._by_status.get(key, 0) + 1
        if seconds is not None:
            self._counts[bisect_left(_BOUNDS, seconds)] += 1
            self._sum_s += seconds

    def frame(self, version: str, age_s: float | None, alarms: dict[str, float], *, is_up: bool) -> Stats:
        """The numbers of this moment, in the form of the broker's."""
        numbers = {
            "up": float(is_up),
            "console_process_cpu_seconds_total": time.process_time(),
            "console_process_resident_memory_bytes": _resident_bytes(),
        }
        if age_s is not None:
            numbers["frame_age_seconds"] = age_s
        labelled = {"alarm_active": alarms, "console_requests_total": dict(self._by_status)}
        if version:
            labelled["build_info"] = {version: 1.0}
        histograms = {"console_request_seconds": Histogram(tuple(self._counts), self._sum_s)}
        return Stats(0, numbers, labelled, histograms)


def _resident_bytes() -> float:
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
