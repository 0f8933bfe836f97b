"""Claims, releases and records that come late, twice or not at all."""

import pytest

from holdfast.broker.policy import Policy, RegistrySettings
from holdfast.cluster.registry.log_registry import load_newest_version
from holdfast.cluster.registry.takeover_begin import BEGIN
from holdfast.cluster.vnodes.vnode_leader import registration_of
from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.model.protocol import PUBREC, V5, V311
from holdfast.records.cluster.rows import NEWEST_VERSION_KEY, RegistrationRow
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Ack, Connack, Connect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=1000)
#: By how much a clock is ahead: so little that its broker goes by it, and not by record time.
AHEAD_US = 20_000_000


def registered(node: ClusterNode, session_id: str) -> RegistrationRow | None:
    """Who is registered, by the tables of a node."""
    for tables in node.tables:
        row = registration_of(tables, session_id)
        if row is not None and not row.released_us:
            return row
    return None


def test_a_record_that_is_sent_again_is_applied_once() -> None:
    """A4: its answer was lost, nobody has read it back, and a minute has passed."""
    with ClusterWorld() as world:
        one, _two, three = world.nodes
        reader = three.connect("s1")
        reader.subscribe("t", qos=2)
        writer = one.connect("p1", clean_start=True, properties=KEPT)
        log = world.log_of("p1")
        log.hold_reads = True
        log.lose_answers = 3
        writer.send(Publish("t", b"once", 2, 1))
        for _pause in range(6):
            world.advance(10)
        log.hold_reads = False
        for reading in log.readings():
            world.do(lambda reading=reading: log.deliver(reading))  # type: ignore[misc]
        assert [(ack.kind, ack.packet_id) for ack in writer.take_all(Ack)] == [(PUBREC, 1)]
        assert reader.payloads() == [b"once"]
        assert world.stored() == [b"once"]
        first, *others = world.digests()
        assert all(other == first for other in others)


def test_a_claim_that_lands_late_is_followed_by_its_release() -> None:
    """A5: its client heard 0x88 and is gone."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        world.hold_appends()
        client = one.peer()
        client.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        world.advance(5)
        assert client.take(Connack).reason == 0x88
        assert registered(two, "p1") is None
        world.let_appends_through()
        assert [registered(node, "p1") for node in world.nodes] == [None, None, None]
        assert two.connect("p1", clean_start=False, properties=KEPT).connack.reason == 0


def test_connections_with_equal_numbers_at_two_nodes_are_not_confused() -> None:
    """A8: a takeover closes the channel that it names, and no other with the same number."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        first, second, third = one.connect("p1"), two.connect("p2"), three.connect("p3")
        assert len({peer.channel.number for peer in (first, second, third)}) == 1
        two.connect("p1", clean_start=False)
        assert (first.closed, second.closed, third.closed) == (True, False, False)
        one.connect("p3", clean_start=False)
        assert (second.closed, third.closed) == (False, True)
        second.send(Publish("t", b"still here", 1, 1))
        assert second.take(Ack).packet_id == 1


def test_a_claimer_that_dies_before_its_open_leaves_no_registration_and_the_will_comes_once() -> None:
    """A17: the claim was accepted, and its node is gone before it stored the session again."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("s1")
        watcher.subscribe("wills", qos=1)
        delayed = Properties(will_delay_interval=5)
        client = one.connect(
            "p1", clean_start=True, properties=KEPT, will=Will("wills", b"gone", 1, properties=delayed)
        )
        log = world.log_of("p1")
        log.hold_appends = True
        new = two.peer()
        new.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        world.do(log.arrive)
        assert client.closed
        assert new.inbox == []
        held = list(log.held)
        two.kill()
        log.held.clear()
        assert held, "the open was on its way"
        log.hold_appends = False
        two.fence()
        assert registered(one, "p1") is None
        world.lead(25)
        assert watcher.inbox == [], "it has 30 s to come back"
        world.lead(15)
        assert watcher.payloads() == [b"gone"]
        world.lead(40)
        assert watcher.inbox == []


def test_a_session_whose_end_had_come_is_not_present_though_no_leader_proposed_it() -> None:
    """A17: all leaders sleep."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        world.lead(3)
        short = Properties(session_expiry_interval=10)
        one.connect("p1", clean_start=True, properties=short).drop()
        world.advance(9)
        back = two.connect("p1", clean_start=False, properties=short)
        assert back.connack.session_present
        back.drop()
        world.advance(11)
        assert not one.connect("p1", clean_start=False, properties=short).connack.session_present


def test_the_newest_connection_is_not_refused_by_a_node_whose_clock_is_behind() -> None:
    """A25: it connects a moment later, at a node whose clock is behind."""
    with ClusterWorld() as world:
        _one, two, three = world.nodes
        two.clock.advance(AHEAD_US)
        old = two.connect("p1", clean_start=True, properties=KEPT)
        new = three.connect("p1", clean_start=False, properties=KEPT)
        assert new.connack.reason == 0
        assert new.connack.session_present
        assert old.closed


