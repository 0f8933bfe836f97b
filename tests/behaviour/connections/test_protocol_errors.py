"""What a client is told, and when it is closed, by the letter of the standard: sizes, acknowledgements, aliases."""

import pytest

from holdfast.broker.policy import Mqtt, Policy
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V31, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.wire.properties import Properties
from tests.world import Peer, World

pytestmark = pytest.mark.compiled


def small(size: int) -> Properties:
    return Properties(maximum_packet_size=size)


# ---- the client's Maximum Packet Size


def test_a_client_whose_connack_does_not_fit_is_closed_and_leaves_no_session() -> None:
    """[MQTT-3.1.2-24]"""
    with World() as world:
        kept = world.connect("a", clean_start=False, properties=Properties(session_expiry_interval=100))
        kept.subscribe("t")
        peer = world.peer()
        peer.send(Connect(V5, "a", clean_start=True, properties=small(10)))
        assert peer.closed
        assert [len(encode(packet, V5)) <= 10 for packet in peer.inbox] == [True]
        assert peer.take(Connack).reason == 0x95
        assert not kept.closed  # nobody was taken over for it
        assert len(world.broker.sessions.clients) == 1
        tiny = world.peer()
        tiny.send(Connect(V5, "b", properties=small(4)))
        assert (tiny.closed, tiny.inbox) == (True, [])


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        (Connect(V5, "a", properties=Properties(maximum_packet_size=20, authentication_method="x")), 0x8C),
        (Connect(V5, "a", will=Will("$SYS/will", b""), properties=small(20)), 0x87),
    ],
)
def test_a_refusal_leaves_out_its_explanation_where_that_does_not_fit(connect: Connect, reason: int) -> None:
    """[MQTT-3.2.2-19]"""
    with World() as world:
        peer = world.peer()
        peer.send(connect)
        assert peer.take(Connack) == Connack(reason)
        assert peer.closed


def test_a_connect_that_cannot_be_decoded_is_refused_within_its_maximum_packet_size() -> None:
    with World() as world:
        frame = encode(Connect(V5, "a", will=Will("xy", b""), properties=small(20)), V5)
        peer = world.peer()
        peer.send_bytes(frame.replace(b"xy", b"x#"))
        assert peer.take(Connack) == Connack(0x81)
        told = world.peer()
        told.send_bytes(encode(Connect(V5, "a", will=Will("xy", b"")), V5).replace(b"xy", b"x#"))
        assert "wildcard" in (told.take(Connack).properties.reason_string or "")


def test_a_suback_that_does_not_fit_closes_before_anything_is_subscribed() -> None:
    with World() as world:
        peer = world.connect("a", properties=small(24))
        peer.send(Subscribe(1, tuple(Subscription(parse_filter(b"f/%d" % number), 0) for number in range(20))))
        assert peer.take(Disconnect) == Disconnect(0x95)
        assert peer.closed
        assert world.broker.exchange.routes.route(b"f/3").targets == []


@pytest.mark.parametrize(("size", "most"), [(24, 19), (129, 124), (130, 124), (131, 125), (200, 194)])
def test_as_many_filters_are_answered_as_the_maximum_packet_size_has_room_for(size: int, most: int) -> None:
    with World() as world:
        filters = tuple(parse_filter(b"f/%d" % number) for number in range(most + 1))
        peer = world.connect("a", properties=small(size))
        peer.send(Subscribe(1, tuple(Subscription(topic_filter, 0) for topic_filter in filters[:-1])))
        assert len(encode(peer.take(Suback), V5)) <= size
        peer.send(Unsubscribe(2, filters[:-1]))
        assert len(encode(peer.take(Unsuback), V5)) <= size
        peer.send(Unsubscribe(3, filters))
        assert peer.take(Disconnect).reason == 0x95


# ---- acknowledgements of the wrong kind


def in_flight(world: World, version: int, qos: int) -> tuple[Peer, Publish]:
    """A subscriber with a window of 1 and one message in it."""
    properties = Properties(receive_maximum=1) if version == V5 else Properties()
    peer = world.connect("reader", version, properties=properties)
    peer.subscribe("t", qos=2)
    world.connect("writer").send(Publish("t", b"1", qos, 1))
    return peer, peer.take(Publish)


