"""Receipts that come late: nothing leaves before its own, and everything leaves after it, in order."""

import pytest

from holdfast.durable.commit import Receipt
from holdfast.model.protocol import PUBACK, PUBREC
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import (
    Ack,
    Connack,
    Disconnect,
    Publish,
    Suback,
    Unsuback,
    Unsubscribe,
)
from holdfast.wire.properties import Properties
from tests.broker_backends import OpenSlowWorld
from tests.slow_world import SlowWorld, at_once, connect, kept, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_qos_0_does_not_overtake_the_connack() -> None:
    """[MQTT-3.2.0-1]. One turn of the loop: a QoS 1 publish for a QoS 0 subscription, then CONNECT."""
    with World() as world:
        old = kept(world, "c")
        old.subscribe("a", qos=0)
        old.drop()
        writer = world.connect("writer")
        new = world.peer()
        at_once(world, (writer, Publish("a", b"x", 1, 1)), (new, connect("c")))
        assert isinstance(new.inbox[0], Connack)


def test_a_walk_of_the_last_connection_does_not_overtake_the_connack() -> None:
    with SlowWorld() as world:
        world.connect("writer").send(Publish("a", b"r", 1, 1, retain=True))
        old = kept(world, "c")
        world.hold()
        old.send(subscribe("a"))
        first = world.log.last
        old.drop()
        new = world.peer()
        new.send(connect("c"))
        assert new.inbox == []
        world.receipts(first)
        assert new.inbox == [], "nothing before CONNACK, whose batch has no receipt"
        world.release()
        new.take(Connack)
        assert new.payloads() == [b"r"]


def test_no_disconnect_before_the_connack() -> None:
    """[MQTT-3.14.0-1]: the client is attached, but its CONNACK waits for the commit."""
    with SlowWorld() as world:
        world.hold()
        peer = world.peer()
        peer.send(connect("c"))
        world.do(world.broker.disconnect_all)
        assert peer.closed
        assert not any(isinstance(packet, Disconnect) for packet in peer.inbox)


def test_nothing_is_acknowledged_or_delivered_before_its_receipt(slow_world: OpenSlowWorld) -> None:
    """L20, as far as the broker goes: QoS 1 and 2 wait on both sides."""
    with slow_world() as world:
        reader = world.connect("reader")
        reader.subscribe("a")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"1", 1, 1), Publish("a", b"2", 2, 2))
        assert (writer.inbox, reader.inbox) == ([], [])
        world.receipts()
        assert writer.take_all(Ack) == [Ack(PUBACK, 1), Ack(PUBREC, 2)]
        assert reader.payloads() == [b"1", b"2"]


def test_a_topic_that_comes_once_is_matched_once_and_leaves_nothing_in_the_cache() -> None:
    """Matching it again with its receipt would make a known topic of it, and push out those in use."""
    with SlowWorld() as world:
        reader = world.connect("reader")
        reader.subscribe("#")
        writer = world.connect("writer")
        routes = world.broker.exchange.routes
        before = routes.misses, routes.cached_topics()
        world.hold()
        writer.send(Publish("once", b"1", 1, 1))
        world.receipts()
        assert reader.payloads() == [b"1"]
        assert (routes.misses, routes.cached_topics()) == (before[0] + 1, before[1])


@pytest.mark.parametrize("topic_filter", ["once", "+"])
def test_what_waits_for_its_receipt_is_delivered_by_the_subscriptions_of_then(topic_filter: str) -> None:
    with SlowWorld() as world:
        leaving = world.connect("leaving")
        leaving.subscribe(topic_filter)
        coming = world.connect("coming")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("once", b"1", 1, 1))
        published = world.log.last
        leaving.send(Unsubscribe(2, (parse_filter(topic_filter.encode()),)))
        coming.send(subscribe(topic_filter))
        world.receipts(published)
        world.release()
        assert [type(packet) for packet in leaving.inbox] == [Unsuback]
        assert [packet.payload for packet in coming.inbox if isinstance(packet, Publish)] == [b"1"]


def test_a_late_receipt_sends_what_waited_for_it_without_further_traffic() -> None:
    with SlowWorld() as world:
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"x", 1, 1))
        world.do(lambda: world.broker.exchange.committed(Receipt(world.log.last)))
        assert writer.inbox == [Ack(PUBACK, 1, 0x10)]


def test_qos_0_that_waited_behind_a_suback_is_not_overtaken_by_later_qos_0() -> None:
    with SlowWorld() as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=0)
        writer = world.connect("writer")
        other = world.connect("other")
        world.hold()
        other.send(subscribe("b"))
        first = world.log.last
        writer.send(Publish("a", b"1"))
        world.receipts(first)
        writer.send(Publish("a", b"2"))
        world.release()
        assert reader.payloads() == [b"1", b"2"]


def test_what_expired_while_its_commit_was_under_way_is_not_delivered() -> None:
    """T10."""
    with SlowWorld() as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=1)
        writer = world.connect("writer")
        world.hold()
        for number, seconds in enumerate((1, 60), start=1):
            properties = Properties(message_expiry_interval=seconds)
            writer.send(Publish("a", b"%d" % seconds, 1, number, properties=properties))
        world.advance(20)
        world.release()
        (message,) = reader.take_all(Publish)
        assert (message.payload, message.properties.message_expiry_interval) == (b"60", 40)


def test_a_taker_that_leaves_while_the_receipt_is_late_leaves_the_old_channel_working() -> None:
    """R11."""
    with SlowWorld() as world:
        old = kept(world, "c")
        world.hold()
        old.send(subscribe("a"))
        new = world.peer()
        new.send(connect("c"))
        new.drop()
        world.release()
        old.take(Suback)
        old.send(Publish("a", b"x", 1, 1))
        assert old.take(Ack) == Ack(PUBACK, 1)
        assert old.payloads() == [b"x"]


def test_a_takeover_waits_for_the_receipts_of_the_old_channel(slow_world: OpenSlowWorld) -> None:
    """Q8."""
    with slow_world() as world:
        reader = world.connect("reader")
        reader.subscribe("a")
        old = kept(world, "c")
        world.hold()
        old.send(Publish("a", b"x", 2, 7))
        new = world.peer()
        new.send(connect("c"))
        assert (old.inbox, new.inbox, old.closed) == ([], [], False)
        world.receipts()
        world.release()
        assert new.take(Connack).session_present
        new.send(Publish("a", b"x", 2, 7, dup=True))
        assert reader.payloads() == [b"x"]


def test_clients_are_not_read_while_too_much_waits_for_receipts() -> None:
    """A disk that is slower than the clients costs time, not memory."""
    with SlowWorld() as world:
        writer = world.connect("writer")
        world.hold()
        big = b"x" * 1_000_000
        sent = 0
        while writer.reading:
            sent += 1
            writer.send(Publish("a", big, 1, sent))
            assert sent < 100, "never paused"
        writer.send(Publish("a", b"last", 1, sent + 1))
        assert writer.inbox == []
        world.release()
        assert [ack.packet_id for ack in writer.take_all(Ack)] == list(range(1, sent + 2))
        assert writer.reading
