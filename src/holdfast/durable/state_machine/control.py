"""The state machine of the control log: (tables, entry of the log) → outcome. Who is in the cluster, and who lives.

1. The first `Found` founds the cluster. A record before it counts for nothing.
2. Records that are no record of this cluster, or cannot be read: as in a vnode (`machine.py`, rule 1).
3. `Join` begins an epoch of its node, whose number is its own sequence, and closes the one before. It is passed over
   if it repeats the life that the node has, and refused

   - behind a join that its writer had not seen: it is late, and that node has begun a newer life;
   - with another data folder than the node has, while that node lives: two nodes have one number;
   - as `linear` beside a member that is `eventual` and lives, and the other way round: they decide by different rules.

4. Any other record counts if it is of the last epoch of its node, that epoch is not closed, and it has the next number.
   So who is fenced fences no node, and of two nodes that fence each other one stays.
5. `Fence(node, epoch, since)` closes that epoch if it is the last one of the node, and no beat of it stands behind
   `since`; its join counts as its first beat. A node does not fence itself.
6. `Leave` closes the epoch of its writer.
7. A closed epoch stays closed: only a join begins another one.
8. `Snapshot(at, digest, rows)` counts if it stands directly behind `at`, and has the digest and all rows of the tables
   there. The log may be trimmed before it: a node that has applied less begins with its rows.
9. Leases and erasures are decided in `job_records.py`.

A vnode hears of a closed epoch by a `Closed(node, before)` in its own log, which any node may write.

There is no clock here: how long a node was silent is for the node that fences it to say
(`cluster/membership/membership.py`).
"""

from typing import Final
from zlib import crc32

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.job_records import keep_job
from holdfast.durable.state_machine.machine import applied_row, chain_digest
from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, FOREIGN, GAP, REPEATED, Outcome
from holdfast.durable.state_machine.tables import CLUSTER, StateTables, TableChanges
from holdfast.model.errors import MisuseError
from holdfast.records.cluster.control import (
    EVENTUAL,
    LINEAR,
    Beat,
    ControlRecord,
    Fence,
    Found,
    Join,
    Snapshot,
    decode_control,
)
from holdfast.records.cluster.control_rows import (
    FENCED,
    FOUNDED_KEY,
    LEFT,
    SNAPSHOT_KEY,
    BeatRow,
    FoundedRow,
    MemberRow,
    beat_key,
    decode_beat_row,
    decode_founded,
    decode_member,
    decode_snapshot_row,
    encode_beat_row,
    encode_founded,
    encode_member,
    encode_snapshot_row,
    member_key,
    members_range,
    node_of_member,
)
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem
from holdfast.records.cluster.rows import (
    APPLIED_KEY,
    INCARNATION_KEY,
    AppliedRow,
    decode_writer,
    encode_applied_row,
    encode_writer,
    writer_key,
)

#: The range [lo, hi) of all rows.
_ALL_ROWS: Final = (b"\x00", b"\xff")


class ControlOutcome(Outcome):
    """What became of an entry of the control log. `accepted` has one entry if the record was applied."""

    def __init__(self, sequence: int, verdict: str, record: ControlRecord | None) -> None:
        super().__init__(sequence, verdict)
        self.record: Final = record
        #: Why a join is refused; empty otherwise.
        self.refusal = ""
        #: The node whose epochs below a sequence this record has closed: (node, before); None if it has closed none.
        self.closed: tuple[int, int] | None = None
        #: The sequence of the snapshot before this one, if it is one that counts: the log may be trimmed before that.
        self.trim_before = 0

    @property
    def counts(self) -> bool:
        """Whether the record has changed something."""
        return self.verdict == APPLIED and self.accepted[0]


# ---- what the tables say


def founded_row(tables: StateTables) -> FoundedRow | None:
    """The cluster; None if nothing of it was applied yet."""
    value = tables.get(CLUSTER, FOUNDED_KEY)
    return None if value is None else decode_founded(value)


