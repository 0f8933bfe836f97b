"""The ordered logs that one suite runs over, and how a test waits for their call-backs.

A backend is a function that gets the test's fixtures and folder, and gives what opens the same log again and again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import AppendResult, LogEntry, OrderedLog
from holdfast.model.clock import ManualClock

#: The most bytes of a record in these tests.
MAX_BYTES = 64 << 10

Opener = Callable[[], AbstractAsyncContextManager[OrderedLog]]
Backend = Callable[[pytest.FixtureRequest, Path], Opener]


def memory(_request: pytest.FixtureRequest, _folder: Path) -> Opener:
    log = MemoryOrderedLog(ManualClock(), max_bytes=MAX_BYTES)

    @asynccontextmanager
    async def open_again() -> AsyncIterator[OrderedLog]:
        yield log
        log.check_invariants()

    return open_again


def nats(request: pytest.FixtureRequest, _folder: Path) -> Opener:
    servers = request.getfixturevalue("nats_servers")
    stream = servers.new_stream()

    @asynccontextmanager
    async def open_again() -> AsyncIterator[OrderedLog]:
        async with servers.opened(stream, max_bytes=MAX_BYTES) as log:
            yield log

    return open_again


BACKENDS: dict[str, Backend] = {"memory": memory, "nats": nats}
#: Those that start servers are slow.
PARAMETERS = ["memory", pytest.param("nats", marks=pytest.mark.slow)]


class Collector:
    """A `LogReader` that a test can wait for."""

    def __init__(self) -> None:
        self.found: list[LogEntry] = []
        self.why = ""
        self._changed = asyncio.Event()

    def entries(self, entries: list[LogEntry]) -> None:
        assert entries
        self.found.extend(entries)
        self._changed.set()

    def stopped(self, why: str) -> None:
        self.why = why
        self._changed.set()

    async def until(self, count: int) -> list[LogEntry]:
        """The first entries, as soon as there are so many."""
        while len(self.found) < count:
            assert not self.why, self.why
            self._changed.clear()
            await self._changed.wait()
        return self.found[:count]

    async def until_stopped(self) -> None:
        while not self.why:
            self._changed.clear()
            await self._changed.wait()


async def append(log: OrderedLog, record: bytes) -> AppendResult:
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    log.append(record, answer.set_result)
    return await answer


async def append_all(log: OrderedLog, records: list[bytes]) -> list[int]:
    """The sequences of records that are appended one after the other."""
    sequences: list[int] = []
    for record in records:
        result = await append(log, record)
        assert isinstance(result, int)
        sequences.append(result)
    return sequences


async def read(log: OrderedLog, from_sequence: int, count: int) -> list[LogEntry]:
    reader = Collector()
    reading = log.read(from_sequence, reader)
    found = await reader.until(count)
    reading.close()
    return found
