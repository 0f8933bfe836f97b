"""Nodes over one ordered log in memory: an applier and a writer each, timers that a test lets expire."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cluster.vnodes.applier import ApplierStop, VnodeApplier
from holdfast.cluster.vnodes.writer import VnodeWriter
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import MemoryTables, StateStore
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.items import ChangeSettings, Item
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, encode_record
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, ZONES


class Listener:
    """Notes what it is told, and hands it on."""

    def __init__(self) -> None:
        self.told: list[tuple[LogEntry, Outcome]] = []
        self.stops: list[ApplierStop] = []
        self.writer: VnodeWriter | None = None

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        self.told.append((entry, outcome))
        if self.writer is not None:
            self.writer.applied(entry, outcome)

    def stopped(self, stop: ApplierStop) -> None:
        self.stops.append(stop)
        if self.writer is not None:
            self.writer.stopped(stop)

    def sequences(self) -> list[int]:
        return [entry.sequence for entry, _outcome in self.told]


class FakeTimer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeTimers:
    """Timers that expire when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[FakeTimer] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now_s + delay, callback)
        self._timers.append(timer)
        return timer

    def due(self) -> list[float]:
        """When the timers that run expire."""
        return sorted(timer.at_s for timer in self._timers if not timer.cancelled)

    def advance(self, passed_s: float) -> None:
        until_s = self.now_s + passed_s
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        while True:
            ready = [timer for timer in self._timers if not timer.cancelled and timer.at_s <= until_s]
            if not ready:
                break
            first = min(ready, key=lambda timer: timer.at_s)
            self._timers.remove(first)
            self.now_s = first.at_s
            first.callback()
        self.now_s = until_s


class Waits:
    """The pauses of an applier: each is counted, and over at once or when a test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.before_end: Callable[[], Awaitable[None] | None] = lambda: None

    async def __call__(self, _delay_s: float) -> None:
        self.count += 1
        self.before_end()
        await asyncio.sleep(0)


def record(
    node: int, number: int, *items: Item, sessions: list[SessionEntry] | None = None, epoch: int = 1, time_us: int = 0
) -> bytes:
    time_us = time_us or ManualClock().wall_us()
    return encode_record(ClusterRecord(CLUSTER_ID, node, epoch, number, time_us, 0, sessions or [], list(items)))


def founded_log(clock: ManualClock | None = None) -> MemoryOrderedLog:
    """A log whose first record has the zones of the vnode."""
    log = MemoryOrderedLog(clock or ManualClock())
    log.append(record(9, 1, ChangeSettings(1, ZONES)), lambda _result: None)
    return log


async def settle() -> None:
    """Let everything that can go on do so."""
    for _turn in range(50):
        await asyncio.sleep(0)


def applier(
    log: MemoryOrderedLog, store: StateStore | None = None, listener: Listener | None = None, waits: Waits | None = None
) -> VnodeApplier:
    return VnodeApplier(log, CLUSTER_ID, store or MemoryTables(), listener or Listener(), waits or Waits())
