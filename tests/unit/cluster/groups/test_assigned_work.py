"""What a session has done of its assignments: noted by revision, and settled no further than is known."""

from holdfast.cluster.groups.assigned_work import AssignedWork, Assignment, AssignmentName
from holdfast.durable.sessions.session_store import KeepAssignments
from holdfast.exchange.client import BrokerClient
from holdfast.records.session.assignments import DoneAssignments
from tests.world import World


class Session:
    """A stored session with assignments of vnode 3."""

    def __init__(self, world: World, *revisions: int, known: int = 100) -> None:
        world.connect("m")
        self.client: BrokerClient = world.broker.sessions.clients["m"]
        self.client.session.expiry_s = 100
        self.client.session.revision = 7
        self.assigned: dict[AssignmentName, Assignment] = {
            (3, revision): Assignment("g", (0, revision), 7) for revision in revisions
        }
        self.known = known
        self.handed: list[int] = []
        self.covered = 10**9
        self.state = world.broker.exchange.state
        self.work = AssignedWork(
            self.state,
            lambda _session_id: self.assigned,
            lambda _vnode: self.known,
            lambda place: place[1] <= self.covered,
            self._hand,
        )
        self.work.open(self.client)

    def _hand(self, _client: BrokerClient, name: AssignmentName, _assignment: Assignment) -> bool:
        self.handed.append(name[1])
        return True

    def row(self) -> DoneAssignments:
        rows = [step.row for step in self.state.batch.steps if isinstance(step, KeepAssignments)]
        assert self.client.session.assignments == {3: rows[-1]}
        return rows[-1]


def test_every_assignment_is_begun_once_and_those_of_other_sessions_are_not() -> None:
    with World() as world:
        session = Session(world, 10, 20)
        session.assigned[3, 30] = Assignment("g", (0, 30), 6)
        session.work.begin("m")
        session.work.begin("somebody else")
        assert session.handed == [10, 20]


def test_an_assignment_waits_until_its_place_is_applied() -> None:
    with World() as world:
        session = Session(world)
        session.covered = 15
        session.assigned = {(3, 10): Assignment("g", (0, 10), 7), (3, 20): Assignment("g", (0, 20), 7)}
        session.work.begin("m")
        assert session.handed == [10]
        session.covered = 20
        session.work.applied()
        assert session.handed == [10, 20]


def test_settled_stops_before_what_is_not_done_and_lists_what_is_done_above() -> None:
    """A21."""
    with World() as world:
        session = Session(world, 10, 20, 30)
        session.work.done(session.client, (3, 20))
        assert session.row() == DoneAssignments(3, 9, (20,))
        session.work.done(session.client, (3, 10))
        assert session.row() == DoneAssignments(3, 29, ())
        session.work.done(session.client, (3, 30))
        assert session.row() == DoneAssignments(3, 100, ())


def test_settled_passes_nothing_that_this_node_has_not_applied() -> None:
    """A21: what it does not know of may be assigned and not done."""
    with World() as world:
        session = Session(world, 10, known=12)
        session.work.done(session.client, (3, 10))
        assert session.row() == DoneAssignments(3, 12, ())


def test_what_is_in_flight_holds_settled_though_its_assignment_has_gone() -> None:
    with World() as world:
        session = Session(world, 10, 20)
        del session.assigned[3, 10]
        session.work.done(session.client, (3, 20))
        assert session.row() == DoneAssignments(3, 9, (20,))


def test_what_is_done_is_not_begun_by_a_later_owner() -> None:
    with World() as world:
        session = Session(world)
        session.client.session.assignments = {3: DoneAssignments(3, 15, (30,))}
        session.assigned = {(3, revision): Assignment("g", (0, revision), 7) for revision in (10, 20, 30)}
        session.work.begin("m")
        assert session.handed == [20]


def test_what_was_begun_is_forgotten_with_the_connection() -> None:
    with World() as world:
        session = Session(world, 10)
        session.work.close(session.client)
        session.work.begin("m")
        assert session.handed == [10]
        session.work.open(session.client)
        assert session.handed == [10, 10]
