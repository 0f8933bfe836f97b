"""Rule 10, and what counts from the leader alone: assignments of groups.

The leader of a vnode proposes what time brings about, and decides nothing: each of its proposals has a condition. So a
leader that was replaced, and does not know it, can do no harm, and one that sleeps is replaced after 15 s of record
time. `Lead` counts as its first `Tick`.

The stored progress of a group stays when the group ends, so that its assignments can still go.
"""

from typing import Final

from holdfast.durable.state_machine.epochs import OPEN
from holdfast.durable.state_machine.outcome import AssignedPlace
from holdfast.durable.state_machine.scope import Scope
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.items import Assign, Unassign
from holdfast.records.cluster.rows import (
    LEADER_KEY,
    AssignmentRow,
    LeaderRow,
    assignment_key,
    decode_group_progress,
    decode_leader,
    encode_assignment,
    encode_group_progress,
    encode_leader,
    group_progress_key,
)

#: A leader that wrote no `Tick` for so long applies nothing: three that are missing.
SILENCE_US: Final = 15 * SECOND_US


class Leadership:
    """The leader of a vnode, and its groups, while a record is decided."""

    def __init__(self, scope: Scope) -> None:
        self._scope: Final = scope

    def _leader(self) -> LeaderRow | None:
        """Who leads; None if it has resigned, or its epoch is closed."""
        value = self._scope.tables.get(CLUSTER, LEADER_KEY)
        if value is None:
            return None
        row = decode_leader(value)
        return row if self._scope.epochs.closed_at(row.node, row.epoch) == OPEN else None

    def is_leader(self) -> bool:
        """Whether the record's writer leads."""
        row = self._leader()
        return row is not None and self._scope.is_writer(row.node, row.epoch)

    def revision(self) -> int:
        """The revision of the leader's `Lead`; 0 if no node leads."""
        row = self._leader()
        return 0 if row is None else row.revision

    def lead(self, index: int) -> bool:
        row = self._leader()
        scope = self._scope
        if row is not None and scope.time_us < row.tick_us + SILENCE_US:
            return False
        record = scope.record
        self._put(LeaderRow(record.node, record.epoch, scope.revision(index), scope.time_us))
        scope.outcome.leader_changed = True
        return True

    def resign(self) -> bool:
        if not self.is_leader():
            return False
        self._scope.tables.delete(CLUSTER, LEADER_KEY)
        self._scope.outcome.leader_changed = True
        return True

    def tick(self) -> bool:
        row = self._leader()
        if row is None or not self._scope.is_writer(row.node, row.epoch):
            return False
        self._put(LeaderRow(row.node, row.epoch, row.revision, self._scope.time_us))
        return True

    def _put(self, row: LeaderRow) -> None:
        self._scope.tables.put(CLUSTER, LEADER_KEY, encode_leader(row))

    # ---- groups

    def keep_progress(self, group: str, sent: dict[int, int]) -> None:
        """How far a group has come; of its assignments only those below may go."""
        self._scope.tables.put(CLUSTER, group_progress_key(group), encode_group_progress(sent))

    def assign(self, index: int, item: Assign) -> bool:
        """A place is assigned once. Requires: the leader asks."""
        tables = self._scope.tables
        if item.position_us < 0:
            return False
        key = assignment_key(item.group, item.shard, item.position_us)
        if tables.get(CLUSTER, key) is not None:
            return False
        row = AssignmentRow(item.member, item.member_revision, self._scope.revision(index))
        tables.put(CLUSTER, key, encode_assignment(row))
        self._scope.outcome.assigned.append(AssignedPlace(item.group, (item.shard, item.position_us), row))
        return True

    def unassign(self, item: Unassign) -> bool:
        """Up to the group's stored progress alone: a new leader dispatches everything above.

        Requires: the leader asks.
        """
        tables = self._scope.tables
        value = tables.get(CLUSTER, group_progress_key(item.group))
        sent = {} if value is None else decode_group_progress(value)
        if not 0 <= item.position_us <= sent.get(item.shard, -1):
            return False
        key = assignment_key(item.group, item.shard, item.position_us)
        if tables.get(CLUSTER, key) is None:
            return False
        tables.delete(CLUSTER, key)
        self._scope.outcome.unassigned.append((item.group, (item.shard, item.position_us)))
        return True
