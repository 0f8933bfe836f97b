"""The tables of one vnode on RocksDB: read by the state machine, written with one batch for each record.

    table      family       prefix of its keys
    ─────────  ───────────  ──────────────────
    cluster    cluster      vnode │ 01
    meta       cluster      vnode │ 02
    retained   cluster      vnode │ 03
    sessions   cluster      vnode │ 04             through `RocksSessions`, whose keys and values they have

1. A batch has everything that a record changes, the applied sequence and the digest among it. So the tables are at
   every moment, after a crash too, those that some record has left.
2. Nothing here waits for a sync. What a power loss takes is at the end of the WAL: records that are read again.
3. A batch takes the engine's next number when it is written. Whoever else writes through the same engine does so, too,
   on the same thread.
4. Which QoS 2 slot a packet id lies in may differ between nodes; what is loaded from slots does not.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from holdfast.durable.changes import Changes, FamilyChanges
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.durable.state_machine import tables
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.model.errors import MisuseError, PermanentError, TransientError
from holdfast.model.message import Message
from holdfast.records.cluster import vnode_keys
from holdfast.records.cluster.rows import closed_prefix
from holdfast.records.meta_keys import GENERATION
from holdfast.records.retained import has_payload, subtree
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.column_families import CLUSTER, SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.storage.rocks.sessions.inflight_finder import Find, FindRetained, Gone
from holdfast.storage.rocks.sessions.session_store import RocksSessions
from holdfast.storage.rocks.vnodes.session_positions import named_positions
from holdfast.storage.rocks.vnodes.table_rows import TableRows


class MessageWriter(Protocol):
    """Stores the messages of records, and follows what records do to the generations of shards."""

    def add(self, published: Sequence[PublishedMessage], rows: Changes, changes: Changes) -> None:
        """Put messages, each with its shard, position and serial, into the batch of their record.

        `rows` are those that the record changes; they say which generations begin and go.
        PermanentError if they cannot be stored here, now or later.
        """

    def make_ready(self) -> None:
        """Make what the batch that was added last needs. May be called again. TransientError: not now."""

    def refused(self) -> None:
        """The batch could not be written now: hold on to nothing of the database, which may be opened again."""

    def written(self) -> None:
        """The batch that was added last is written."""


class _Batch:
    """What a record changes; and the same as it is written, if it could be built."""

    def __init__(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage]) -> None:
        self.changes: Final = changes
        self.steps: Final = steps
        self.published: Final = published
        self.built: Changes | None = None
        #: How many more topics have a retained message behind it, and whether it changes any.
        self.retained = 0
        self.has_retained = False


class RocksVnode:
    """A `StateStore` by shape. Survives: a killed process; of a power loss, what was synced before it."""

    def __init__(
        self,
        engine: Engine,
        vnode: int,
        messages: MessageWriter | None = None,
        find: Find | None = None,
        find_retained: FindRetained | None = None,
        gone: Gone | None = None,
    ) -> None:
        """`find` and `find_retained` give a session that is loaded the messages that it names; `gone` is told which of
        them are not there any more.

        Without `messages`, none is stored.
        """
        if CLUSTER not in engine.families():
            engine.create_family(CLUSTER)
        self.id: Final = vnode
        self._engine: Final = engine
        self._messages: Final = messages
        self._tables: Final = {
            tables.CLUSTER: _table(engine, vnode, vnode_keys.STATE),
            tables.META: _table(engine, vnode, vnode_keys.META),
            tables.RETAINED: _table(engine, vnode, vnode_keys.RETAINED),
            SESSIONS: _table(engine, vnode, vnode_keys.SESSIONS),
        }
        self._rows: Final = {
            tables.CLUSTER: TableRows(self._tables[tables.CLUSTER], closed_prefix()),
            tables.META: TableRows(self._tables[tables.META], bytes((GENERATION,))),
        }
        #: The sessions of the vnode, for loading them. They are written here alone.
        self.sessions: Final = RocksSessions(
            self._tables[SESSIONS], find or _no_message, find_retained or _no_retained, gone
        )
        #: Topics that have a retained message, removals not counted; expired ones are.
        self.retained_count = sum([has_payload(value) for _key, value in self.retained().items(*subtree(()))])
        #: Batches since the start that changed a retained message.
        self.retained_changes = 0
        #: What could not be written yet.
        self._unwritten: _Batch | None = None

    # ---- reading

    def get(self, family: str, key: bytes) -> bytes | None:
        rows = self._rows.get(family)
        return self._tables[family].get(key) if rows is None else rows.get(key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows = self._rows.get(family)
        if rows is not None:
            return rows.scan(lo, hi, limit)
        return list(islice(self._tables[family].items(lo, hi), limit or None))

    def session(self, session_id: str) -> SessionRecord | None:
        return self.sessions.record(session_id)

    def retained(self) -> FamilySlice:
        """The table of retained messages."""
        return self._tables[tables.RETAINED]

    def positions(self, session_id: str) -> dict[int, int]:
        """The places in the log that a session names, by shard the last one."""
        return named_positions(self._tables[SESSIONS], session_id)

    # ---- writing

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        if self._unwritten is not None:
            raise MisuseError("a record of a vnode is written while the one before it waits to be written again")
        self._unwritten = _Batch(changes, steps, published)
        self.retry()

    def is_written(self) -> bool:
        """Whether no batch waits to be written again."""
        return self._unwritten is None

    def retry(self) -> None:
        batch = self._unwritten
        try:
            if not self._engine.is_open():
                # Also without a batch: the next record is decided by what is read.
                self._engine.make_ready()
            if batch is None:
                return
            if batch.built is None:
                batch.built = self._built(batch)
            if self._messages is not None:
                self._messages.make_ready()
            if len(batch.built):
                self._engine.write(self._engine.written + 1, batch.built)
        except TransientError:
            for rows in self._rows.values():
                rows.forget()
            if self._messages is not None:
                self._messages.refused()
            raise
        self._unwritten = None
        for name, rows in self._rows.items():
            rows.wrote(batch.changes.into(name))
        self.retained_count += batch.retained
        self.retained_changes += batch.has_retained
        if self._messages is not None:
            self._messages.written()

    def _built(self, batch: _Batch) -> Changes:
        """Requires: the database is open. So it is built once: what is remembered of sessions follows it."""
        built = Changes()
        try:
            if self._messages is not None:
                stored = [message for message in batch.published if message.serial]
                self._messages.add(stored, batch.changes, built)
        except PermanentError:
            self._unwritten = None
            raise
        retained = batch.changes.into(tables.RETAINED)
        batch.has_retained = bool(retained.operations)
        batch.retained = self._count_retained(retained)
        self._add(batch.changes, built)
        if batch.steps:
            steps = Batch(0)
            steps.steps.extend(batch.steps)
            stepped = Changes()
            self.sessions.add(steps, stepped)
            self._add(stepped, built)
        return built

    def _count_retained(self, changes: FamilyChanges) -> int:
        """How many more topics will have a retained message."""
        lo, hi = subtree(())
        last = {key: value for key, value in changes.operations if lo <= key < hi}
        table, count = self.retained(), 0
        for key, value in last.items():
            before = table.get(key)
            count += isinstance(value, bytes) and has_payload(value)
            count -= before is not None and has_payload(before)
        return count

    def _add(self, changes: Changes, built: Changes) -> None:
        for name, family in changes.families():
            self._tables[name].add(family, built.into(CLUSTER))


def _no_message(_shard: int, _levels: tuple[bytes, ...], _position_us: int) -> Message | None:
    return None


def _no_retained(_topic: bytes, _newest: int) -> Message | None:
    return None


def _table(engine: Engine, vnode: int, table: int) -> FamilySlice:
    return FamilySlice(engine, CLUSTER, vnode_keys.table_prefix(vnode, table))
