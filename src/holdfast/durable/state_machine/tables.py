"""The tables that records are decided by: read through a narrow contract, written together when a record is decided.

    family      rows                                                      formats
    ──────────  ────────────────────────────────────────────────────────  ─────────────────────────────────────────────
    cluster     writers, closed epochs, registrations, the clock, …       records/cluster/rows.py
    meta        heads of shards, generations, publish numbers             records/positions.py, generations.py, …
    retained    retained messages and their removals                      records/retained.py
    sessions    sessions; read by `session`, written by session steps     durable/sessions/session_store.py

The tables are those of one vnode. An implementation that keeps several vnodes in one place puts the vnode in front of
every key.

`TableChanges` is what a record has written so far, in front of the tables: its next item reads it. What it collects
goes to the database as one batch, with the messages and session steps of the same record.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Protocol

from holdfast.durable.changes import Changes, RangeEnd
from holdfast.durable.sessions.session_store import DropSession, KeepSession, MemorySessions, SessionStep
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.step_items import encode_session_step
from holdfast.model.errors import MisuseError
from holdfast.records.fields import blob
from holdfast.records.session.session_record import SessionRecord

#: Names of column families. Never change.
CLUSTER: Final = "cluster"
META: Final = "meta"
RETAINED: Final = "retained"


class StateTables(Protocol):
    """The tables of one vnode, as the last record that was written has left them."""

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value of a row; None if there is none."""

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first rows of [lo, hi) in the order of their keys, at most `limit`; 0 for all."""

    def session(self, session_id: str) -> SessionRecord | None:
        """A session itself, without what it has."""


class StateStore(StateTables, Protocol):
    """Tables that outcomes are written into."""

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        """Write rows, session steps in their order, and the messages that have a serial, as one batch.

        Requires: the batch before it is written.
        Ensures: all of it is there, or none; TransientError: nothing is there yet, `retry` writes the same batch.
        Survives: a killed process. A power loss takes the last batches; their records are read again.
        """

    def retry(self) -> None:
        """Write what `write` could not. Fails as it does. Without such a batch it does nothing."""


class TableChanges(StateTables):
    """The tables as the items decided so far leave them.

    1. `changes` and `steps` bring the tables into this state.
    2. `digested` has every change in its order, except those that carry out what was decided by an earlier record: when
       that happens may differ from node to node, and whatever is read is the same before and after it. The newest
       version is left out as well: no rule reads it.
    """

    def __init__(self, tables: StateTables) -> None:
        self._tables: Final = tables
        self._rows: Final[dict[tuple[str, bytes], bytes | None]] = {}
        #: Sessions that were changed or read so far: most items of a record are of few sessions.
        self._sessions: Final[dict[str, SessionRecord | None]] = {}
        self.changes: Final = Changes()
        self.steps: Final[list[SessionStep]] = []
        self.digested: Final[list[bytes]] = []

    def get(self, family: str, key: bytes) -> bytes | None:
        row = (family, key)
        if row in self._rows:
            return self._rows[row]
        return self._tables.get(family, key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        own = {key: value for (of, key), value in self._rows.items() if of == family and lo <= key < hi}
        if not own:
            return self._tables.scan(family, lo, hi, limit)
        # Each row of our own hides at most one below.
        found = dict(self._tables.scan(family, lo, hi, limit + len(own) if limit else 0))
        for key, value in own.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        rows = sorted(found.items())
        return rows[:limit] if limit else rows

    def session(self, session_id: str) -> SessionRecord | None:
        if session_id in self._sessions:
            return self._sessions[session_id]
        found = self._sessions[session_id] = self._tables.session(session_id)
        return found

    def put(self, family: str, key: bytes, value: bytes, *, digested: bool = True) -> None:
        self._rows[family, key] = value
        self.changes.into(family).put(key, value)
        if digested:
            self.digested.extend((family.encode(), blob(key), b"\x01", blob(value)))

    def delete(self, family: str, key: bytes) -> None:
        self._rows[family, key] = None
        self.changes.into(family).delete(key)
        self.digested.extend((family.encode(), blob(key), b"\x00"))

    def step(self, step: SessionStep, *, digested: bool = True) -> None:
        """Change a session."""
        if isinstance(step, KeepSession):
            self._sessions[step.client_id] = step.record
        elif isinstance(step, DropSession):
            self._sessions[step.client_id] = None
        self.steps.append(step)
        if digested:
            self.digested.extend((b"sessions", blob(step.client_id.encode()), blob(encode_session_step(step))))


class MemoryTables(StateStore):
    """Tables in dictionaries. Survives: nothing."""

    def __init__(self) -> None:
        self._families: Final[dict[str, dict[bytes, bytes]]] = {}
        #: The keys of a family in their order, from a scan until a key comes or goes.
        self._sorted: Final[dict[str, list[bytes]]] = {}
        self.sessions: Final = MemorySessions()
        #: The messages that were stored.
        self.messages: Final[list[PublishedMessage]] = []

    def get(self, family: str, key: bytes) -> bytes | None:
        return self._families.get(family, {}).get(key)

    def scan(self, family: str, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows = self._families.get(family, {})
        keys = self._sorted.get(family)
        if keys is None:
            keys = self._sorted[family] = sorted(rows)
        start = bisect_left(keys, lo)
        end = bisect_left(keys, hi, start)
        if limit and end > start + limit:
            end = start + limit
        return [(key, rows[key]) for key in keys[start:end]]

    def session(self, session_id: str) -> SessionRecord | None:
        return self.sessions.record(session_id)

    def write(self, changes: Changes, steps: Sequence[SessionStep], published: Sequence[PublishedMessage] = ()) -> None:
        for name, family in changes.families():
            rows = self._families.setdefault(name, {})
            for key, value in family.operations:
                if isinstance(value, RangeEnd):
                    raise MisuseError("a record writes no range")
                if (key in rows) != (value is not None):
                    self._sorted.pop(name, None)
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
        self.sessions.apply(steps)
        self.messages.extend([message for message in published if message.serial])

    def retry(self) -> None:
        return

    def rows(self) -> dict[tuple[str, bytes], bytes]:
        """Every row there is, for comparing two tables."""
        return {(name, key): value for name, rows in self._families.items() for key, value in rows.items()}
