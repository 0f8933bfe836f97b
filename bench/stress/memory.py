"""The memory of a broker, looked at again and again."""

from __future__ import annotations

import threading
import time

from bench.brokers.usage import Usage

_EVERY_S = 0.05


class Memory:
    """Samples from construction to `stop`, in a separate thread."""

    def __init__(self, pid: int) -> None:
        self._usage = Usage([pid])
        self._samples: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._samples.append((time.monotonic_ns(), self._usage.resident_bytes()))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def now(self) -> int:
        return self._usage.resident_bytes()

    def peak(self, from_ns: int, to_ns: int) -> int:
        """The most that was seen in between."""
        return max([size for at_ns, size in self._samples if from_ns <= at_ns <= to_ns] or [self.now()])
