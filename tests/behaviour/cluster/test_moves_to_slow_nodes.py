"""A session moves to a node that is behind in the shard of what it was sent: nothing that is done comes again."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBREC, PUBREL
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Publish, Suback, Subscribe, Subscription
from tests.broker_backends import ThreeNodes
from tests.cluster_disk_world import VNODES, ClusterDiskWorld
from tests.disk_world import payloads, replay
from tests.slow_world import connect
from tests.world import Peer

#: They are of different vnodes, and at different nodes: the publisher at the third, the reader at the first, then at
#: the second.
WRITER, READER = "w", "c"
FIRST, SECOND, THIRD = range(3)


class SlowNode:
    """A node that is behind in the vnode of a client; all others are given every record when the test says so."""

    def __init__(self, world: ClusterDiskWorld, node: int, client_id: str) -> None:
        vnode = vnode_of(client_id, VNODES)
        self._world = world
        self._log = world.servers.vnodes[vnode]
        self._applier = world.nodes[node].member.appliers[vnode]
        self._log.hold_reads = True

    def serve_others(self) -> None:
        for _round in range(4):  # what is answered may be written, too
            for reading in self._log.readings():
                if reading.reader is not self._applier:
                    self._world.do(lambda reading=reading: self._log.deliver(reading))  # type: ignore[misc]

    def catch_up(self) -> None:
        self._log.hold_reads = False
        for reading in self._log.readings():
            self._world.do(lambda reading=reading: self._log.deliver(reading))  # type: ignore[misc]


@pytest.fixture
def world(tmp_path: Path) -> ClusterDiskWorld:
    assert vnode_of(WRITER, VNODES) != vnode_of(READER, VNODES)
    return ThreeNodes(tmp_path).cluster()


def come(world: ClusterDiskWorld, **options: int) -> Peer:
    """The reader has asked for its session, and perhaps has no answer yet."""
    peer = world.peer()
    peer.send(connect(READER, **options))
    return peer


def resume_when_caught_up(world: ClusterDiskWorld, slow: SlowNode) -> Peer:
    peer = come(world)
    assert peer.inbox == [], "this node has not applied what the session names"
    slow.catch_up()
    assert peer.take(Connack).session_present
    return peer


def complete(peer: Peer) -> bytes:
    """Take one QoS 2 message, and say that it is done."""
    packet = peer.take(Publish)
    peer.send(Ack(PUBREC, packet.packet_id))
    assert peer.take(Ack).kind == PUBREL
    return packet.payload


def test_what_was_published_before_a_subscription_does_not_come_where_it_is_applied_later(
    world: ClusterDiskWorld,
) -> None:
    """A26: `since` of a subscription names places that the node has not applied."""
    with world:
        writer = world.connect(WRITER)
        slow = SlowNode(world, SECOND, WRITER)
        writer.send(Publish("t", b"before", 2, 1))
        slow.serve_others()
        reader = come(world)
        reader.take(Connack)
        reader.subscribe("t", qos=2)
        reader.drop()
        again = resume_when_caught_up(world, slow)
        writer.send(Publish("t", b"after", 2, 2))
        assert payloads(again) == [b"after"]


def test_what_a_replay_has_sent_does_not_come_again(world: ClusterDiskWorld) -> None:
    """A26: the replay has its own pace, so nothing is in flight when its session moves."""
    with world:
        writer = world.connect(WRITER)
        slow = SlowNode(world, SECOND, WRITER)
        for number in range(3):
            writer.send(Publish("t", b"%d" % number, 2, number + 1))
            slow.serve_others()
            world.advance(1)
        reader = come(world)
        reader.take(Connack)
        assert replay(reader, "t", replay_from="earliest", replay_speed="1") == [2]
        slow.serve_others()
        assert payloads(reader) == [b"0"]
        world.advance(1)
        slow.serve_others()
        assert payloads(reader) == [b"1"]
        reader.drop()
        again = resume_when_caught_up(world, slow)
        found = payloads(again)
        for _second in range(3):
            world.advance(1)
            found += payloads(again)
        assert found == [b"2"]


def test_what_a_retained_delivery_has_sent_does_not_come_again(world: ClusterDiskWorld) -> None:
    """A26: neither by the rest of the delivery, nor as live messages when this node applies them."""
    with world:
        writer = world.connect(WRITER)
        slow = SlowNode(world, SECOND, WRITER)
        for number in range(4):
            writer.send(Publish(f"t/{number}", b"%d" % number, 2, number + 1, retain=True))
        slow.serve_others()
        reader = come(world, receive_maximum=1)
        reader.take(Connack)
        reader.subscribe("t/#", qos=2)
        assert complete(reader) == b"0"
        reader.drop()
        again = resume_when_caught_up(world, slow)
        assert again.take(Ack).kind == PUBREL
        assert payloads(again) == [b"1", b"2", b"3"]


def test_a_message_that_is_live_in_a_slow_vnode_is_not_found_by_a_retained_delivery(world: ClusterDiskWorld) -> None:
    """A26: its version is below what another vnode has; a delivery is as of a version for each of them."""
    with world:
        world.servers.vnodes[vnode_of(WRITER, VNODES)].stamp_offset_us = -60_000_000
        world.advance(10)
        writer, other = world.connect(WRITER), world.connect("p1")
        assert vnode_of("p1", VNODES) == vnode_of(READER, VNODES)
        slow = SlowNode(world, THIRD, READER)
        other.send(Publish("t/1", b"retained", 2, 1, retain=True))
        slow.serve_others()
        reader = world.peer()
        reader.send(connect(READER, receive_maximum=1))
        slow.serve_others()
        reader.take(Connack)
        reader.send(Subscribe(1, (Subscription(parse_filter(b"t/#"), 2),)))
        slow.serve_others()
        reader.take(Suback)
        assert reader.take(Publish).payload == b"retained"
        writer.send(Publish("t/2", b"live", 2, 1, retain=True))
        reader.drop()
        slow.catch_up()
        again = come(world)
        assert again.take(Connack).session_present
        versions = world.nodes[SECOND].storage.vnodes.retained.versions()
        assert versions[vnode_of(WRITER, VNODES)] < versions[vnode_of(READER, VNODES)]
        assert payloads(again) == [b"retained", b"live"]


def test_a_retained_message_between_subscribe_and_suback_comes_once(world: ClusterDiskWorld) -> None:
    """The subscription waits for its log; the message is applied meanwhile, and is live from SUBSCRIBE on."""
    with world:
        writer = world.connect(WRITER)
        writer.send(Publish("t/0", b"before", 2, 1, retain=True))
        reader = come(world)
        reader.take(Connack)
        log = world.servers.vnodes[vnode_of(READER, VNODES)]
        log.hold_appends = True
        reader.send(Subscribe(1, (Subscription(parse_filter(b"t/#"), 2),)))
        writer.send(Publish("t/1", b"between", 2, 2, retain=True))
        assert reader.inbox == []
        world.release()
        reader.take(Suback)
        assert sorted(payloads(reader)) == [b"before", b"between"]
