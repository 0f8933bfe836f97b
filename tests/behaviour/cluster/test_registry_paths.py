"""The ways in which a takeover ends in a cluster: by what this node has applied, and by where its claim stands."""

import pytest
from structlog.testing import capture_logs

from holdfast.broker.policy import Policy, RegistrySettings
from holdfast.cluster.vnodes.vnode_leader import registration_of
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.takeover.takeover import EXPENSIVE_FAIL, HAPPY_ENDING, HAPPY_FAIL, MOST_EXPENSIVE, ODD
from holdfast.model.protocol import V5
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Connack, Connect
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

pytestmark = pytest.mark.registry_modes("linear", "both")

KEPT = Properties(session_expiry_interval=1000)
CLIENT = "p1"
#: More than the row of a closed epoch is carried out for in one slice.
MANY = 300


def ask(node: ClusterNode, *, clean_start: bool = False) -> Peer:
    """A peer that has sent CONNECT."""
    peer = node.peer()
    peer.send(Connect(V5, CLIENT, clean_start=clean_start, properties=KEPT))
    return peer


def owner_of(node: ClusterNode, client_id: str = CLIENT) -> int:
    """The node that has the registered channel, by the tables of a node; 0: none has."""
    row = registration_of(node.tables[vnode_of(client_id, len(node.tables))], client_id)
    return 0 if row is None or row.released_us else row.node


def last_of(world: ClusterWorld, log: MemoryOrderedLog) -> int:
    last: int = world.run(log.ends()).last
    return last


class Behind:
    """A node is given nothing of the vnode of the client until it has caught up; all others are."""

    def __init__(self, world: ClusterWorld, node: ClusterNode) -> None:
        self._world = world
        self._log = world.log_of(CLIENT)
        self._applier = node.appliers[vnode_of(CLIENT, len(world.logs))]
        self._log.hold_reads = True

    def serve_others(self) -> None:
        for _round in range(4):  # what is applied leads to more
            for reading in self._log.readings():
                if reading.reader is not self._applier:
                    self._world.do(lambda reading=reading: self._log.deliver(reading))  # type: ignore[misc]

    def catch_up(self) -> None:
        self._log.hold_reads = False
        for reading in self._log.readings():
            self._world.do(lambda reading=reading: self._log.deliver(reading))  # type: ignore[misc]
        self._world.advance(0.1)  # the pause before a takeover is tried again


def test_a_connection_older_than_what_its_node_knows_is_refused_and_nothing_is_written() -> None:
    """R1: a clean start as well."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        slow = one.peer()
        world.advance(0.01)
        newest = two.connect(CLIENT, clean_start=True, properties=KEPT)
        before = last_of(world, world.log_of(CLIENT))
        slow.send(Connect(V5, CLIENT, clean_start=True, properties=KEPT))
        assert slow.take(Connack).reason == 0x89
        assert one.counts.paths[HAPPY_FAIL] == 1
        assert last_of(world, world.log_of(CLIENT)) == before
        assert (newest.closed, owner_of(one)) == (False, 2)


def test_a_connection_older_than_what_the_log_knows_is_refused_and_changes_nothing() -> None:
    """R2, R6: its node is behind, and knows of no channel. The session of the newer one stays."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        slow = one.peer()
        world.advance(0.01)
        behind = Behind(world, one)
        newest = ask(two)
        behind.serve_others()
        assert newest.take(Connack).reason == 0
        slow.send(Connect(V5, CLIENT, clean_start=True, properties=KEPT))
        behind.catch_up()
        assert slow.take(Connack).reason == 0x89
        assert one.counts.paths[EXPENSIVE_FAIL] == 1
        assert (newest.closed, [owner_of(node) for node in world.nodes]) == (False, [2, 2, 2])
        newest.drop()
        assert three.connect(CLIENT, clean_start=False, properties=KEPT).connack.session_present


def test_a_connection_that_finds_an_older_one_in_the_log_takes_it_over() -> None:
    """R3, R12: its node is behind. The takeover begins again with the channel that the log knows."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        behind = Behind(world, one)
        old = ask(two)
        behind.serve_others()
        assert old.take(Connack).reason == 0
        world.advance(0.01)
        new = ask(one)
        behind.catch_up()
        connack = new.take(Connack)
        assert (connack.reason, connack.session_present, old.closed) == (0, True, True)
        assert one.counts.paths[MOST_EXPENSIVE] == 1
        assert [owner_of(node) for node in world.nodes] == [1, 1, 1]


def test_a_connection_that_finds_what_it_expects_takes_its_place() -> None:
    """R4, R12."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        first = one.connect(CLIENT, clean_start=True, properties=KEPT)
        second = two.connect(CLIENT, clean_start=False, properties=KEPT)
        assert (first.connack.session_present, second.connack.session_present) == (False, True)
        assert (one.counts.paths[HAPPY_ENDING], two.counts.paths[HAPPY_ENDING]) == (1, 1)
        assert (first.closed, [owner_of(node) for node in world.nodes]) == (True, [2, 2, 2])


def test_a_log_that_knows_an_older_connection_than_its_node_refuses_and_says_so() -> None:
    """R5: what the node knows was released more than a minute ago, and an older connection has come since."""
    policy = Policy(registry=RegistrySettings(version_property="connected-at"))
    with ClusterWorld(policy=policy) as world:
        one, two, three = world.nodes
        world.lead(3)

        def at(node: ClusterNode, time_ms: int) -> Peer:
            peer = node.peer()
            given = Properties(session_expiry_interval=1000, user_properties=(("connected-at", str(time_ms)),))
            peer.send(Connect(V5, CLIENT, clean_start=False, properties=given))
            return peer

        known = at(two, 5000)
        assert known.take(Connack).reason == 0
        behind = Behind(world, one)
        known.drop()
        for _second in range(70):
            world.lead()
            behind.serve_others()
        older = at(three, 4000)
        behind.serve_others()
        assert older.take(Connack).reason == 0
        assert (owner_of(one), owner_of(two)) == (2, 3)
        with capture_logs() as logs:
            newest = at(one, 6000)
            world.advance(1)  # begin with a channel that is gone
            behind.catch_up()
        assert newest.take(Connack).reason == 0x89
        assert one.counts.paths[ODD] == 1
        assert [line["log_level"] for line in logs if "registered is" in str(line)] == ["info"]
        assert not older.closed


def test_a_node_that_dies_leaves_no_channel_behind_and_the_clean_up_counts_once() -> None:
    """R10: every survivor proposes it; one that dies meanwhile leaves it to the others."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        names = [f"c{number}" for number in range(MANY)]
        for name in names:
            one.connect(name, clean_start=True, properties=KEPT)
        assert {owner_of(three, name) for name in names} == {1}
        one.kill()
        one.fence()
        two.kill()
        one.fence()
        two.fence()
        assert {owner_of(three, name) for name in names} == {0}
        late = [three.connect(name, clean_start=False, properties=KEPT) for name in names]
        one.fence()
        assert all(peer.connack.session_present for peer in late)
        assert {owner_of(three, name) for name in names} == {3}, "what comes late closes nobody else's channel"
        assert not any(peer.closed for peer in late)