def test_a_node_that_starts_beside_a_fast_clock_gives_newer_versions() -> None:
    """A25: it has applied the fast node's claims before it has clients."""
    with ClusterWorld() as world:
        _one, two, three = world.nodes
        two.clock.advance(AHEAD_US)
        old = two.connect("p1", clean_start=True, properties=KEPT)
        three.kill()
        new = world.start(3).connect("p1", clean_start=False, properties=KEPT)
        assert (new.connack.reason, old.closed) == (0, True)


def test_a_node_that_restarts_on_its_tables_gives_versions_above_them() -> None:
    """A25: it applies none of the fast node's claims again, and has not heard of any since its start."""
    with ClusterWorld() as world:
        _one, two, three = world.nodes
        two.clock.advance(AHEAD_US)
        old = two.connect("p1", clean_start=True, properties=KEPT)
        three.kill()
        new = world.start(3, three.tables).connect("p1", clean_start=False, properties=KEPT)
        assert (new.connack.reason, new.connack.session_present, old.closed) == (0, True, True)


def test_a_folder_of_an_earlier_version_has_its_registrations_read_for_the_newest_version() -> None:
    """A25: no row of it has the newest version."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        for number in range(3):
            one.connect(f"c{number}")
        two.clock.advance(AHEAD_US)
        two.connect("p1", clean_start=True, properties=KEPT)
        tables = one.tables[vnode_of("p1", len(world.logs))]
        newest = load_newest_version(tables)
        removal = Changes()
        removal.into(CLUSTER).delete(NEWEST_VERSION_KEY)
        tables.write(removal, [])
        assert load_newest_version(tables) == newest
        assert tables.get(CLUSTER, NEWEST_VERSION_KEY) is not None, "the next start reads one row"


@pytest.mark.parametrize(("version", "code"), [(V5, 0x88), (V311, 3)])
def test_a_connect_that_is_not_decided_is_refused_when_the_patience_is_over(version: int, code: int) -> None:
    """A5: the claim, what would be read behind it, and its withdrawal have `registry.patience_s` together."""
    with ClusterWorld() as world:
        world.hold_appends()
        client = world.nodes[0].peer(version)
        client.send(Connect(version, "p1", clean_start=False))
        world.advance(4.9)
        assert client.inbox == []
        world.advance(0.2)
        assert client.take(Connack).reason == code
        assert client.closed


def test_a_connect_is_refused_in_time_though_the_channel_before_it_waits_for_its_commits() -> None:
    """Begin waits a second for the old channel of the same node; the log of their vnode stands still."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        old = one.connect("p1", clean_start=True, properties=KEPT)
        world.hold_appends()
        old.send(Publish("t", b"on its way", 1, 1))
        client = one.peer()
        client.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        for _part in range(10):
            world.advance(0.5)
        assert client.take(Connack).reason == 0x88
        world.let_appends_through()
        assert one.connect("p1", clean_start=False, properties=KEPT).connack.session_present


def test_a_connect_that_waits_for_another_one_of_its_client_id_is_refused_in_time() -> None:
    with ClusterWorld() as world:
        one = world.nodes[0]
        world.hold_appends()
        first, second = one.peer(), one.peer()
        first.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        world.advance(3)
        second.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        world.advance(2)
        assert first.take(Connack).reason == 0x88
        for _part in range(6):
            world.advance(0.5)
        assert second.take(Connack).reason == 0x88


@pytest.mark.registry_modes("linear", "both")
def test_the_time_that_a_client_gives_decides_and_moves_no_clock() -> None:
    """A25: one client with a time of the next century does not make versions of all others come from there."""
    policy = Policy(registry=RegistrySettings(version_property="connected-at"))
    with ClusterWorld(policy=policy) as world:
        one, two, three = world.nodes

        def at(node: ClusterNode, time_ms: int) -> Peer:
            given = Properties(session_expiry_interval=1000, user_properties=(("connected-at", str(time_ms)),))
            return node.connect("p1", clean_start=False, properties=given)

        newer = at(one, 4_000_000_000_000)
        older = at(two, 3_999_999_999_999)
        assert (newer.connack.reason, older.connack.reason) == (0, 0x89)
        newest = at(three, 4_000_000_000_001)
        assert (newest.connack.reason, newer.closed) == (0, True)
        other = two.connect("p2")
        assert other.connack.reason == 0
        versions = [connection.version for connection in two.broker.connections]
        assert [version.connected_at_ms for version in versions] == [world.clock.wall_us() // 1000]
        wrong = two.peer()
        given = Properties(user_properties=(("connected-at", "yesterday"),))
        wrong.send(Connect(V5, "p3", properties=given))
        assert wrong.take(Connack).reason == 0x83


def test_a_connection_that_is_replaced_before_its_connack_hears_that_the_server_is_busy() -> None:
    """0x8E is no reason of a CONNACK, and 0x80 would keep a client from trying again."""
    with ClusterWorld() as world:
        one, _two, _three = world.nodes
        world.hold_appends()
        client = one.peer()
        client.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        channel = (one.life.node, one.life.epoch, client.channel.number)
        world.do(lambda: one.broker.connections.replaced("p1", channel))
        assert client.take(Connack).reason == 0x89
        assert client.closed
