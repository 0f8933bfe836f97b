"""The leader of a vnode, on one node. What it proposes is shown by `tests/behaviour/cluster` and the simulations."""

from holdfast.cluster.vnodes.vnode_leader import VnodeLeader, leader_of
from holdfast.cluster.vnodes.writer import VnodeWriter
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError
from tests.unit.cluster.node_world import FakeTimers, founded_log
from tests.unit.durable.state_machine.vnode import CLUSTER_ID


class ClosableTables(MemoryTables):
    """Tables of a database that may be closed."""

    closed = False

    def get(self, family: str, key: bytes) -> bytes | None:
        if self.closed:
            raise MisuseError("the engine is closed")
        return super().get(family, key)


class Candidate:
    """A node in a vnode that no node leads."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.log: MemoryOrderedLog = founded_log(clock)
        self.tables = ClosableTables()
        self.timers = FakeTimers()
        self.writer = VnodeWriter(self.log, CLUSTER_ID, 1, 1, clock, self.timers, lambda: 0)
        self.leader = VnodeLeader(NodeLife(1, 1), self.tables, self.tables.sessions, self.writer, clock, self.timers)

    def appended(self) -> int:
        return len(self.log._entries)


def test_a_node_waits_by_its_rank_before_it_proposes_to_lead() -> None:
    one = Candidate()
    one.leader.tick(rank=2)
    before = one.appended()
    one.timers.advance(0.39)
    assert one.appended() == before
    one.timers.advance(0.02)
    assert one.appended() == before + 1
    assert leader_of(one.tables) is None, "nothing was applied here"


def test_a_node_that_is_not_ready_proposes_nothing() -> None:
    """A20."""
    one = Candidate()
    before = one.appended()
    one.leader.is_ready = False
    one.leader.tick(rank=0)
    one.timers.advance(1)
    assert one.appended() == before


def test_a_proposal_that_waits_when_the_node_stops_touches_nothing_any_more() -> None:
    one = Candidate()
    one.leader.tick(rank=2)
    one.writer.close()
    one.tables.closed = True
    before = one.appended()
    one.timers.advance(1)
    assert one.appended() == before
