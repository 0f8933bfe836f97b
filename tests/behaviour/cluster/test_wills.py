"""Wills in a cluster: the log publishes them, each once, and none behind a goodbye."""

import pytest

from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.records.cluster.items import Expire, WillDue
from holdfast.records.cluster.record import decode_record
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Connack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

KEPT = Properties(session_expiry_interval=100)


def test_a_goodbye_counts_though_its_client_is_back_before_its_last_steps_are_decided() -> None:
    """A17: the release stands in front of the next claim, also while the last batch of its channel has no receipt."""
    with ClusterWorld() as world:
        one, _two, three = world.nodes
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        client = one.connect("client", clean_start=True, will=Will("wills", b"gone", 1))
        for log in world.logs:
            log.hold_appends = True
        client.send(Publish("a", b"1", 1, 1), Disconnect())
        client.drop()
        again = one.peer()
        again.send(Connect(5, "client", clean_start=False, properties=Properties(session_expiry_interval=100)))
        for log in world.logs:
            log.hold_appends = False
            while log.held:
                world.do(log.arrive)
        again.take(Connack)
        assert watcher.inbox == []


@pytest.mark.parametrize("clean_start", [True, False])
def test_a_will_that_waits_is_dropped_when_its_client_connects_to_another_node(clean_start: bool) -> None:
    """[MQTT-3.1.2-8]: also if the session does not go on."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        will = Will("wills", b"gone", 1, properties=Properties(will_delay_interval=20))
        one.connect("client", clean_start=True, properties=KEPT, will=will).drop()
        again = two.connect("client", clean_start=clean_start, properties=KEPT)
        assert again.connack.session_present is not clean_start
        world.lead(30)
        assert watcher.inbox == []


def test_the_will_of_a_channel_that_a_clean_start_takes_over_is_published() -> None:
    """Its session ends with it, before the delay has passed."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        will = Will("wills", b"gone", 1, properties=Properties(will_delay_interval=20))
        one.connect("client", clean_start=True, properties=KEPT, will=will)
        two.connect("client", clean_start=True, properties=KEPT)
        assert watcher.payloads() == [b"gone"]


def let_through(world: ClusterWorld, log: MemoryOrderedLog, *, without: ClusterNode) -> None:
    """Records that are held arrive, but for those of one node, which is paused."""
    for held in list(log.held):
        record = decode_record(held.record, CLUSTER_ID)
        if record is None or record.node != without.life.node:
            world.do(lambda held=held: log.arrive(log.held.index(held)))  # type: ignore[misc]


def test_a_leader_that_wakes_with_a_will_and_an_end_in_its_hands_changes_nothing() -> None:
    """A7: another node leads by then, and has proposed both. Behind them the client has come back."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        will = Will("wills", b"gone", 1, properties=Properties(will_delay_interval=5))
        short = Properties(session_expiry_interval=10)
        two.connect("client", clean_start=True, properties=short, will=will).drop()
        log = world.log_of("client")
        world.advance(11)
        log.hold_appends = True
        one.lead()
        (paused,) = log.held
        record = decode_record(paused.record, CLUSTER_ID)
        assert record is not None
        assert {type(item) for item in record.items} >= {WillDue, Expire}
        for _second in range(30):
            world.advance(1)
            two.lead()
            three.lead()
            let_through(world, log, without=one)
        assert watcher.payloads() == [b"gone"]
        vnode = vnode_of("client", len(world.logs))
        assert [node.leaders[vnode].leads() for node in world.nodes] == [False, True, False]
        client = three.peer()
        client.send(Connect(5, "client", clean_start=False, properties=short, will=will))
        for _record in range(3):
            let_through(world, log, without=one)
        assert not client.take(Connack).session_present
        world.let_appends_through()
        world.lead(3)
        assert (watcher.inbox, client.inbox, client.closed) == ([], [], False)
