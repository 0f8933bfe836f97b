"""The applier of a vnode: every record once and in order, stops with a reason, closings between records."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from holdfast.cluster.vnodes import applier as module
from holdfast.cluster.vnodes.applier import UNREADABLE, VnodeApplier
from holdfast.durable.changes import Changes
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import INSTALL, LOST, LogEntry, LogReader, LogReading
from holdfast.durable.sessions.session_store import KeepSession, SessionStep
from holdfast.durable.state_machine.closing import close_slice
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import FOREIGN, Outcome, PublishedMessage
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import CLUSTER, MemoryTables, TableChanges
from holdfast.model.clock import ManualClock
from holdfast.model.errors import TransientError
from holdfast.records.cluster.items import Claim, Closed, Tick
from holdfast.records.cluster.record import SessionEntry, revision_of
from holdfast.records.cluster.rows import APPLIED_KEY, INCARNATION_KEY, decode_registration, registration_key
from holdfast.records.session.session_record import SessionRecord
from tests.unit.cluster.node_world import Listener, applier, founded_log, record, settle
from tests.unit.durable.state_machine.vnode import CLUSTER_ID


def append(log: MemoryOrderedLog, value: bytes) -> None:
    log.append(value, lambda _result: None)


def ticks(log: MemoryOrderedLog, count: int, first: int = 1) -> None:
    for number in range(first, first + count):
        append(log, record(1, number, Tick()))


async def while_running(following: VnodeApplier, act: Callable[[], Awaitable[None] | None]) -> None:
    """Act while the applier runs, and end it."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(following.run())
        await settle()
        acted = act()
        if acted is not None:
            await acted
        await settle()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def run(following: VnodeApplier, act: Callable[[], Awaitable[None] | None] = lambda: None) -> None:
    asyncio.run(while_running(following, act))


def run_to_stop(following: VnodeApplier) -> module.ApplierStop:
    async def bounded() -> module.ApplierStop:
        async with asyncio.timeout(10):
            return await following.run()

    return asyncio.run(bounded())


def test_every_record_is_applied_once_and_told_in_order() -> None:
    log, store, listener = founded_log(), MemoryTables(), Listener()
    ticks(log, 2)
    run(applier(log, store, listener), lambda: ticks(log, 2, first=3))
    assert listener.sequences() == [1, 2, 3, 4, 5]
    assert applied_row(store).sequence == 5
    assert listener.told[-1][1].digest == applied_row(store).digest


def test_a_start_goes_on_behind_what_was_applied() -> None:
    log, store = founded_log(), MemoryTables()
    run(applier(log, store))
    ticks(log, 1)
    listener = Listener()
    run(applier(log, store, listener))
    assert listener.sequences() == [2]
    again = Listener()
    run(applier(log, store, again))
    assert again.sequences() == []


def test_a_record_of_another_cluster_is_passed_over() -> None:
    log, listener = founded_log(), Listener()
    append(log, b"no record of ours")
    ticks(log, 1)
    run(applier(log, listener=listener))
    assert listener.sequences() == [1, 2, 3]
    assert listener.told[1][1].verdict == FOREIGN


def test_an_unreadable_record_stops_the_vnode_and_is_never_skipped() -> None:
    """A11: what others may have decided by it is not known here."""
    log, store, listener = founded_log(), MemoryTables(), Listener()
    damaged = bytearray(record(1, 1, Tick()))
    damaged[-1] ^= 1
    append(log, bytes(damaged))
    ticks(log, 1)
    stop = run_to_stop(applier(log, store, listener))
    assert stop.reason == UNREADABLE
    assert "record 2" in stop.why
    assert (listener.sequences(), listener.stops) == ([1], [stop])
    assert applied_row(store).sequence == 1


def test_a_log_that_begins_later_asks_for_an_installation() -> None:
    log, store = founded_log(), MemoryTables()
    run(applier(log, store))
    ticks(log, 3)
    asyncio.run(log.trim(3))
    stop = run_to_stop(applier(log, store))
    assert (stop.reason, applied_row(store).sequence) == (INSTALL, 1)
    assert run_to_stop(applier(log)).reason == INSTALL, "an empty folder"


