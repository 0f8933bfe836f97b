"""The groups of all vnodes as this node has applied them: which stand, whom they list, which messages are whose."""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.cluster.groups.assigned_work import Assignment, AssignmentName
from holdfast.cluster.groups.led_group import MemberName, Place
from holdfast.durable.sessions.session_store import (
    DropMember,
    DropSession,
    KeepGroup,
    KeepMember,
    KeepSession,
    SessionStep,
    SessionStore,
)
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import CLUSTER, StateTables
from holdfast.records.cluster.rows import (
    AssignmentRow,
    assigned_place,
    assignments,
    decode_assignment,
    group_of_progress,
    groups_progress,
)
from holdfast.records.session.groups import GROUP_PREFIX, GroupRecord


def format_member(name: MemberName) -> str:
    """A member as its group lists it in a cluster. U+0000 is in no client id."""
    return f"{name[0]}\0{name[1]:x}"


def parse_member(member: str) -> MemberName:
    session_id, _separator, revision = member.rpartition("\0")
    return session_id, int(revision, 16)


class StandingGroups:
    """Requires: `load` for each vnode, and `applied` for every record behind that."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """`changed` is told of groups that list less than before."""
        self._changed: Final = changed
        self._listed: Final[dict[str, set[MemberName]]] = {}
        self._records: Final[dict[str, GroupRecord]] = {}
        #: By session, the assignments that are not settled; and by group and place, whose they are.
        self._assigned_to: Final[dict[str, dict[AssignmentName, Assignment]]] = {}
        self.assigned_at: Final[dict[tuple[str, Place], tuple[str, AssignmentName]]] = {}

    def load(self, vnode: int, tables: StateTables, sessions: SessionStore) -> None:
        for key, _value in tables.scan(CLUSTER, *groups_progress(), 0):
            group_id = group_of_progress(key)
            stored = sessions.load(group_id)
            if stored is not None:
                self._listed[group_id] = {parse_member(member) for member in stored.members}
                if stored.group is not None:
                    self._records[group_id] = stored.group
        for key, value in tables.scan(CLUSTER, *assignments(), 0):
            self._assign(vnode, *assigned_place(key), decode_assignment(value))

    def ids(self) -> list[str]:
        return sorted(self._listed)

    def listed(self, group_id: str) -> set[MemberName]:
        """The members of a group; none if it does not stand."""
        return self._listed.get(group_id, set())

    def record(self, group_id: str) -> GroupRecord | None:
        """What holds for all members of a group that stands."""
        return self._records.get(group_id)

    def assignments_of(self, session_id: str) -> Mapping[AssignmentName, Assignment]:
        return self._assigned_to.get(session_id, {})

    def applied(self, vnode: int, outcome: Outcome) -> None:
        for step in outcome.steps:
            if step.client_id.startswith(GROUP_PREFIX):
                self._take(step)
        for assigned in outcome.assigned:
            self._assign(vnode, assigned.group, assigned.place, assigned.row)
        for group_id, place in outcome.unassigned:
            self._unassign(group_id, place)

    def _take(self, step: SessionStep) -> None:
        group_id = step.client_id
        if isinstance(step, KeepSession):
            self._listed.setdefault(group_id, set())
        elif isinstance(step, DropSession):
            self._listed.pop(group_id, None)
            self._records.pop(group_id, None)
            self._changed(group_id)
        elif isinstance(step, KeepGroup) and group_id in self._listed:
            self._records[group_id] = step.record
        elif isinstance(step, KeepMember) and group_id in self._listed:
            self._listed[group_id].add(parse_member(step.member))
        elif isinstance(step, DropMember) and group_id in self._listed:
            self._listed[group_id].discard(parse_member(step.member))
            self._changed(group_id)

    def _assign(self, vnode: int, group_id: str, place: Place, row: AssignmentRow) -> None:
        name = (vnode, row.revision)
        self._assigned_to.setdefault(row.member, {})[name] = Assignment(group_id, place, row.member_revision)
        self.assigned_at[group_id, place] = (row.member, name)

    def _unassign(self, group_id: str, place: Place) -> None:
        session_id, name = self.assigned_at.pop((group_id, place))
        assigned = self._assigned_to[session_id]
        del assigned[name]
        if not assigned:
            del self._assigned_to[session_id]
