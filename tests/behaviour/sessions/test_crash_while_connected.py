"""Sessions whose broker died while they were connected: leaving a world says goodbye to nobody."""

from pathlib import Path

from holdfast.model.protocol import PUBACK, V5
from holdfast.wire.packets import Ack, Connack, Publish
from tests.disk_world import DiskWorld
from tests.slow_world import connect, kept
from tests.world import Peer

LATER_US = 1_700_000_100_000_000


def back(world: DiskWorld, client_id: str) -> Peer:
    peer = world.peer(V5)
    peer.send(connect(client_id))
    assert peer.take(Connack).session_present
    return peer


def test_what_may_have_been_sent_before_a_crash_is_marked_and_what_cannot_have_been_is_not(tmp_path: Path) -> None:
    """[MQTT-3.3.1-1]. The acknowledgement was not stored yet, so the message comes again."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        world.connect("writer").send(Publish("a", b"before", 1, 1))
        reader.send(Ack(PUBACK, reader.take(Publish).packet_id))
    with DiskWorld(tmp_path, start_us=LATER_US) as world:
        world.connect("writer").send(Publish("a", b"after", 1, 1))
        again = back(world, "c").take_all(Publish)
    assert [(packet.payload, packet.dup) for packet in again] == [(b"before", True), (b"after", False)]


def test_a_message_from_before_a_subscription_does_not_come_through_it_after_a_crash(tmp_path: Path) -> None:
    """Positions go on above the ceiling after a crash: ahead of the clock that a subscription is dated by."""
    with DiskWorld(tmp_path) as world:
        world.connect("writer").send(Publish("a", b"x", 1, 1))
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        world.connect("writer").send(Publish("a", b"too early", 1, 1))
        reader.subscribe("a")
        world.connect("writer").send(Publish("a", b"in time", 1, 1))
        assert reader.payloads() == [b"in time"]
    with DiskWorld(tmp_path, start_us=LATER_US) as world:
        assert back(world, "c").payloads() == [b"in time"]
