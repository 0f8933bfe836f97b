"""Rules 2, 3 and 9: which records of a node count, and which of its epochs are closed.

An epoch is one life of a node. `Closed(node, before)` closes every epoch of that node below `before`, from its own
record on. A record of a higher epoch closes the lower ones in the same way.

1. A closing is one row, `(node, before)` with its time, and is never changed or taken back. An epoch is closed by the
   row with the lowest `before` above it, so that a later closing does not move the time of an earlier one.
2. A closing that adds nothing, because an equal or higher `before` is there, changes nothing.
3. A closing costs one row, however many clients the node had: what it means for them is worked out later
   (`closing.py`).
"""

from typing import Final

from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, GAP, REPEATED
from holdfast.durable.state_machine.tables import CLUSTER, StateTables, TableChanges
from holdfast.records.cluster.record import ClusterRecord
from holdfast.records.cluster.rows import (
    HOLDERS_KEY,
    closed_above,
    closed_key,
    decode_closed,
    decode_holders,
    decode_writer,
    encode_closed,
    encode_writer,
    writer_key,
)

#: No time: the epoch is not closed.
OPEN: Final = -1


def closed_at(tables: StateTables, node: int, epoch: int) -> int:
    """The record time at which an epoch was closed; OPEN if it is not."""
    lo, hi = closed_above(node, epoch)
    rows = tables.scan(CLUSTER, lo, hi, 1)
    return decode_closed(rows[0][1]) if rows else OPEN


def judge_record(tables: StateTables, record: ClusterRecord) -> str:
    """Rules 2 and 3: APPLIED, or why a record does not count. One that does not count changes nothing."""
    if closed_at(tables, record.node, record.epoch) != OPEN or _is_unnamed(tables, record):
        return CLOSED_EPOCH
    value = tables.get(CLUSTER, writer_key(record.node))
    epoch, number = (0, 0) if value is None else decode_writer(value)
    if record.epoch < epoch:
        return CLOSED_EPOCH
    if record.epoch > epoch:
        number = 0
    if record.number <= number:
        return REPEATED
    return APPLIED if record.number == number + 1 else GAP


def _is_unnamed(tables: StateTables, record: ClusterRecord) -> bool:
    """Whether the vnode's holders were decided without this node, in this epoch of it or a later one."""
    value = tables.get(CLUSTER, HOLDERS_KEY)
    if value is None:
        return False
    control, nodes = decode_holders(value)
    return record.node not in nodes and record.epoch < control


class Epochs:
    """Epochs while a record is decided. Lookups are kept for as long: most items ask for the epoch of their writer."""

    def __init__(self, tables: TableChanges, time_us: int) -> None:
        self._tables: Final = tables
        self._time_us: Final = time_us
        self._known: Final[dict[tuple[int, int], int]] = {}

    def enter(self, record: ClusterRecord) -> None:
        """The record counts: note its number, and close the epochs below its own.

        Requires: `judge_record` said so.
        """
        value = self._tables.get(CLUSTER, writer_key(record.node))
        if value is not None and decode_writer(value)[0] < record.epoch:
            self.close(record.node, record.epoch)
        self._tables.put(CLUSTER, writer_key(record.node), encode_writer(record.epoch, record.number))
        self._known[record.node, record.epoch] = OPEN  # else it would not have come here

    def closed_at(self, node: int, epoch: int) -> int:
        found = self._known.get((node, epoch))
        if found is None:
            found = self._known[node, epoch] = closed_at(self._tables, node, epoch)
        return found

    def close(self, node: int, before: int) -> bool:
        """Rule 9; whether that has closed an epoch."""
        if before < 1 or self.closed_at(node, before - 1) != OPEN:
            return False
        self._tables.put(CLUSTER, closed_key(node, before), encode_closed(self._time_us))
        self._known.clear()
        return True