def test_a_log_is_followed_from_its_first_record_if_that_is_the_next_one() -> None:
    log, store, listener = founded_log(), MemoryTables(), Listener()
    run(applier(log, store))
    ticks(log, 2)
    asyncio.run(log.trim(2))
    run(applier(log, store, listener))
    assert listener.sequences() == [2, 3]


def test_a_log_without_its_tail_is_noticed_while_it_is_followed() -> None:
    """A10: nothing is told of what comes into the log after that."""
    log, store, listener = founded_log(), MemoryTables(), Listener()
    ticks(log, 3)
    following = applier(log, store, listener)
    run(following, lambda: log.lose_tail(2))
    assert following.stop is not None
    assert following.stop.reason == LOST
    append(log, record(1, 2, Tick()))
    assert listener.sequences() == [1, 2, 3, 4]


def test_a_log_that_was_made_again_is_noticed() -> None:
    """A10, A19: another incarnation is another log, however long it is."""
    log, store = founded_log(), MemoryTables()
    run(applier(log, store))
    log.replace("memory-2")
    ticks(log, 5)
    listener = Listener()
    stop = run_to_stop(applier(log, store, listener))
    assert stop.reason == LOST
    assert "memory-2" in stop.why
    assert listener.told == []


def test_a_log_that_lost_its_tail_and_grew_again_is_noticed_at_the_next_read() -> None:
    """A19: its ends say nothing; the record at the applied place does."""
    log, store = founded_log(), MemoryTables()
    ticks(log, 3)
    run(applier(log, store))
    log.lose_tail(2)
    for number in range(2, 6):
        append(log, record(2, number - 1, Tick()))
    listener = Listener()
    stop = run_to_stop(applier(log, store, listener))
    assert stop.reason == LOST
    assert "record 4 is not the one" in stop.why
    assert listener.told == []


def test_the_incarnation_is_written_with_the_first_record() -> None:
    store = MemoryTables()
    run(applier(MemoryOrderedLog(ManualClock()), store))
    assert store.get(CLUSTER, INCARNATION_KEY) is None
    run(applier(founded_log(), store))
    assert store.get(CLUSTER, INCARNATION_KEY) is not None


