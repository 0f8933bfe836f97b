"""How long making segments holds up the loop: every step of the `SegmentSupervisor` of a broker is timed.

A step is what happens between two waits: a slice of commit pages that is read and sent to the process, or a slice of a
segment that came back and is stored. Nothing else of the loop can run meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator, Iterator
from itertools import islice
from typing import Any

from bench.storage.store import BATCH, OUTSTANDING, Store
from holdfast.durable.commit import SegmentCounts
from holdfast.model.message import Message
from holdfast.node.processes.segment_supervisor import SegmentSupervisor
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.segment_writer import SegmentWriter

#: From one commit to the next, while the loop has commits to write besides.
_COMMIT_EVERY_S = 0.01
_LOOK_S = 0.02


class SegmentedStore:
    """A store as the supervisor wants it (`SegmentedStorage`)."""

    def __init__(self, store: Store) -> None:
        self._log = store.log
        self.segment_counts = SegmentCounts()

    @property
    def segmented_log(self) -> RocksLog:
        return self._log

    def segment_writer(self, size: SegmentSize) -> SegmentWriter:
        return SegmentWriter(self._log, size)

    def is_short_of_space(self) -> bool:
        return False


class StepTimes:
    """Runs a coroutine, and notes how long each of its steps took: of those that stored something, and of the rest.

    On a busy machine others run in the middle of a step: its CPU time is what it would take on a quiet one, but for the
    disk.
    """

    def __init__(self, store: Store, work: Coroutine[Any, Any, object]) -> None:
        self._engine = store.engine
        self._work = work
        self.storing_ms: list[float] = []
        self.storing_cpu_ms: list[float] = []
        self.other_ms: list[float] = []

    def __await__(self) -> Generator[Any, Any, None]:
        step = self._work.send
        given: Any = None
        while True:
            written, began_s, began_cpu_s = self._engine.written, time.perf_counter(), time.thread_time()
            try:
                waits_for = step(given)
            except StopIteration:
                return
            took_ms = (time.perf_counter() - began_s) * 1e3
            if self._engine.written == written:
                self.other_ms.append(took_ms)
            else:
                self.storing_ms.append(took_ms)
                self.storing_cpu_ms.append((time.thread_time() - began_cpu_s) * 1e3)
            try:
                given = yield waits_for
            except BaseException as error:  # whatever it is, it is meant for the coroutine
                step, given = self._work.throw, error
            else:
                step = self._work.send


async def time_steps(store: Store, size: SegmentSize, segments: int, messages: Iterator[Message]) -> StepTimes:
    """Make so many segments of what is stored, and of `messages` that are committed meanwhile."""
    segmented = SegmentedStore(store)
    steps = StepTimes(store, SegmentSupervisor(segmented, size).run())

    async def run() -> None:
        await steps

    running = asyncio.create_task(run())
    while segmented.segment_counts.made < segments:
        if running.done():
            running.result()
        batch = list(islice(messages, BATCH))
        if batch:
            store.write(batch, outstanding=OUTSTANDING)
        await asyncio.sleep(_COMMIT_EVERY_S if batch else _LOOK_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return steps


def measure_segments(store: Store, messages: Iterator[Message], stored: int, size: SegmentSize) -> dict[str, float]:
    """Of half of the messages when nothing else happens, and of the other half while they are committed."""
    half = stored // 2
    segments = half // size.messages
    store.fill(islice(messages, half), lambda _done: None, segments=False)
    figures: dict[str, float] = {}
    for moment, beside in (("resting", iter(())), ("committing", messages)):
        steps = asyncio.run(time_steps(store, size, segments, beside))
        storing_ms = sorted(steps.storing_ms)
        figures |= {
            f"{moment}_steps": len(storing_ms),
            f"{moment}_ms": storing_ms[len(storing_ms) // 2],
            f"{moment}_p99_ms": storing_ms[len(storing_ms) * 99 // 100],
            f"{moment}_longest_ms": storing_ms[-1],
            f"{moment}_longest_cpu_ms": max(steps.storing_cpu_ms),
            f"{moment}_reading_ms": max(steps.other_ms),
        }
    return figures
