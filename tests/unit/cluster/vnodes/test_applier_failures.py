"""The applier of a vnode whose database has no room, or whose log does not answer: it waits, or stops with a reason.

Everything here has the shape of a contract and inherits from nothing, so that it runs on compiled modules, too. The
errors are those of the database, which are no compiled classes.
"""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.cluster.membership.control_snapshot import ControlApplier
from holdfast.cluster.vnodes.applier import UNREADABLE, VnodeApplier
from holdfast.durable.changes import Changes
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import LOST, Answered, LogEnds, LogReader, LogReading
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.items import Tick
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.failures import DiskFullError, StalledError, UnreadableError
from tests.unit.cluster.node_world import Listener, Waits, founded_log, record
from tests.unit.cluster.vnodes.test_applier import append, run, run_to_stop, ticks
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

pytestmark = pytest.mark.compiled


class HarmedTables:
    """A `StateStore` by shape, which fails as it is told to."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        #: Writes that find no room.
        self.full = 0
        #: Whether what a record has begun cannot be stored here.
        self.refuses = False
        #: Attempts until the database, which is being opened again, can be read.
        self.closed = 0
        #: Whether a row that is read is damaged.
        self.damaged = False
        self._left: tuple[Changes, Sequence[SessionStep], Sequence[PublishedMessage]] | None = None

    def get(self, family: str, key: bytes) -> bytes | None:
        self._read()
        return self.tables.get(family, key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._read()
        if self.damaged:
            raise UnreadableError("a row cannot be read")
        return self.tables.scan(family, lo, hi, limit)

    def session(self, session_id: str) -> SessionRecord | None:
        return self.tables.session(session_id)

    def _read(self) -> None:
        if self.closed:
            raise StalledError("the database is being opened again")

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        if self.refuses and any(family.operations for _name, family in changes.families()):
            raise PermanentError("there is no such layout here")
        assert self._left is None
        self._left = changes, steps, published
        self.retry()

    def retry(self) -> None:
        self.closed = max(self.closed - 1, 0)
        self._read()
        if self._left is not None:
            if self.full:
                self.full -= 1
                raise DiskFullError("no room")
            self.tables.write(*self._left)
            self._left = None


class DeafLog:
    """An `OrderedLog` by shape, whose servers do not answer at first."""

    def __init__(self, log: MemoryOrderedLog, deaf: int) -> None:
        self.log = log
        self.deaf = deaf

    def append(self, record: bytes, answered: Answered) -> None:
        self.log.append(record, answered)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        return self.log.read(from_sequence, reader)

    async def ends(self) -> LogEnds:
        if self.deaf:
            self.deaf -= 1
            raise TransientError("no leader")
        return await self.log.ends()

    async def trim(self, before_sequence: int) -> None:
        await self.log.trim(before_sequence)


def following(log: MemoryOrderedLog, store: HarmedTables, listener: Listener, waits: Waits) -> VnodeApplier:
    return VnodeApplier(log, CLUSTER_ID, store, listener, waits)


def test_a_batch_without_room_is_written_before_anything_else_and_told_then() -> None:
    log, store, listener, waits = founded_log(), HarmedTables(), Listener(), Waits()
    store.full = 3
    ticks(log, 3)
    run(following(log, store, listener, waits))
    assert waits.count >= 3
    assert listener.sequences() == [1, 2, 3, 4]
    plain = HarmedTables()
    run(following(log, plain, Listener(), Waits()))
    assert store.tables.rows() == plain.tables.rows()


def test_records_wait_while_tables_cannot_be_read() -> None:
    log, store, listener, waits = founded_log(), HarmedTables(), Listener(), Waits()
    applier = following(log, store, listener, waits)
    store.closed = 2

    def close_again() -> None:
        assert listener.sequences() == [1]
        store.closed = 3
        ticks(log, 2)

    run(applier, close_again)
    assert waits.count >= 5
    assert listener.sequences() == [1, 2, 3]
    assert applied_row(store.tables).sequence == 3


def test_a_record_that_cannot_be_stored_here_stops_the_vnode() -> None:
    store, listener = HarmedTables(), Listener()
    store.refuses = True
    applier = following(founded_log(), store, listener, Waits())
    stop = run_to_stop(applier)
    assert stop.reason == UNREADABLE
    assert "record 1 cannot be stored here: there is no such layout here" in stop.why
    assert listener.stops == [stop]
    assert listener.told == []
    assert applier.place.sequence == 0


def test_a_closing_that_cannot_be_read_stops_the_vnode() -> None:
    log, store, listener = founded_log(), HarmedTables(), Listener()
    run(following(log, store, Listener(), Waits()))
    store.damaged = True
    stop = run_to_stop(following(log, store, listener, Waits()))
    assert stop.reason == UNREADABLE
    assert "a closed epoch cannot be carried out" in stop.why
    assert listener.stops == [stop]


def test_a_log_that_does_not_answer_is_asked_again() -> None:
    log, waits, listener = DeafLog(MemoryOrderedLog(ManualClock()), 2), Waits(), Listener()
    append(log.log, b"foreign")
    run(VnodeApplier(log, CLUSTER_ID, MemoryTables(), listener, waits))
    assert waits.count == 2
    assert listener.sequences() == [1]


def test_a_control_log_that_does_not_answer_is_asked_again() -> None:
    log, waits, listener = DeafLog(MemoryOrderedLog(ManualClock()), 2), Waits(), Listener()
    append(log.log, b"foreign")
    run(ControlApplier(log, CLUSTER_ID, MemoryTables(), listener, waits))
    assert waits.count == 2
    assert listener.sequences() == [1]


def test_a_record_that_stops_the_vnode_is_the_last_that_is_looked_at() -> None:
    """The applied record is another one: what came together with it is not applied."""
    store, listener = MemoryTables(), Listener()
    log = founded_log()
    ticks(log, 1)
    run(VnodeApplier(log, CLUSTER_ID, store, listener, Waits()))
    other = MemoryOrderedLog(ManualClock())
    for number in (7, 8, 9):
        append(other, record(1, number, Tick()))
    later = Listener()
    stop = run_to_stop(VnodeApplier(other, CLUSTER_ID, store, later, Waits()))
    assert stop.reason == LOST
    assert later.stops == [stop]
    assert later.told == []
    assert asyncio.run(other.ends()).last == 3