@pytest.mark.parametrize("version", [V31, V311, V5])
@pytest.mark.parametrize(("qos", "kind"), [(1, PUBREC), (1, PUBCOMP), (2, PUBACK), (2, PUBCOMP)])
def test_an_acknowledgement_of_the_wrong_kind_closes_the_connection(version: int, qos: int, kind: int) -> None:
    """[MQTT-4.8.0-1] of 3.1.1, [MQTT-4.13.1-1]: ignored, it would leave a window of 1 full for ever."""
    with World() as world:
        peer, message = in_flight(world, version, qos)
        peer.send(Ack(kind, message.packet_id))
        assert peer.closed
        assert [packet.reason for packet in peer.take_all(Disconnect)] == ([0x82] if version == V5 else [])


@pytest.mark.parametrize("kind", [PUBREC, PUBCOMP])
def test_a_refusing_acknowledgement_of_the_wrong_kind_closes_too(kind: int) -> None:
    with World() as world:
        peer, message = in_flight(world, V5, 1)
        peer.send(Ack(kind, message.packet_id, 0x92 if kind == PUBCOMP else 0x80))
        assert peer.take(Disconnect).reason == 0x82


def test_a_puback_for_a_released_message_closes_the_connection() -> None:
    with World() as world:
        peer, message = in_flight(world, V5, 2)
        peer.send(Ack(PUBREC, message.packet_id))
        assert peer.take(Ack).kind == PUBREL
        peer.send(Ack(PUBREC, message.packet_id))  # once more: it may not have seen PUBREL
        assert peer.take(Ack).kind == PUBREL
        peer.send(Ack(PUBACK, message.packet_id))
        assert peer.take(Disconnect).reason == 0x82


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("kind", [PUBACK, PUBREC, PUBCOMP])
def test_an_acknowledgement_of_an_unknown_id_is_tolerated(version: int, kind: int) -> None:
    with World() as world:
        peer, message = in_flight(world, version, 1)
        peer.send(Ack(kind, 4711))
        assert not peer.closed
        peer.inbox.clear()
        peer.send(Ack(PUBACK, message.packet_id), Ack(PUBACK, message.packet_id))  # twice is once too often
        assert not peer.closed
        world.connect("writer").send(Publish("t", b"2", 1, 1))
        assert peer.payloads() == [b"2"]


# ---- topics and aliases


def test_an_alias_without_a_topic_is_a_protocol_error() -> None:
    """v5 3.3.4; an alias that is too large stays 0x94."""
    with World() as world:
        peer = world.connect("a")
        peer.send(Publish("", b"1", properties=Properties(topic_alias=3)))
        assert peer.take(Disconnect).reason == 0x82
        peer = world.connect("a")
        peer.send(Publish("t", b"1", properties=Properties(topic_alias=33)))
        assert peer.take(Disconnect).reason == 0x94


# ---- keep alive


BOUND = Policy(mqtt=Mqtt(max_keepalive=30))


@pytest.mark.parametrize("version", [V31, V311])
@pytest.mark.parametrize("keep_alive_s", [0, 31])
def test_an_mqtt_3_client_beyond_the_longest_keep_alive_is_refused_and_told_to_the_log(
    version: int, keep_alive_s: int
) -> None:
    with World(BOUND) as world:
        peer = world.peer(version)
        peer.send(Connect(version, "a", keep_alive_s=keep_alive_s))
        assert peer.take(Connack).reason == 2
        assert peer.closed
        world.stores.drops.close_window()
        assert "max_keepalive is 30 s" in world.stores.drops.recent[-1].detail
        inside = world.connect("a", version, keep_alive_s=30)
        assert inside.connack.reason == 0


@pytest.mark.parametrize("keep_alive_s", [0, 31])
def test_an_mqtt_5_client_is_told_the_longest_keep_alive(keep_alive_s: int) -> None:
    with World(BOUND) as world:
        peer = world.connect("a", keep_alive_s=keep_alive_s)
        assert peer.connack.properties.server_keep_alive == 30
        world.advance(46)
        gone = peer.take(Disconnect)
        assert gone.reason == 0x8D
        assert "45 s" in (gone.properties.reason_string or "")
