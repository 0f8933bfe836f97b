"""The control log from a snapshot on: how a node follows a log whose beginning was trimmed.

A control log is trimmed before a snapshot that counts, and before no other record (`membership`). So it begins with
its founding, or with a snapshot, which has the tables of the record before it. A node that has applied less takes these
tables for its own, and goes on with the snapshot itself. It misses nothing: which epochs are closed stands in the rows
of members.
"""

import asyncio
from typing import Final

import structlog

from holdfast.cluster.vnodes.applier import RETRY_S, ApplierStop, VnodeApplier
from holdfast.durable.changes import Changes
from holdfast.durable.ordered_log import FIRST_SEQUENCE, LogEnds, LogEntry, OrderedLog
from holdfast.durable.state_machine.control import state_rows
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import CLUSTER, StateStore
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.control import Snapshot, read_snapshot
from holdfast.records.cluster.rows import (
    APPLIED_KEY,
    INCARNATION_KEY,
    AppliedRow,
    encode_applied_row,
    encode_incarnation,
)

_log = structlog.get_logger()


class ControlApplier(VnodeApplier):
    """The applier of the control log: one that was trimmed is followed from its snapshot on."""

    async def run(self) -> ApplierStop:
        while True:
            try:
                self._store.retry()
                await install_snapshot(self._source, self._store)
                break
            except TransientError as error:
                _log.warning("the control log does not answer", why=str(error))
            except PermanentError as damage:
                # The applier says what is missing, and stops.
                _log.error("the control log begins with no snapshot", why=str(damage))
                break
            await self._wait(RETRY_S)
        self.place = applied_row(self._store)
        return await super().run()


async def install_snapshot(log: OrderedLog, store: StateStore) -> bool:
    """Take the tables of the snapshot that a log begins with, if those of the store are behind it; whether they were.

    Tables of another incarnation are left alone: the log has lost what was applied here, and that is not for a node to
    repair by itself. TransientError: the log does not answer, or the tables cannot be written now. PermanentError: it
    begins with no snapshot, or with one that cannot be read.
    """
    ends = await log.ends()
    if ends.first == FIRST_SEQUENCE or applied_row(store).sequence >= ends.first - 1:
        return False
    incarnation = encode_incarnation(ends.incarnation)
    if store.get(CLUSTER, INCARNATION_KEY) not in (None, incarnation):
        return False
    snapshot = await first_snapshot(log, ends)
    changes = Changes()
    family = changes.into(CLUSTER)
    for key, _value in state_rows(store):
        family.delete(key)
    for key, value in snapshot.rows:
        family.put(key, value)
    family.put(APPLIED_KEY, encode_applied_row(AppliedRow(snapshot.at, 0, snapshot.digest)))
    family.put(INCARNATION_KEY, incarnation)
    store.write(changes, ())
    _log.info("the control log is followed from a snapshot on", applied=snapshot.at)
    return True


async def first_snapshot(log: OrderedLog, ends: LogEnds) -> Snapshot:
    """The snapshot that a trimmed log begins with. It fails as `install_snapshot` does."""
    reader = _FirstEntry()
    reading = log.read(ends.first, reader)
    try:
        entry = await reader.found
    finally:
        reading.close()
    record = read_snapshot(entry.record)
    if record is None or not isinstance(record.item, Snapshot) or record.item.at != entry.sequence - 1:
        raise PermanentError(f"the control log was trimmed, and begins with {entry.sequence}, which is no snapshot")
    return record.item


class _FirstEntry:
    """A `LogReader` of one entry."""

    def __init__(self) -> None:
        self.found: Final[asyncio.Future[LogEntry]] = asyncio.get_running_loop().create_future()

    def entries(self, entries: list[LogEntry]) -> None:
        if not self.found.done():
            self.found.set_result(entries[0])

    def stopped(self, why: str) -> None:
        if not self.found.done():
            self.found.set_exception(TransientError(f"the control log does not lead on: {why}"))
