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

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.durable.state_machine import tables
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.model.errors import MisuseError
from holdfast.records.cluster import vnode_keys
from holdfast.records.session_record import SessionRecord
from holdfast.storage.rocks.engine.column_families import CLUSTER, SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.storage.rocks.sessions.session_store import Find, FindRetained, RocksSessions


class MessageWriter(Protocol):
    """Stores the messages of records."""

    def add(self, published: Sequence[PublishedMessage], changes: Changes) -> None:
        """Put messages, each with its shard, position and serial, into the batch of their record."""


class RocksVnode:
    """A `StateStore` by shape. Survives: a killed process; of a power loss, what was synced before it."""

    def __init__(
        self,
        engine: Engine,
        vnode: int,
        messages: MessageWriter | None = None,
        find: Find = lambda *_place: None,
        find_retained: FindRetained = lambda _topic, _newest: None,
    ) -> None:
        """`find` and `find_retained` give a session that is loaded the messages that it names.

        Without `messages`, none is stored.
        """
        if CLUSTER not in engine.families():
            engine.create_family(CLUSTER)
        self._engine: Final = engine
        self._messages: Final = messages
        self._tables: Final = {
            tables.CLUSTER: _table(engine, vnode, vnode_keys.STATE),
            tables.META: _table(engine, vnode, vnode_keys.META),
            tables.RETAINED: _table(engine, vnode, vnode_keys.RETAINED),
            SESSIONS: _table(engine, vnode, vnode_keys.SESSIONS),
        }
        #: The sessions of the vnode, for loading them. They are written here alone.
        self.sessions: Final = RocksSessions(self._tables[SESSIONS], find, find_retained)
        #: A batch that could not be written yet.
        self._unwritten: Changes | None = None

    # ---- reading

    def get(self, family: str, key: bytes) -> bytes | None:
        return self._tables[family].get(key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return list(islice(self._tables[family].items(lo, hi), limit or None))

    def session(self, session_id: str) -> SessionRecord | None:
        return self.sessions.record(session_id)

    # ---- writing

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        if self._unwritten is not None:
            raise MisuseError("a record of a vnode is written while the one before it waits to be written again")
        built = Changes()
        self._add(changes, built)
        if steps:
            batch = Batch(0)
            batch.steps.extend(steps)
            stepped = Changes()
            self.sessions.add(batch, stepped)
            self._add(stepped, built)
        stored = [message for message in published if message.serial]
        if stored and self._messages is not None:
            self._messages.add(stored, built)
        self._unwritten = built
        self.retry()

    def retry(self) -> None:
        if self._unwritten is not None:
            if len(self._unwritten):
                self._engine.write(self._engine.written + 1, self._unwritten)
            self._unwritten = None

    def _add(self, changes: Changes, built: Changes) -> None:
        for name, family in changes.families():
            self._tables[name].add(family, built.into(CLUSTER))


def _table(engine: Engine, vnode: int, table: int) -> FamilySlice:
    return FamilySlice(engine, CLUSTER, vnode_keys.table_prefix(vnode, table))
