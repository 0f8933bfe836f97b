"""Timing: processor time of whole passes, the best of several samples.

Processor time instead of wall time, and the best sample, because the machines that run this are shared:
neighbours only ever make a sample slower. The garbage collector is off in the whole process and has its turn
between measurements: nothing that is measured leaves cycles behind, and how often the collector would run
depends on what else a process does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    #: A pass is repeated until a sample takes this long.
    sample_s: float
    samples: int


FULL = Effort(0.03, 9)
QUICK = Effort(0.001, 1)


def run_s(work: Callable[[], object], times: int = 1) -> float:
    """Processor time of so many passes, in seconds."""
    start_ns = time.process_time_ns()
    for _turn in range(times):
        work()
    return (time.process_time_ns() - start_ns) / 1e9


def pass_us(work: Callable[[], object], items: int, effort: Effort) -> float:
    """Microseconds per item of a pass that handles `items`."""
    work()  # the first pass meets cold caches, and interpreted code that is not yet specialised
    once_s = run_s(work)
    times = max(1, int(effort.sample_s / max(once_s, 1e-7)))
    gc.collect()
    return min(run_s(work, times) for _sample in range(effort.samples)) / times / items * 1e6