def member_row(tables: StateTables, node: int) -> MemberRow | None:
    """The last life of a node; None if it never joined."""
    value = tables.get(CLUSTER, member_key(node))
    return None if value is None else decode_member(value)


def all_members(tables: StateTables) -> dict[int, MemberRow]:
    """Every node that ever joined, by number."""
    return {node_of_member(key): decode_member(value) for key, value in tables.scan(CLUSTER, *members_range(), 0)}


def last_beat(tables: StateTables, node: int) -> BeatRow | None:
    """The last beat in the last life of a node."""
    value = tables.get(CLUSTER, beat_key(node))
    return None if value is None else decode_beat_row(value)


def last_sign(tables: StateTables, node: int, member: MemberRow) -> int:
    """The sequence of the last beat of a member, or of its join."""
    beat = last_beat(tables, node)
    return member.epoch if beat is None else beat.sequence


def last_snapshot(tables: StateTables) -> int:
    """The sequence of the last snapshot that counts; 0 if there is none."""
    value = tables.get(CLUSTER, SNAPSHOT_KEY)
    return 0 if value is None else decode_snapshot_row(value)


def state_rows(tables: StateTables) -> tuple[tuple[bytes, bytes], ...]:
    """All rows of the control log but those of a node's place in it."""
    rows = tables.scan(CLUSTER, *_ALL_ROWS, 0)
    return tuple([row for row in rows if row[0] not in (APPLIED_KEY, INCARNATION_KEY)])


# ---- deciding


class ControlMachine:
    """Decides the entries of the control log. It remembers nothing."""

    def __init__(self, cluster_id: bytes, tables: StateTables) -> None:
        self._cluster_id: Final = cluster_id
        self._tables: Final = tables

    def apply(self, entry: LogEntry) -> Outcome:
        """Decide the next entry of the log: a `ControlOutcome`.

        Requires: it is the one behind the last that was applied, and that one's outcome is written; MisuseError
            otherwise.
        Ensures: nothing is written; the outcome has every change, the applied sequence and the digest among them.
        Raises PermanentError for a record of this cluster that cannot be read: the log has to stop here.
        """
        applied = applied_row(self._tables)
        if entry.sequence != applied.sequence + 1:
            raise MisuseError(f"entry {entry.sequence} does not follow {applied.sequence}, the last that was applied")
        record = decode_control(entry.record, self._cluster_id)
        verdict = FOREIGN if record is None else _judge(self._tables, record)
        outcome = ControlOutcome(entry.sequence, verdict, record)
        tables = TableChanges(self._tables)
        if record is not None and verdict == APPLIED:
            if isinstance(record.item, Snapshot):
                outcome.accepted.append(_snapshot(self._tables, tables, entry.sequence, record, outcome))
            else:
                outcome.accepted.append(_apply_item(tables, entry, record, outcome))
        checksum = crc32(entry.record) if record is None else record.checksum
        outcome.digest = chain_digest(applied.digest, checksum, outcome, tables)
        tables.put(CLUSTER, APPLIED_KEY, encode_applied_row(AppliedRow(entry.sequence, checksum, outcome.digest)))
        outcome.changes = tables.changes
        return outcome


def _judge(tables: StateTables, record: ControlRecord) -> str:
    """APPLIED, or why a record does not count. One that does not count changes nothing."""
    founded = tables.get(CLUSTER, FOUNDED_KEY) is not None
    if isinstance(record.item, Found):
        return REPEATED if founded else APPLIED
    if not founded:
        return FOREIGN
    member = member_row(tables, record.node)
    if isinstance(record.item, Join):
        return REPEATED if member is not None and member.join.life == record.item.life else APPLIED
    if member is None or member.epoch != record.epoch or not member.lives:
        return CLOSED_EPOCH
    value = tables.get(CLUSTER, writer_key(record.node))
    epoch, number = (0, 0) if value is None else decode_writer(value)
    if epoch != record.epoch:
        number = 0
    if record.number <= number:
        return REPEATED
    return APPLIED if record.number == number + 1 else GAP


