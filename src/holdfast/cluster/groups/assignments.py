"""The assignments of a vnode's groups, at its leader: which there are, and which may go.

An assignment goes when it is settled, or when the session that it was made to has ended, and only below the stored
progress of its group: a new leader gives out everything above, and has to know what is a member's.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.cluster.groups.dispatch_services import DispatchServices, StoredMember
from holdfast.cluster.groups.led_group import MemberName, Place
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import CLUSTER, StateTables
from holdfast.records.cluster.items import Unassign
from holdfast.records.cluster.rows import (
    AssignmentRow,
    assigned_place,
    assignments,
    decode_assignment,
    decode_group_progress,
    group_progress_key,
)


def stored_progress(tables: StateTables, group_id: str) -> dict[int, int]:
    """How far a group has come, or one of the same name that has ended."""
    value = tables.get(CLUSTER, group_progress_key(group_id))
    return {} if value is None else decode_group_progress(value)


class Assignments:
    """Requires: `applied` for every record of the vnode; `sweep` once a second."""

    def __init__(self, services: DispatchServices) -> None:
        self._services: Final = services
        self._rows: Final[dict[tuple[str, Place], AssignmentRow]] = {}
        #: Those that are proposed to go.
        self._going: Final[set[tuple[str, Place]]] = set()
        for key, value in services.tables.scan(CLUSTER, *assignments(), 0):
            self._rows[assigned_place(key)] = decode_assignment(value)

    def places_of(self, group_id: str) -> list[Place]:
        return [place for of, place in self._rows if of == group_id]

    def applied(self, outcome: Outcome) -> None:
        for assigned in outcome.assigned:
            self._rows[assigned.group, assigned.place] = assigned.row
        for key in outcome.unassigned:
            self._rows.pop(key, None)
            self._going.discard(key)

    def sweep(self, settled_by: Callable[[str, MemberName], int | None]) -> None:
        """Propose that settled assignments go, and those whose sessions have ended, which are counted.

        `settled_by` is what the node of a member says, by its group; None if none reports the member.
        """
        found: dict[tuple[str, MemberName], StoredMember] = {}
        progress = {group_id: stored_progress(self._services.tables, group_id) for group_id, _place in self._rows}
        for (group_id, place), row in list(self._rows.items()):
            if (group_id, place) in self._going or place[1] > progress[group_id].get(place[0], -1):
                continue
            name = (row.member, row.member_revision)
            settled = settled_by(group_id, name)
            if settled is not None:
                if row.revision <= settled:
                    self._propose(group_id, place)
                continue
            stored = found.get((group_id, name))
            if stored is None:
                stored = found[group_id, name] = self._services.stored_member(group_id, name)
            if row.revision <= stored.settled:
                self._propose(group_id, place)
            elif not stored.has_session:
                self._services.after_all_of(row.member, partial(self._discard, group_id, name, place, row.revision))

    def _discard(self, group_id: str, name: MemberName, place: Place, revision: int) -> None:
        """A member's session has ended: what was its alone goes with it."""
        stored = self._services.stored_member(group_id, name)
        if (group_id, place) in self._going or stored.has_session or revision <= stored.settled:
            return
        self._services.discarded(group_id, 1)
        self._propose(group_id, place)

    def _propose(self, group_id: str, place: Place) -> None:
        self._going.add((group_id, place))
        self._services.propose(Unassign(group_id, *place), None, None)