class ClosedTables(MemoryTables):
    """Tables that cannot be read until they were tried so many times: their database is being opened again."""

    closed = 0

    def get(self, family: str, key: bytes) -> bytes | None:
        self._read()
        return super().get(family, key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._read()
        return super().scan(family, lo, hi, limit)

    def _read(self) -> None:
        if self.closed:
            raise TransientError("the database is being opened again")

    def retry(self) -> None:
        self.closed = max(self.closed - 1, 0)
        self._read()


def test_a_slice_waits_while_tables_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log, store, listener = founded_log(), ClosedTables(), Listener()
    slices: list[int] = []

    def closing(tables: ClosedTables, after: str, limit: int) -> tuple[TableChanges, str]:
        slices.append(len(slices))
        if len(slices) == 1:
            store.closed = 2
        return close_slice(tables, after, limit)

    monkeypatch.setattr(module, "close_slice", closing)
    run(applier(log, store, listener), lambda: ticks(log, 1))
    assert len(slices) == 2, "it is carried out when the tables can be read"
    assert listener.sequences() == [1, 2]


def test_a_listener_that_appends_hears_of_its_record_behind_the_present_ones() -> None:
    log, listener = founded_log(), Listener()
    log.hold_reads = True
    ticks(log, 1)

    class Answering(Listener):
        busy = False

        def applied(self, entry: LogEntry, outcome: Outcome) -> None:
            assert not self.busy, "it is told one outcome after the other"
            self.busy = True
            super().applied(entry, outcome)
            if entry.sequence == 1:
                append(log, b"answer")
            self.busy = False

    listener = Answering()

    def deliver() -> None:
        log.hold_reads = False
        log.deliver(log.readings()[0])

    run(applier(log, listener=listener), deliver)
    assert listener.sequences() == [1, 2, 3]


class CountedLog(MemoryOrderedLog):
    reads = 0

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        self.reads += 1
        return super().read(from_sequence, reader)


def test_many_entries_are_applied_in_pieces_and_a_log_that_is_far_ahead_is_read_again() -> None:
    log, listener = CountedLog(ManualClock()), Listener()
    append(log, b"foreign")
    ticks(log, module._MAX_QUEUED + 40)
    following = applier(log, listener=listener)
    at_once: list[int] = []

    async def look() -> None:
        """Apply all, and one that comes later; note how much is told between two turns of the loop."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(following.run())
            while len(listener.told) < module._MAX_QUEUED + 41:
                told = len(listener.told)
                await asyncio.sleep(0)
                at_once.append(len(listener.told) - told)
            await settle()
            ticks(log, 1, first=module._MAX_QUEUED + 41)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(look())
    assert max(at_once) <= 2 * module._RECORDS_AT_ONCE
    assert listener.sequences() == list(range(1, module._MAX_QUEUED + 43))
    assert log.reads == 2


class NodeKilledError(Exception):
    """The node ends here."""


class KilledBehind(MemoryTables):
    """The same tables, for so many batches."""

    def __init__(self, tables: MemoryTables, batches: int) -> None:
        super().__init__()
        self._tables, self._batches = tables, batches
        self.get, self.scan, self.session = tables.get, tables.scan, tables.session  # type: ignore[method-assign]

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        if not self._batches:
            raise NodeKilledError
        self._batches -= 1
        self._tables.write(changes, steps, published)


def test_closings_are_carried_out_between_records_and_at_a_start() -> None:
    """A13: a node that is killed amid the slices of a closing carries out the rest of them."""
    log, clients = founded_log(), [f"c{number:03}" for number in range(module._SLICE + 20)]
    for number, client in enumerate(clients, 1):
        append(log, record(1, number, Claim(client, 1, (number, 1, 1), 0)))
    entry = SessionEntry(clients[0], revision_of(2, 0))
    keep = step_item(KeepSession(clients[0], SessionRecord(expiry_s=60, disconnected_us=0), None), 0)
    append(log, record(1, len(clients) + 1, keep, sessions=[entry]))
    append(log, record(2, 1, Closed(1, 2)))
    store = MemoryTables()

    class KilledAtTheClosing(Listener):
        def applied(self, entry: LogEntry, outcome: Outcome) -> None:
            if entry.sequence == len(clients) + 3:
                raise NodeKilledError

    following = applier(log, store, KilledAtTheClosing())

    def released() -> list[bool]:
        values = [store.get(CLUSTER, registration_key(client)) for client in clients]
        return [value is not None and decode_registration(value).released_us > 0 for value in values]

    with pytest.raises(NodeKilledError):
        asyncio.run(following.run())
    assert applied_row(store).sequence == len(clients) + 3
    assert not any(released())
    # The second start is killed behind its first slice.
    with pytest.raises(NodeKilledError):
        asyncio.run(applier(log, KilledBehind(store, 1)).run())
    assert any(released())
    assert not all(released())
    digest = applied_row(store).digest
    run(applier(log, store))
    assert all(released())
    session = store.session(clients[0])
    assert session is not None
    assert session.disconnected_us > 0
    assert applied_row(store).digest == digest


def test_a_closing_is_carried_out_by_an_applier_that_goes_on() -> None:
    log, store = founded_log(), MemoryTables()
    append(log, record(1, 1, Claim("c", 1, (1, 1, 1), 0)))
    run(applier(log, store), lambda: append(log, record(2, 1, Closed(1, 2))))
    value = store.get(CLUSTER, registration_key("c"))
    assert value is not None
    assert decode_registration(value).released_us > 0


def test_what_was_applied_is_not_known_from_a_store_without_an_incarnation() -> None:
    log, store = founded_log(), MemoryTables()
    run(applier(log, store))
    changes = Changes()
    changes.into(CLUSTER).delete(INCARNATION_KEY)
    store.write(changes, [])
    assert store.get(CLUSTER, APPLIED_KEY) is not None
    assert run_to_stop(VnodeApplier(log, CLUSTER_ID, store, Listener())).reason == LOST
