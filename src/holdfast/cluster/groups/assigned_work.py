"""QoS 2 messages that groups have assigned to sessions of this node, from the `Assign` to PUBCOMP.

    Assign is applied, or the session is opened ──▶ begun: waits for its place, then for room ──▶ in flight, in the
    member's vnode ──▶ PUBLISH … PUBCOMP ──▶ done, in the member's vnode

1. An assignment is named by the vnode of its group and its revision there. It is begun unless it is begun already, in
   flight included, or done by the session's records: so an owner that hears of it late does not begin it again.
2. What is done is noted before its entry in flight goes. `settled` passes no assignment to this session that is not
   done, and nothing that this node has not applied in the group's vnode.
3. What is begun and not in flight is forgotten with the connection. The next owner begins it.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.cluster.groups.led_group import Place
from holdfast.durable.sessions.session_store import KeepAssignments
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.loop_state import LoopState
from holdfast.model.owed import OwedShared
from holdfast.records.session.assignments import DoneAssignments

#: The vnode of the group, and the revision of the `Assign` there.
AssignmentName = tuple[int, int]


class Assignment(NamedTuple):
    """A message that is a member's alone."""

    group_id: str
    place: Place
    #: Of the claim that began the member's session.
    member_revision: int


class AssignedWork:
    """The assignments of sessions that are connected here."""

    def __init__(
        self,
        state: LoopState,
        assignments_of: Callable[[str], Mapping[AssignmentName, Assignment]],
        known: Callable[[int], int],
        is_covered: Callable[[Place], bool],
        hand: Callable[[BrokerClient, AssignmentName, Assignment], bool],
    ) -> None:
        """`assignments_of` are those of a session, `known` is the revision up to which a vnode is applied here; `hand`
        has a message sent as there is room, False if it is gone.
        """
        self._state: Final = state
        self._assignments_of: Final = assignments_of
        self._known: Final = known
        self._is_covered: Final = is_covered
        self._hand: Final = hand
        self._clients: Final[dict[str, BrokerClient]] = {}
        self._begun: Final[dict[str, set[AssignmentName]]] = {}
        self._uncovered: Final[dict[str, dict[AssignmentName, Assignment]]] = {}

    def is_open(self, client: BrokerClient) -> bool:
        return self._clients.get(client.session.client_id) is client

    def open(self, client: BrokerClient) -> None:
        """A session has its connection here: begin what no member has begun."""
        session_id = client.session.client_id
        window = client.session.window
        in_flight = [window.owed(packet_id) for packet_id in window.packet_ids()]
        begun = {(owed.vnode, owed.revision) for owed in in_flight if isinstance(owed, OwedShared) and owed.revision}
        self._clients[session_id] = client
        self._begun[session_id] = begun
        self._uncovered[session_id] = {}
        self.begin(session_id)

    def close(self, client: BrokerClient) -> None:
        """Its connection is gone."""
        session_id = client.session.client_id
        if self.is_open(client):
            del self._clients[session_id]
            del self._begun[session_id]
            del self._uncovered[session_id]

    def begin(self, session_id: str) -> None:
        """Begin the assignments of a session that are not begun, if it is here."""
        client = self._clients.get(session_id)
        if client is None:
            return
        begun = self._begun[session_id]
        for name, assignment in sorted(self._assignments_of(session_id).items()):
            is_own = assignment.member_revision == client.session.revision
            if is_own and name not in begun and not _is_done(client, name):
                begun.add(name)
                self._uncovered[session_id][name] = assignment
        self._cover(session_id)

    def applied(self) -> None:
        """More is applied here: what waited for it may go."""
        for session_id in [session_id for session_id, waiting in self._uncovered.items() if waiting]:
            self._cover(session_id)

    def _cover(self, session_id: str) -> None:
        client = self._clients[session_id]
        uncovered = self._uncovered[session_id]
        for name, assignment in list(uncovered.items()):
            if self._is_covered(assignment.place):
                del uncovered[name]
                if not self._hand(client, name, assignment):
                    self.done(client, name)

    def done(self, client: BrokerClient, name: AssignmentName) -> None:
        """A message is complete, or its member will never get it. Requires: its entry in flight goes behind this."""
        session = client.session
        vnode, revision = name
        begun = self._begun.get(session.client_id, set())
        begun.discard(name)
        before = (session.assignments or {}).get(vnode) or DoneAssignments(vnode, 0, ())
        done = {*before.done, revision}
        assigned = self._assignments_of(session.client_id).items()
        left = {one for one, assignment in assigned if assignment.member_revision == session.revision} | begun
        open_revisions = [one[1] for one in left if one[0] == vnode and one[1] not in done and one[1] > before.settled]
        settled = max(before.settled, min([self._known(vnode), *[one - 1 for one in open_revisions]]))
        row = DoneAssignments(vnode, settled, tuple(sorted([one for one in done if one > settled])))
        if session.assignments is None:
            session.assignments = {}
        session.assignments[vnode] = row
        if client.stored():
            self._state.step(KeepAssignments(session.client_id, row))


def _is_done(client: BrokerClient, name: AssignmentName) -> bool:
    row = (client.session.assignments or {}).get(name[0])
    return row is not None and row.has(name[1])
