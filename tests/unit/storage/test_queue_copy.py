"""Copies of queues: what counts as begun, what has expired on the way, and what an import may remove."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.cli.queue.move import _copy_all
from holdfast.durable.queues.queue_store import AppendBatch, QueueEntry, QueueStore
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.model.owed import Owed
from holdfast.storage.queue_copy import copy_queue
from tests.journal_world import PLENTY, SECOND_US, entry
from tests.memory_queue_store import MemoryQueueStore


class Listed:
    """A queue as it was once, like that of a file: what has expired is still in it."""

    def __init__(self, *entries: QueueEntry, then: BaseException | None = None) -> None:
        self._entries = [
            QueueEntry(one.number, Owed(one.message, one.owed.qos, serial=serial), one.expires_us)
            for serial, one in enumerate(entries, 1)
        ]
        #: Where the list should go on.
        self._then = then

    async def last(self, _client_id: str) -> tuple[int, int]:
        return len(self._entries), self._entries[-1].number

    async def entries(self, _client_id: str) -> AsyncIterator[QueueEntry]:
        for one in self._entries:
            yield one
        if self._then is not None:
            raise self._then


async def copied(source: Listed, target: QueueStore, clock: ManualClock) -> int:
    return (await copy_queue(source, target, "c", clock.wall_us, lambda _count: None)).messages


async def contents(backend: QueueStore) -> list[tuple[int, int, bytes]]:
    return [(one.owed.serial, one.number, one.message.payload) for one in await backend.read("c", 0, 100)]


def test_other_messages_under_the_same_numbers_are_another_queue() -> None:
    """Every broker counts from 1."""

    async def work() -> None:
        clock = ManualClock()
        target = MemoryQueueStore(clock)
        await target.append([AppendBatch("c", [entry(1, b"b"), entry(2, b"b")], PLENTY)])
        with pytest.raises(PermanentError, match="already, and not a part of this one"):
            await copied(Listed(entry(1, b"a"), entry(2, b"a"), entry(3, b"a")), target, clock)
        assert await contents(target) == [(1, 1, b"b"), (2, 2, b"b")]

    asyncio.run(work())


def test_a_queue_that_was_given_numbers_and_kept_nothing_is_another_one() -> None:
    async def work() -> None:
        clock = ManualClock()
        target = MemoryQueueStore(clock)
        await target.append([AppendBatch("c", [entry(7, expires_us=clock.wall_us())], PLENTY)])
        assert await target.last("c") == (0, 7)
        with pytest.raises(PermanentError, match="already, and not a part of this one"):
            await copied(Listed(entry(1), entry(2)), target, clock)
        assert await target.last("c") == (0, 7)

    asyncio.run(work())


def test_what_has_expired_leaves_its_place_empty() -> None:
    async def work() -> None:
        clock = ManualClock()
        soon_us = clock.wall_us() + 10 * SECOND_US
        source = Listed(entry(1, expires_us=soon_us), entry(2), entry(5, expires_us=soon_us), entry(6))
        clock.advance(11 * SECOND_US)
        target = MemoryQueueStore(clock)
        assert await copied(source, target, clock) == 2
        assert await contents(target) == [(2, 2, b"payload 2"), (4, 6, b"payload 6")]
        assert await target.last("c") == (4, 6)

    asyncio.run(work())


def test_a_copy_goes_on_though_a_message_has_expired_meanwhile() -> None:
    async def work() -> None:
        clock = ManualClock()
        soon_us = clock.wall_us() + 10 * SECOND_US
        entries = [entry(1, expires_us=soon_us), entry(2), entry(3)]
        target = MemoryQueueStore(clock)
        await target.append([AppendBatch("c", entries[:2], PLENTY)])
        clock.advance(11 * SECOND_US)
        assert await copied(Listed(*entries), target, clock) == 2
        assert await contents(target) == [(2, 2, b"payload 2"), (3, 3, b"payload 3")]

    asyncio.run(work())


@pytest.mark.parametrize(
    "reason", [PermanentError("the file is damaged"), asyncio.CancelledError()], ids=["", "Ctrl-C"]
)
@pytest.mark.parametrize("there", [[], [entry(1)], [entry(9)]], ids=["nothing", "a part", "another queue"])
def test_an_import_that_ends_early_removes_what_it_made_and_nothing_else(
    reason: BaseException, there: list[QueueEntry]
) -> None:
    """S11"""

    async def work() -> None:
        target = MemoryQueueStore(ManualClock())
        if there:
            await target.append([AppendBatch("c", there, PLENTY)])
        before = await contents(target)
        try:
            moved = await _copy_all("import", Listed(entry(1), entry(2), then=reason), target, ["c"], whole=True)
            assert list(moved.failed) == ["c"]
        except asyncio.CancelledError:
            assert isinstance(reason, asyncio.CancelledError)
        assert await contents(target) == before
        assert (await target.last("c"))[0] == len(there)

    asyncio.run(work())
