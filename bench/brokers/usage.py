"""What the broker's processes have used: processor time and memory, as the system counts them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil  # type: ignore[import-untyped]


def process_cpu_s(pid: int) -> float:
    """Processor time of a process, all its threads together, those that have ended too.

    By Linux's processor clock of the process: `/proc` counts in hundredths of a second, which is nothing or all of what
    a short load uses.
    """
    return time.clock_gettime((~pid << 3) | 2)


class Usage:
    """Processes, and their children at the time of asking unless these do not count."""

    def __init__(self, pids: Sequence[int], *, alone: bool = False) -> None:
        mains = [psutil.Process(pid) for pid in pids]
        children = [] if alone else [child for main in mains for child in main.children(recursive=True)]
        self._processes = [*mains, *children]

    def cpu_s(self) -> float:
        return sum([process_cpu_s(process.pid) for process in self._processes])

    def resident_bytes(self) -> int:
        return int(sum(process.memory_info().rss for process in self._processes))


class Span:
    """A stretch of time: how long it took, and what broker and generator used meanwhile."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._broker_s = usage.cpu_s()
        self._generator_s = time.process_time()
        self.began_ns = time.monotonic_ns()

    def figures(self, count: int, ended_ns: int) -> dict[str, float]:
        """Per second and per message, for `count` messages from the beginning to `ended_ns`."""
        broker_s = self._usage.cpu_s() - self._broker_s
        generator_s = time.process_time() - self._generator_s
        seconds = max((ended_ns - self.began_ns) / 1e9, 1e-9)
        return {
            "count": count,
            "seconds": seconds,
            "rate": count / seconds,
            "cpu_us": broker_s * 1e6 / max(count, 1),
            "generator_us": generator_s * 1e6 / max(count, 1),
            "generator_share": generator_s / seconds,
        }