def _apply_item(tables: TableChanges, entry: LogEntry, record: ControlRecord, outcome: ControlOutcome) -> bool:
    item = record.item
    if isinstance(item, Found):
        row = FoundedRow(entry.sequence, record.cluster_id, item)
        tables.put(CLUSTER, FOUNDED_KEY, encode_founded(row))
        return True
    if isinstance(item, Join):
        return _join(tables, entry.sequence, record.node, item, outcome)
    tables.put(CLUSTER, writer_key(record.node), encode_writer(record.epoch, record.number))
    if isinstance(item, Beat):
        beat = BeatRow(entry.sequence, entry.stamp_us, record.time_us, item)
        tables.put(CLUSTER, beat_key(record.node), encode_beat_row(beat))
        return True
    if isinstance(item, Fence):
        return item.node != record.node and _fence(tables, entry.sequence, item, outcome)
    if isinstance(item, (LeaseItem, ErasureItem)):
        return keep_job(tables, entry.sequence, item)
    return _close(tables, entry.sequence, record.node, LEFT, outcome)


def _snapshot(
    before: StateTables, tables: TableChanges, sequence: int, record: ControlRecord, outcome: ControlOutcome
) -> bool:
    item = record.item
    assert isinstance(item, Snapshot)
    tables.put(CLUSTER, writer_key(record.node), encode_writer(record.epoch, record.number))
    if item.at != sequence - 1 or item.digest != applied_row(before).digest or item.rows != state_rows(before):
        return False
    outcome.trim_before = last_snapshot(before)
    tables.put(CLUSTER, SNAPSHOT_KEY, encode_snapshot_row(sequence))
    return True


def _join(tables: TableChanges, sequence: int, node: int, join: Join, outcome: ControlOutcome) -> bool:
    known = member_row(tables, node)
    outcome.refusal = _refusal(tables, node, join, known)
    if outcome.refusal:
        return False
    tables.put(CLUSTER, member_key(node), encode_member(MemberRow(sequence, join)))
    if known is not None:
        tables.delete(CLUSTER, beat_key(node))
        if known.lives:
            outcome.closed = (node, sequence)
    return True


def _refusal(tables: TableChanges, node: int, join: Join, known: MemberRow | None) -> str:
    """Why a join does not count; empty if it does."""
    if node == 0:
        return "0 is no number of a node"
    if known is not None and known.epoch > join.after:
        return f"node {node} has joined at {known.epoch}, which was not known at {join.after}"
    if known is not None and known.lives and known.join.folder_id != join.folder_id:
        return (
            f"node {node} lives, as {known.join.name!r} with the data folder {known.join.folder_id.hex()}; give this "
            "node another number, or stop that one"
        )
    for other, member in all_members(tables).items():
        if other != node and member.lives and {member.join.mode, join.mode} == {LINEAR, EVENTUAL}:
            return f"node {other} lives with another registry.mode; go from one to the other by 'both'"
    return ""


def _fence(tables: TableChanges, sequence: int, fence: Fence, outcome: ControlOutcome) -> bool:
    member = member_row(tables, fence.node)
    if member is None or member.epoch != fence.epoch or last_sign(tables, fence.node, member) > fence.since:
        return False
    return _close(tables, sequence, fence.node, FENCED, outcome)


def _close(tables: TableChanges, sequence: int, node: int, reason: int, outcome: ControlOutcome) -> bool:
    """Close the last epoch of a node; whether it was open."""
    member = member_row(tables, node)
    if member is None or not member.lives:
        return False
    tables.put(CLUSTER, member_key(node), encode_member(MemberRow(member.epoch, member.join, sequence, reason)))
    outcome.closed = (node, sequence)
    return True
