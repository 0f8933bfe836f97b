"""The founding of a cluster: the first record of its control log, which names the cluster and its vnodes.

`holdfast cluster init` writes it, once. A node waits for it, and writes none: two nodes that found no record would
begin two clusters.
"""

import asyncio
from typing import Final

from holdfast.cluster.membership.control_snapshot import first_snapshot
from holdfast.durable.ordered_log import FIRST_SEQUENCE, LogEntry, OrderedLog
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.control import ControlRecord, Found, encode_control, read_founding
from holdfast.records.cluster.control_rows import FOUNDED_KEY, FoundedRow, decode_founded


async def find_founding(log: OrderedLog, *, wait: bool = False) -> FoundedRow | None:
    """The founding of a control log. Without one: None, or with `wait` the first that comes.

    TransientError: the log does not answer, or has changed meanwhile. PermanentError: it begins with a record that this
    Holdfast cannot read, or was trimmed and does not begin with a snapshot.
    """
    ends = await log.ends()
    if ends.first > FIRST_SEQUENCE:
        rows = dict((await first_snapshot(log, ends)).rows)
        if FOUNDED_KEY not in rows:
            raise PermanentError(f"the control log begins with {ends.first}, a snapshot without a founding")
        return decode_founded(rows[FOUNDED_KEY])
    if ends.last < ends.first and not wait:
        return None
    reader = _FoundingReader(None if wait else ends.last)
    reading = log.read(ends.first, reader)
    try:
        return await reader.found
    finally:
        reading.close()


async def found_cluster(log: OrderedLog, cluster_id: bytes, found: Found, clock: Clock) -> tuple[FoundedRow, bool]:
    """The founding of a control log, which is written if there is none; and whether this one is it.

    Whoever writes at the same time finds the same one: the first in the log. It fails as `find_founding` does.
    """
    there = await find_founding(log)
    if there is None:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        record = encode_control(ControlRecord(cluster_id, 0, 0, 0, clock.wall_us(), found))
        # The log tells whether it is there; an answer alone would not say whose came first.
        log.append(record, lambda _result: answered.set_result(None))
        await answered
        there = await find_founding(log)
    if there is None:
        raise TransientError("the control log has not taken the founding of the cluster; run the command again")
    return there, there.cluster_id == cluster_id


class _FoundingReader:
    """A `LogReader` that looks for the founding, up to a sequence if one is given."""

    def __init__(self, last: int | None) -> None:
        self._last: Final = last
        self.found: Final[asyncio.Future[FoundedRow | None]] = asyncio.get_running_loop().create_future()

    def entries(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            if self.found.done():
                return
            try:
                record = read_founding(entry.record)
            except PermanentError as error:
                self.found.set_exception(PermanentError(f"record {entry.sequence} of the control log: {error}"))
                return
            if record is not None and isinstance(record.item, Found):
                self.found.set_result(FoundedRow(entry.sequence, record.cluster_id, record.item))
            elif entry.sequence == self._last:
                self.found.set_result(None)

    def stopped(self, why: str) -> None:
        if not self.found.done():
            self.found.set_exception(TransientError(f"the control log does not lead on: {why}"))
