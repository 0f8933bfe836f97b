"""What a session stores, and when: before anybody is told of it, and enough to go on after the broker."""

import pytest

from holdfast.model.protocol import PUBCOMP, PUBREC, PUBREL, V5
from holdfast.wire.codec import encode
from holdfast.wire.packets import Ack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.broker_backends import OpenSlowWorld
from tests.slow_world import KEPT, SlowWorld, connect, kept, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_a_qos_2_message_is_sent_when_its_entry_is_stored(slow_world: OpenSlowWorld) -> None:
    """Q1."""
    with slow_world() as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"x", 2, 1))
        world.receipts()
        assert reader.inbox == [], "the message is stored, its entry is not"
        world.receipts()
        assert reader.take(Publish).payload == b"x"


def test_pubrel_waits_until_the_pubrec_is_stored(slow_world: OpenSlowWorld) -> None:
    """Q1."""
    with slow_world() as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        world.connect("writer").send(Publish("a", b"x", 2, 1))
        packet_id = reader.take(Publish).packet_id
        world.hold()
        reader.send(Ack(PUBREC, packet_id))
        assert reader.inbox == []
        world.receipts()
        assert reader.take(Ack).kind == PUBREL


def test_messages_stay_behind_a_qos_2_message_that_is_being_stored() -> None:
    """[MQTT-4.6.0-5]: order on a topic holds also between QoS levels."""
    with SlowWorld() as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"2", 2, 1), Publish("a", b"1", 1, 2))
        world.receipts()
        writer.send(Publish("a", b"0"))
        assert reader.inbox == []
        world.receipts()
        world.receipts()
        assert reader.payloads() == [b"2", b"1", b"0"]


def test_a_session_that_ends_with_its_connection_pays_for_no_steps() -> None:
    with SlowWorld() as world:
        reader = world.connect("c")
        reader.subscribe("a")
        world.connect("writer").send(Publish("a", b"x", 2, 1))
        reader.send(Ack(PUBREC, reader.take(Publish).packet_id))
        assert world.stores.sessions.count() == 0


def test_a_broker_over_the_same_stores_goes_on_where_the_last_one_stopped() -> None:
    """Q1, Q2, R12: entries in flight keep their packet ids, a message sent again is not taken twice."""
    with World() as first:
        stores = first.stores
        client = kept(first, "c")
        client.subscribe("a", "own")
        writer = first.connect("writer")
        writer.send(Publish("a", b"1", 2, 1), Publish("a", b"2", 2, 2))
        one, two = client.take_all(Publish)
        client.send(Ack(PUBREC, one.packet_id))
        assert client.take(Ack).kind == PUBREL
        client.send(Publish("own", b"mine", 2, 77))
        client.inbox.clear()
    with World(stores=stores) as second:
        client = second.peer()
        client.send(connect("c"))
        connack = client.inbox.pop(0)
        assert getattr(connack, "session_present", False)
        kinds = [(type(packet), getattr(packet, "packet_id", 0)) for packet in client.inbox]
        assert kinds[:2] == [(Ack, one.packet_id), (Publish, two.packet_id)], "PUBREL and PUBLISH, in their order"
        again = client.inbox[1]
        assert isinstance(again, Publish)
        assert (again.payload, again.dup) == (b"2", True)
        client.inbox.clear()
        client.send(Publish("own", b"mine", 2, 77, dup=True))
        assert [packet for packet in client.inbox if isinstance(packet, Publish)] == []
        client.send(Ack(PUBREL, 77))
        assert [packet.kind for packet in client.inbox if isinstance(packet, Ack)] == [PUBREC, PUBCOMP]
        client.inbox.clear()
        second.connect("writer").send(Publish("a", b"3", 0))
        assert client.payloads() == [b"3"], "the subscription is there"


def test_a_clean_start_forgets_what_another_run_of_the_broker_stored() -> None:
    """Q2."""
    with World() as first:
        stores = first.stores
        kept(first, "c").subscribe("a")
    with World(stores=stores) as second:
        peer = second.connect("c", clean_start=True)
        assert not peer.connack.session_present
        assert second.stores.sessions.load("c") is None


def test_a_session_that_ended_is_not_loaded_before_its_end_is_written() -> None:
    """A session expires and its client returns within one turn of the loop: the stored one does not count."""
    with World() as world:
        old = kept(world, "c")
        old.subscribe("a")
        old.drop()
        client = world.broker.sessions.clients["c"]
        new = world.peer()
        packet = connect("c")

        def act() -> None:
            world.broker.sessions.end(client)
            world.broker.received(new.channel, encode(packet, V5))

        world.do(act)
        connack = new.inbox[0]
        assert getattr(connack, "session_present", None) is False
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert not stored.subscriptions


def test_a_will_is_stored_before_the_connack_also_without_expiry() -> None:
    with SlowWorld() as world:
        world.hold()
        peer = world.peer()
        peer.send(Connect(V5, "c", will=Will("w", b"bye")))
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.record.will is not None
        assert stored.record.will.payload == b"bye"
        assert peer.inbox == []


def test_a_will_that_waits_is_stored_and_goes_with_its_publication() -> None:
    with World() as world:
        will = Will("w", b"bye", 1, properties=Properties(will_delay_interval=5))
        peer = world.connect("c", properties=KEPT, will=will)
        peer.drop()
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.record.will is not None
        assert (stored.record.will.payload, stored.record.will.delay_s) == (b"bye", 5)
        assert stored.record.disconnected_us
        world.advance(6)
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.record.will is None


def test_a_goodbye_takes_the_stored_will_along() -> None:
    with World() as world:
        peer = world.connect("c", properties=KEPT, will=Will("w", b"bye"))
        peer.send(Disconnect())
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.record.will is None


def test_subscriptions_are_stored_with_their_suback() -> None:
    with SlowWorld() as world:
        peer = kept(world, "c")
        world.hold()
        peer.send(subscribe("a"))
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert list(stored.subscriptions) == [b"a"]
        assert peer.inbox == []
