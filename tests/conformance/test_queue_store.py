"""Homes of client queues: every one does what the model in memory does, also after it was opened again."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.durable.queues.queue_store import (
    NO_LIMITS,
    REFUSE,
    AppendBatch,
    Appended,
    QueueEntry,
    QueueLimits,
    QueueStore,
)
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from tests.conformance.queue_backends import BACKENDS, Opener

Result = TypeVar("Result")

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
PLENTY = QueueLimits(1000, 1 << 20)
#: Starting these takes more than a moment.
SLOW = {"redis cluster", "postgres"}


class Queues:
    """A store, asked step by step, and opened again when the test says so."""

    def __init__(self, opener: Opener) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(START_US)
        self._opener = opener
        self.store: QueueStore = self.wait(self._open())

    async def _open(self) -> QueueStore:
        return await self._opener(self.clock)

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    def reopen(self) -> None:
        self.wait(self.store.close())
        self.store = self.wait(self._open())

    def close(self) -> None:
        self.wait(self.store.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    # ---- short words

    def append(self, *given: QueueEntry, client: str = "c", limits: QueueLimits = PLENTY) -> Appended:
        (answer,) = self.wait(self.store.append([AppendBatch(client, list(given), limits)]))
        assert isinstance(answer, Appended), answer
        return answer

    def read(self, client: str = "c", after: int = 0, limit: int = 1000) -> list[QueueEntry]:
        return self.wait(self.store.read(client, after, limit))

    def numbers(self, client: str = "c") -> list[int]:
        return [found.number for found in self.read(client)]

    def acknowledge(self, *serials: int, client: str = "c") -> None:
        self.wait(self.store.acknowledge([(client, list(serials))]))

    def clients(self) -> list[str]:
        async def look() -> list[str]:
            return sorted([client_id async for client_id in self.store.clients()])

        return self.wait(look())


def entry(
    number: int,
    payload: bytes = b"x",
    *,
    qos: int = 1,
    expires_us: int = 0,
    retain: bool = False,
    received_us: int = START_US,
) -> QueueEntry:
    message = Message(b"a/b", payload, qos, ClientId("p"), received_us, expires_us=expires_us)
    return QueueEntry(number, Owed(message, qos, retain=retain, identifiers=(number % 7,)), expires_us)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BACKENDS])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queues]:
    opened = Queues(BACKENDS[request.param](request, tmp_path))
    yield opened
    opened.close()


def test_messages_are_read_in_the_order_of_dense_serials(queues: Queues) -> None:
    """T2, T3: places have nothing to do with packet ids."""
    assert queues.append(entry(10), entry(20)).serials == [1, 2]
    assert queues.append(entry(30)).serials == [3]
    found = queues.read()
    assert [(each.owed.serial, each.number) for each in found] == [(1, 10), (2, 20), (3, 30)]
    assert [each.owed.identifiers for each in found] == [(3,), (6,), (2,)]
    assert [each.number for each in queues.read(after=1, limit=1)] == [20]
    assert [each.number for each in queues.read(after=3)] == []


def test_everything_is_there_when_it_is_opened_again(queues: Queues) -> None:
    given = [entry(5, b"\x00\xff", qos=2, retain=True), entry(6, b""), entry(7, b"z" * 5000)]
    queues.append(*given)
    queues.wait(queues.store.release("c", [1]))
    queues.acknowledge(2)
    queues.reopen()
    found = queues.read()
    assert [each.message for each in found] == [given[0].message, given[2].message]
    assert [each.released for each in found] == [True, False]
    assert (found[0].owed.qos, found[0].owed.retain, found[0].owed.identifiers) == (2, True, (5,))
    assert queues.wait(queues.store.last("c")) == (3, 7)
    assert queues.append(entry(8)).serials == [4]


def test_what_was_given_before_is_not_stored_again(queues: Queues) -> None:
    """T13: also when it was read and forgotten meanwhile, and the queue is empty."""
    assert queues.append(entry(10), entry(20)).serials == [1, 2]
    assert queues.append(entry(10), entry(20), entry(30)).serials == [1, 2, 3]
    queues.acknowledge(1, 2, 3)
    queues.reopen()
    answer = queues.append(entry(20), entry(30))
    assert (answer.serials, answer.dropped, answer.refused) == ([0, 0], 0, 0)
    assert queues.numbers() == []
    assert queues.append(entry(40)).serials == [4]


def test_serials_are_not_used_again_until_the_queue_is_dropped(queues: Queues) -> None:
    """T9"""
    queues.append(entry(1), entry(2))
    queues.acknowledge(1, 2)
    queues.reopen()
    assert queues.append(entry(3)).serials == [3]
    queues.wait(queues.store.drop(["c", "nobody"]))
    assert queues.wait(queues.store.last("c")) == (0, 0)
    assert queues.numbers() == []
    queues.reopen()
    assert queues.append(entry(1)).serials == [1]


def test_over_a_limit_the_oldest_go(queues: Queues) -> None:
    """T5"""
    few = QueueLimits(3, 1 << 20)
    assert queues.append(*map(entry, range(1, 4)), limits=few).dropped == 0
    assert queues.append(entry(4), limits=few).dropped == 1
    answer = queues.append(*map(entry, range(5, 10)), limits=few)
    assert answer.dropped + answer.serials.count(0) >= 3
    assert answer.serials[:2] == [0, 0]
    assert queues.numbers() == [7, 8, 9]


def test_bytes_are_a_limit_too(queues: Queues) -> None:
    """T5"""
    small = QueueLimits(100, 250)
    queues.append(entry(1, b"a" * 97), entry(2, b"b" * 97), limits=small)
    queues.append(entry(3, b"c" * 97), limits=small)
    assert queues.numbers() == [2, 3]
    size = queues.wait(queues.store.size("c"))
    assert (size.messages, size.size_bytes) == (2, 200)


def test_a_limit_of_nothing_stores_nothing(queues: Queues) -> None:
    """T5"""
    assert queues.append(entry(1), limits=QueueLimits(0, 1000)).serials == [0]
    assert queues.numbers() == []


def test_a_full_queue_that_refuses_does_so_until_it_has_been_read(queues: Queues) -> None:
    """S7"""
    two = QueueLimits(2, 1 << 20, on_full=REFUSE)
    answer = queues.append(entry(1), entry(2), entry(3), limits=two)
    assert (answer.serials, answer.refused, answer.dropped) == ([1, 2, 0], 1, 0)
    queues.read(limit=1)
    queues.acknowledge(1)
    assert queues.append(entry(4), limits=two).refused == 1
    queues.read(after=1)
    assert queues.append(entry(5), limits=two).refused == 0
    assert queues.numbers() == [2, 5]


def test_what_is_taken_whatever_the_limits_leaves_a_full_queue_full(queues: Queues) -> None:
    """S7: the notice that a queue is full."""
    two = QueueLimits(2, 1 << 20, on_full=REFUSE)
    queues.append(entry(1), entry(2), entry(3), limits=two)
    answer = queues.append(entry(4), limits=NO_LIMITS)
    assert (answer.serials, answer.refused, answer.dropped) == ([3], 0, 0)
    queues.read(limit=2)
    assert queues.append(entry(5), limits=two).refused == 1
    assert queues.numbers() == [1, 2, 4]
    assert queues.append(entry(6), limits=two).refused == 0


def test_reading_is_repeatable_until_the_entry_is_acknowledged(queues: Queues) -> None:
    """S8: `read` is the peek of this contract. What was not delivered is not known to clients, so that the broker never
    acknowledges it (`test_a_client_acknowledges_only_what_it_was_sent`)."""
    queues.append(entry(1), entry(2))
    assert [[each.number for each in queues.read(limit=1)] for _time in range(3)] == [[1], [1], [1]]
    queues.acknowledge(1)
    assert [[each.number for each in queues.read(limit=1)] for _time in range(2)] == [[2], [2]]
    queues.reopen()
    assert [each.number for each in queues.read(limit=1)] == [2]


def test_reading_beside_an_acknowledgement_sees_all_of_it_or_nothing(queues: Queues) -> None:
    """S8: to acknowledge some and to read on are two calls, and no entry is lost or shown twice between them."""
    queues.append(*[entry(number) for number in range(1, 41)])

    async def both(first: int) -> list[int]:
        serials = [first, first + 1]
        _done, page = await asyncio.gather(
            queues.store.acknowledge([("c", serials)]), queues.store.read("c", first - 1, 10)
        )
        return [each.number for each in page]

    for first in range(1, 21, 2):
        seen = queues.wait(both(first))
        assert seen in ([*range(first, first + 10)], [*range(first + 2, first + 12)])
    assert queues.numbers() == list(range(21, 41))


def test_what_was_read_does_not_count_toward_limits(queues: Queues) -> None:
    two = QueueLimits(2, 1 << 20)
    queues.append(entry(1), entry(2), limits=two)
    queues.read()
    assert queues.append(entry(3), entry(4), limits=two).dropped == 0
    assert queues.numbers() == [1, 2, 3, 4]


def test_what_has_expired_is_never_read_and_takes_no_room(queues: Queues) -> None:
    """T4, T6, T10"""
    two = QueueLimits(2, 1 << 20)
    soon_us = START_US + SECOND_US
    queues.append(entry(1, expires_us=soon_us), entry(2), limits=two)
    queues.clock.advance(SECOND_US)
    assert queues.append(entry(3), limits=two).dropped == 0
    assert queues.numbers() == [2, 3]
    assert queues.wait(queues.store.size("c")).messages == 2
    assert queues.append(entry(4, expires_us=soon_us), limits=two).serials == [0]
    assert queues.numbers() == [2, 3]


def test_a_queue_that_nobody_uses_loses_what_has_expired(queues: Queues) -> None:
    queues.append(*(entry(number, expires_us=START_US + SECOND_US) for number in range(1, 6)))
    queues.append(entry(6), client="d")
    queues.clock.advance(2 * SECOND_US)
    queues.wait(queues.store.sweep(queues.clock.wall_us()))
    assert queues.wait(queues.store.size("c")).messages == 0
    assert queues.numbers("d") == [6]
    assert queues.append(entry(7)).serials == [6]


def test_released_entries_keep_their_place_and_their_expiry(queues: Queues) -> None:
    """T8"""
    queues.append(entry(1, qos=2, expires_us=START_US + 5 * SECOND_US), entry(2, qos=2))
    queues.wait(queues.store.release("c", [1, 2, 77]))
    found = queues.read()
    assert [(each.number, each.released) for each in found] == [(1, True), (2, True)]
    assert found[0].expires_us == START_US + 5 * SECOND_US
    queues.clock.advance(5 * SECOND_US)
    queues.reopen()
    assert queues.numbers() == [2]


def test_unknown_serials_are_harmless(queues: Queues) -> None:
    """T7"""
    queues.append(entry(1))
    queues.acknowledge(5, 0)
    queues.acknowledge(1, client="nobody")
    queues.wait(queues.store.release("nobody", [1]))
    queues.acknowledge(1)
    queues.acknowledge(1)
    assert queues.numbers() == []
    assert queues.append(entry(2)).serials == [2]


def test_acknowledging_out_of_order_leaves_the_others(queues: Queues) -> None:
    queues.append(*map(entry, range(1, 8)))
    queues.acknowledge(7, 2, 4)
    queues.reopen()
    assert queues.numbers() == [1, 3, 5, 6]
    queues.acknowledge(1, 3, 5, 6)
    assert queues.numbers() == []


def test_a_call_concerns_many_clients_and_each_has_a_queue_of_its_own(queues: Queues) -> None:
    """T1: whatever their ids look like."""
    names = ["c", "a/b", "{x}", "mount/%00c", "ü", " ", "..", "x" * 300]
    packs = [AppendBatch(name, [entry(1, name.encode()), entry(2)], PLENTY) for name in names]
    answers = queues.wait(queues.store.append(packs))
    assert [each.serials for each in answers if isinstance(each, Appended)] == [[1, 2]] * len(names)
    assert queues.clients() == sorted(names)
    queues.wait(queues.store.acknowledge([(name, [2]) for name in names]))
    queues.reopen()
    for name in names:
        assert [each.message.payload for each in queues.read(name)] == [name.encode()]
    queues.wait(queues.store.drop(names[:4]))
    assert [queues.numbers(name) for name in names] == [[]] * 4 + [[1]] * 4


def test_a_long_queue_is_read_in_pages(queues: Queues) -> None:
    for start in range(1, 1000, 100):
        queues.append(*map(entry, range(start, start + 100)))
    queues.reopen()
    after, got = 0, []
    while page := queues.read(after=after, limit=64):
        assert len(page) == 64 or page[-1].number == 1000
        after = page[-1].owed.serial
        got += [each.number for each in page]
    assert got == list(range(1, 1001))
