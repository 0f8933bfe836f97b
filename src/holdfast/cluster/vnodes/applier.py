"""The applier of a vnode: follows its ordered log, and writes what each record decides as one batch.

    log ──▶ queue ──▶ state machine ──▶ one batch: rows, session steps, messages, applied, digest ──▶ listener

1. Entries are applied in the order of the log, each once: the applied sequence is in the batch of its record. A batch
   waits for no sync; what a crash takes is read again, and decided as before.
2. The listener is told of an outcome after it is written, in order. An entry that was applied before a crash, or before
   the log was read again, is not told again.
3. Reading begins **at** the applied entry, whose checksum is compared, and then skipped. An entry whose successor is
   the first that the log keeps cannot be compared; the log's incarnation was.
4. The applier stops, for good and with a reason, rather than skip or guess: see `ApplierStop`.
5. A batch that cannot be written now is written later, before anything else; meanwhile the log is not read.
6. Closings are carried out in slices between records: after each one, and while there is nothing else to do. A start
   begins with all registrations, since a slice of an earlier run may be missing.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from holdfast.durable.ordered_log import (
    INSTALL,
    LOST,
    AppliedPlace,
    LogEnds,
    LogEntry,
    LogReading,
    OrderedLog,
    compare,
)
from holdfast.durable.state_machine.closing import close_slice
from holdfast.durable.state_machine.machine import StateMachine, applied_row, checksum_of
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import CLUSTER, StateStore, StateTables
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.rows import (
    INCARNATION_KEY,
    AppliedRow,
    decode_incarnation,
    encode_incarnation,
    is_closed_key,
)

_log = structlog.get_logger()

#: A record of this cluster, or a row of the vnode, cannot be read.
UNREADABLE: Final = "unreadable"

#: Before a log that did not answer, or a batch that was not written, is tried again.
RETRY_S: Final = 1.0
#: Records that are applied before other work of the loop comes in between: a few milliseconds.
_RECORDS_AT_ONCE: Final = 32
#: Entries that wait. With more, the log is read again from the applied place when they are done.
_MAX_QUEUED: Final = 1024
#: Registrations that a slice looks at: below a millisecond.
_SLICE: Final = 100


@dataclass(frozen=True)
class ApplierStop:
    """Why a vnode is applied no further. Nothing of it may be acknowledged from here on.

    INSTALL: the log begins behind what is applied here; a checkpoint of another node has to be installed.
    LOST: the log does not have what was applied here: it is shorter, another one, or has other records.
    UNREADABLE: the next record, or a row that it needs, is damaged or of a later version, or cannot be stored here.
    """

    reason: str
    why: str


class OutcomeListener(Protocol):
    """Who waits for what becomes of records. Called on the loop; it may append to the log."""

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        """An entry was applied, and its outcome is written."""

    def stopped(self, stop: ApplierStop) -> None:
        """No entry follows."""


class LogMachine(Protocol):
    """Decides the entries of a log: the state machine of vnodes, or that of the control log."""

    def apply(self, entry: LogEntry) -> Outcome:
        """Decide the next entry. PermanentError: it cannot be read, and the log is not applied any further."""


def applied_place(store: StateTables) -> AppliedPlace:
    """Up to where a log is applied to tables. PermanentError: the rows that say so cannot be read."""
    row, value = applied_row(store), store.get(CLUSTER, INCARNATION_KEY)
    return AppliedPlace(row.sequence, row.checksum, "" if value is None else decode_incarnation(value))


def describe_places(here: AppliedPlace, ends: LogEnds) -> str:
    return (
        f"applied here is {here.sequence} of the log {here.incarnation!r}; "
        f"there is {ends.first} to {ends.last} of the log {ends.incarnation!r}"
    )


class VnodeApplier:
    """A `LogReader` by shape. `run` is its whole life. With another machine it applies the control log."""

    def __init__(
        self,
        log: OrderedLog,
        cluster_id: bytes,
        store: StateStore,
        listener: OutcomeListener,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        machine: LogMachine | None = None,
    ) -> None:
        """Without a `machine` it is that of a vnode."""
        self._source: Final = log
        self._cluster_id: Final = cluster_id
        self._store: Final = store
        self._listener: Final = listener
        self._wait: Final = wait
        self._machine: Final[LogMachine] = machine or StateMachine(cluster_id, store)
        self._queue: Final[deque[LogEntry]] = deque()
        self._changed: Final = asyncio.Event()
        self._reading: LogReading | None = None
        #: Whether the reading goes on.
        self._follows = False
        self._busy = False
        #: What the store has to write first; None for a slice.
        self._unwritten: tuple[LogEntry, Outcome] | None = None
        self._stalled = False
        #: Behind which session id the next slice begins; None if there is nothing to carry out.
        self._slice_after: str | None = ""
        self._incarnation = ""
        self.place: AppliedRow = applied_row(store)
        self.stop: ApplierStop | None = None

    @property
    def last_read(self) -> int:
        """The last sequence that has been read."""
        return self._queue[-1].sequence if self._queue else self.place.sequence

    async def run(self) -> ApplierStop:
        """Apply the log until it cannot be applied any further. Cancel it to end it before."""
        try:
            while self.stop is None:
                await self._follow()
        finally:
            self._close_reading()
        return self.stop

    async def _follow(self) -> None:
        """Read the log from the applied place until reading ends or the store has to be tried again."""
        if self._stalled:
            await self._wait(RETRY_S)
            self._retry()
            return
        try:
            ends = await self._source.ends()
        except TransientError as error:
            _log.warning("the log of a vnode does not answer", why=str(error))
            await self._wait(RETRY_S)
            return
        try:
            here = applied_place(self._store)
            found = compare(here, ends)
        except PermanentError as damage:
            self._stop_at(UNREADABLE, f"the incarnation of the log that was applied: {damage}")
            return
        except TransientError as error:
            self._stall(error)
            return
        if found in (INSTALL, LOST):
            self._stop_at(found, describe_places(here, ends))
            return
        before = self.place.sequence
        self._incarnation = ends.incarnation
        self._follows = True
        reading = self._source.read(max(self.place.sequence, ends.first), self)
        if self._follows:
            self._reading = reading
        else:
            # It ended inside the call.
            reading.close()
        await self._work()
        if self.stop is None and not self._stalled and self.place.sequence == before:
            await self._wait(RETRY_S)

    async def _work(self) -> None:
        """What is left to do between entries, until reading has ended and all entries that came are applied."""
        while self.stop is None and not self._stalled and (self._follows or self._queue):
            self._changed.clear()
            if self._queue:
                self._drain()
            elif self._slice_after is not None:
                self._close_slice()
            else:
                await self._changed.wait()
                continue
            await asyncio.sleep(0)

    # ---- the reader

    def entries(self, entries: list[LogEntry]) -> None:
        if not self._follows:
            return
        self._queue.extend(entries)
        self._changed.set()
        if len(self._queue) > _MAX_QUEUED:
            self._close_reading()
        if not self._busy:
            self._drain()

    def stopped(self, why: str) -> None:
        _log.info("the log of a vnode does not lead on", applied=self.place.sequence, why=why)
        self._close_reading()

    def _close_reading(self) -> None:
        self._follows = False
        self._changed.set()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    # ---- entries

    def _drain(self) -> None:
        """Apply entries that wait. A listener may cause further ones: they come behind these."""
        self._busy = True
        try:
            for _record in range(_RECORDS_AT_ONCE):
                if not self._queue or self._is_held():
                    break
                self._take(self._queue.popleft())
                if self._slice_after is not None and not self._is_held():
                    self._close_slice()
        finally:
            self._busy = False

    def _is_held(self) -> bool:
        """Whether nothing is applied now. A separate method: `_take` changes what a caller has looked at before."""
        return self._stalled or self.stop is not None

    def _take(self, entry: LogEntry) -> None:
        if entry.sequence == self.place.sequence:
            checksum = checksum_of(entry.record, self._cluster_id)
            if checksum != self.place.checksum:
                here = f"its checksum is {checksum:08x}, not {self.place.checksum:08x}"
                self._stop_at(LOST, f"record {entry.sequence} is not the one that was applied here: {here}")
            return
        try:
            outcome = self._machine.apply(entry)
        except PermanentError as damage:
            self._stop_at(UNREADABLE, f"record {entry.sequence} cannot be applied: {damage}")
            return
        except TransientError as error:
            # The tables cannot be read while their database is opened again: the entry is read and decided once more.
            self._stall(error)
            return
        if self._store.get(CLUSTER, INCARNATION_KEY) is None:
            outcome.changes.into(CLUSTER).put(INCARNATION_KEY, encode_incarnation(self._incarnation))
        self._unwritten = entry, outcome
        try:
            self._store.write(outcome.changes, outcome.steps, outcome.published)
        except TransientError as error:
            self._stall(error)
        except PermanentError as damage:
            self._unwritten = None
            self._stop_at(UNREADABLE, f"record {entry.sequence} cannot be stored here: {damage}")
        else:
            self._written()

    def _written(self) -> None:
        """What was unwritten is written now."""
        if self._unwritten is None:
            return
        (entry, outcome), self._unwritten = self._unwritten, None
        self.place = applied_row(self._store)
        if any(is_closed_key(key) for key, _value in outcome.changes.into(CLUSTER).operations):
            self._slice_after = ""
        self._listener.applied(entry, outcome)

    # ---- slices

    def _close_slice(self) -> None:
        assert self._slice_after is not None
        try:
            changes, after = close_slice(self._store, self._slice_after, _SLICE)
        except PermanentError as damage:
            self._stop_at(UNREADABLE, f"a closed epoch cannot be carried out: {damage}")
            return
        except TransientError as error:
            self._stall(error)
            return
        self._slice_after = after or None
        try:
            self._store.write(changes.changes, changes.steps)
        except TransientError as error:
            self._stall(error)

    # ---- what goes wrong

    def _stall(self, error: TransientError) -> None:
        _log.warning("a vnode waits for its database", applied=self.place.sequence, why=str(error))
        self._stalled = True
        self._queue.clear()
        self._close_reading()

    def _retry(self) -> None:
        try:
            self._store.retry()
        except TransientError:
            return
        _log.info("a vnode goes on", applied=self.place.sequence)
        self._stalled = False
        self._written()

    def _stop_at(self, reason: str, why: str) -> None:
        _log.error("a vnode is applied no further", reason=reason, applied=self.place.sequence, why=why)
        self.stop = ApplierStop(reason, why)
        self._close_reading()
        self._listener.stopped(self.stop)
