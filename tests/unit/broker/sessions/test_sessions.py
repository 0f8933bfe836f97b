"""Sessions through the broker: resume, expiry, takeover, wills, shared groups."""

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Limits, Mqtt, Policy, Sessions
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.wire.properties import Properties
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

KEPT = Properties(session_expiry_interval=100)


def persistent(world: World, client_id: str, *, version: int = V5) -> Peer:
    """A client with a session that outlives it."""
    if version == V5:
        return world.connect(client_id, V5, clean_start=False, properties=KEPT)
    return world.connect(client_id, version, clean_start=False)


@pytest.mark.parametrize("version", [V311, V5])
def test_a_session_is_resumed_with_its_subscriptions_and_its_backlog(version: int) -> None:
    with World() as world:
        first = persistent(world, "c", version=version)
        assert not first.connack.session_present
        first.subscribe("a")
        first.drop()
        writer = world.connect("writer", version)
        for number in range(3):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        second = persistent(world, "c", version=version)
        assert second.connack.session_present
        assert second.payloads() == [b"0", b"1", b"2"]


def test_what_was_in_flight_comes_again_in_order_with_its_packet_ids_and_dup() -> None:
    with World() as world:
        first = persistent(world, "c")
        first.subscribe("a")
        writer = world.connect("writer")
        writer.send(Publish("a", b"1", 1, 1), Publish("a", b"2", 2, 2), Publish("a", b"3", 1, 3))
        sent = first.take_all(Publish)
        first.drop()
        writer.send(Publish("a", b"4", 1, 4))
        again = persistent(world, "c").take_all(Publish)
        assert [(m.payload, m.packet_id) for m in again[:3]] == [(m.payload, m.packet_id) for m in sent]
        assert [m.dup for m in again] == [True, True, True, False]
        assert again[3].payload == b"4"


def test_after_pubrec_only_pubrel_comes_again() -> None:
    """T8."""
    with World() as world:
        first = persistent(world, "c")
        first.subscribe("a")
        world.connect("writer").send(Publish("a", b"x", 2, 1))
        packet_id = first.take(Publish).packet_id
        first.send(Ack(PUBREC, packet_id))
        assert first.take(Ack) == Ack(PUBREL, packet_id)
        first.drop()
        second = persistent(world, "c")
        assert second.inbox == [Ack(PUBREL, packet_id)]
        second.send(Ack(PUBCOMP, packet_id))
        second.drop()
        assert persistent(world, "c").inbox == []


def test_a_smaller_receive_maximum_paces_what_comes_again() -> None:
    with World() as world:
        first = persistent(world, "c")
        first.subscribe("a", qos=1)
        writer = world.connect("writer")
        for number in range(4):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        first.drop()
        narrow = Properties(session_expiry_interval=100, receive_maximum=1)
        second = world.connect("c", clean_start=False, properties=narrow)
        seen: list[bytes] = []
        while second.inbox:
            message = second.take(Publish)
            assert second.inbox == []
            seen.append(message.payload)
            second.send(Ack(PUBACK, message.packet_id))
        assert seen == [b"0", b"1", b"2", b"3"]


def test_a_clean_start_forgets_the_session() -> None:
    """Q2: also the packet ids of QoS 2 messages that were taken."""
    with World() as world:
        first = persistent(world, "c")
        first.subscribe("a")
        first.send(Publish("b", b"", 2, 7))
        first.drop()
        world.connect("writer").send(Publish("a", b"x", 1, 1))
        second = world.connect("c", clean_start=True, properties=KEPT)
        assert not second.connack.session_present
        assert second.inbox == []
        world.connect("reader").subscribe("b")
        second.send(Publish("b", b"new", 2, 7))
        assert second.take(Ack).reason == 0
        assert world.broker.exchange.counters.drops == {"session_ended": 1}


def test_a_session_ends_when_its_expiry_has_passed_and_not_before() -> None:
    with World() as world:
        persistent(world, "c").drop()
        world.advance(99)
        peer = persistent(world, "c")
        assert peer.connack.session_present
        peer.drop()
        world.advance(101)
        assert not persistent(world, "c").connack.session_present
        assert world.broker.sessions.expired == 1


def test_a_session_does_not_expire_while_its_client_is_connected() -> None:
    with World() as world:
        peer = persistent(world, "c")
        world.advance(1000)
        peer.send(Pingreq())
        assert peer.take(Pingresp) == Pingresp()
        peer.drop()
        assert persistent(world, "c").connack.session_present


def test_disconnect_can_change_the_expiry_but_not_from_zero() -> None:
    with World() as world:
        peer = persistent(world, "c")
        peer.send(Disconnect(properties=Properties(session_expiry_interval=0)))
        assert not persistent(world, "c").connack.session_present
        fleeting = world.connect("d")
        fleeting.send(Disconnect(properties=Properties(session_expiry_interval=10)))
        assert fleeting.take(Disconnect).reason == 0x82


def test_the_newest_connection_takes_over_and_the_old_one_is_told() -> None:
    """R4, R12."""
    with World() as world:
        old = persistent(world, "c")
        old.subscribe("a")
        new = persistent(world, "c")
        assert old.take(Disconnect).reason == 0x8E
        assert old.closed
        assert new.connack.session_present
        world.connect("writer").send(Publish("a", b"x"))
        assert new.payloads() == [b"x"]


def test_a_takeover_neither_loses_nor_doubles_qos_2() -> None:
    """Q8."""
    with World() as world:
        old = persistent(world, "c")
        old.subscribe("a")
        writer = world.connect("writer")
        writer.send(Publish("a", b"x", 2, 1))
        packet_id = old.take(Publish).packet_id
        new = persistent(world, "c")
        message = new.take(Publish)
        assert (message.payload, message.packet_id, message.dup) == (b"x", packet_id, True)
        new.send(Ack(PUBREC, packet_id), Ack(PUBCOMP, packet_id))
        assert new.take(Ack) == Ack(PUBREL, packet_id)
        assert new.inbox == []


def test_a_thousand_connects_of_one_client_id_leave_exactly_one() -> None:
    with World() as world:
        peers = [world.peer() for _number in range(1000)]
        connect = encode(Connect(V5, "c", clean_start=False), V5)

        def all_at_once() -> None:
            for peer in peers:
                world.broker.received(peer.channel, connect)

        world.do(all_at_once)
        alive = [peer for peer in peers if not peer.closed]
        assert alive == [peers[-1]]
        assert len(world.broker.connections) == 1
        alive[0].inbox.clear()
        alive[0].send(Pingreq())
        assert alive[0].take(Pingresp) == Pingresp()


def test_an_older_transport_does_not_take_over_a_newer_one() -> None:
    """R1, R6: versions are given when the transport connects; the CONNECT of a slow one comes too late."""
    with World() as world:
        slow = world.peer()
        fast = world.connect("c")
        slow.send(Connect(V5, "c", clean_start=True))
        assert slow.take(Connack).reason == 0x89
        assert slow.closed
        fast.send(Pingreq())
        assert fast.take(Pingresp) == Pingresp()


WILL = Will("will", b"gone", 1, properties=Properties(content_type="t"))


def reader_of_wills(world: World) -> Peer:
    reader = world.connect("reader")
    reader.subscribe("will")
    return reader


def test_a_will_is_published_when_the_connection_drops_and_not_after_goodbye() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("a", will=WILL).drop()
        message = reader.take(Publish)
        assert (message.payload, message.properties) == (b"gone", Properties(content_type="t"))
        world.connect("b", will=WILL).send(Disconnect())
        assert reader.inbox == []
        world.connect("c", will=WILL).send(Disconnect(0x04))
        assert reader.payloads() == [b"gone"]


def test_a_will_is_published_when_the_keep_alive_passes() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        silent = world.connect("a", will=WILL, keep_alive_s=10)
        world.advance(14.9)
        assert reader.inbox == []
        world.advance(0.2)
        assert reader.payloads() == [b"gone"]
        assert silent.take(Disconnect).reason == 0x8D


DELAYED = Will("will", b"gone", properties=Properties(will_delay_interval=30))


def test_a_delayed_will_is_dropped_when_the_client_returns_in_time() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("a", will=DELAYED, properties=KEPT).drop()
        world.advance(29)
        persistent(world, "a")
        world.advance(60)
        assert reader.inbox == []


def test_a_delayed_will_comes_after_its_delay_or_with_the_end_of_the_session() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("a", will=DELAYED, properties=KEPT).drop()
        world.advance(31)
        assert reader.payloads() == [b"gone"]
        world.connect("b", will=DELAYED, properties=Properties(session_expiry_interval=5)).drop()
        world.advance(6)
        assert reader.payloads() == [b"gone"]


def test_a_delayed_will_is_dropped_when_the_client_returns_with_a_clean_start() -> None:
    """[MQTT-3.1.2-8]: a new connection of the client id, whatever becomes of its session."""
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("c", will=DELAYED, properties=KEPT).drop()
        world.connect("c", clean_start=True)
        world.advance(60)
        assert reader.payloads() == []


@pytest.mark.parametrize(("clean_start", "published"), [(True, [b"gone"]), (False, [])])
def test_the_delayed_will_of_a_connection_that_is_taken_over_comes_if_its_session_ends(
    clean_start: bool, published: list[bytes]
) -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("c", will=DELAYED, properties=KEPT)
        world.connect("c", clean_start=clean_start, properties=KEPT)
        assert reader.payloads() == published
        world.advance(60)
        assert reader.payloads() == []


def test_a_refused_connect_leaves_a_delayed_will_waiting() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("c", will=DELAYED, properties=KEPT).drop()
        refused = world.peer()
        refused.send(Connect(V5, "c", clean_start=True, properties=Properties(authentication_method="x")))
        assert refused.take(Connack).reason == 0x8C
        world.advance(31)
        assert reader.payloads() == [b"gone"]


def test_a_will_is_published_on_takeover() -> None:
    with World() as world:
        reader = reader_of_wills(world)
        world.connect("a", will=WILL, properties=KEPT)
        persistent(world, "a")
        assert reader.payloads() == [b"gone"]


def members(world: World, count: int) -> list[Peer]:
    peers = [persistent(world, f"m{number}") for number in range(count)]
    for peer in peers:
        peer.subscribe("$share/g/a", qos=1)
    return peers


@pytest.mark.parametrize("strategy", ["round_robin", "least_inflight"])
def test_a_group_splits_the_messages(strategy: str) -> None:
    """L15, without the replay."""
    policy = Policy(sessions=Sessions(share_strategy=strategy))  # type: ignore[arg-type]
    with World(policy) as world:
        peers = members(world, 3)
        writer = world.connect("writer")
        for number in range(9):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        shares = [peer.payloads() for peer in peers]
        assert [len(share) for share in shares] == [3, 3, 3]
        assert sorted(payload for share in shares for payload in share) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("strategy", ["hash", "sticky"])
def test_a_group_keeps_the_messages_of_a_publisher_together(strategy: str) -> None:
    policy = Policy(sessions=Sessions(share_strategy=strategy))  # type: ignore[arg-type]
    with World(policy) as world:
        peers = members(world, 3)
        writer = world.connect("writer")
        for number in range(6):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        assert sorted(len(peer.payloads()) for peer in peers) == [0, 0, 6]


def test_a_leavers_unacknowledged_qos_1_goes_to_the_others() -> None:
    """L15."""
    with World() as world:
        one, two = members(world, 2)
        writer = world.connect("writer")
        for number in range(4):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        kept = two.payloads()
        one.drop()
        assert sorted(kept + two.payloads()) == [b"0", b"1", b"2", b"3"]
        assert persistent(world, "m0").inbox == []


def test_a_group_without_a_member_online_keeps_its_backlog() -> None:
    with World() as world:
        one, two = members(world, 2)
        one.drop()
        two.drop()
        writer = world.connect("writer")
        for number in range(3):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        assert persistent(world, "m1").payloads() == [b"0", b"1", b"2"]
        assert persistent(world, "m0").inbox == []


def test_unsubscribe_tells_what_there_was() -> None:
    with World() as world:
        peer = world.connect("c")
        peer.subscribe("a")
        peer.send(Unsubscribe(2, (parse_filter(b"a"), parse_filter(b"b"))))
        assert peer.take(Unsuback).reasons == (0x00, 0x11)
        world.connect("writer").send(Publish("a", b"x"))
        assert peer.inbox == []


def test_a_replaced_subscription_keeps_the_backlog() -> None:
    """Q3."""
    with World() as world:
        peer = world.connect("c", properties=Properties(receive_maximum=1))
        peer.subscribe("a", qos=1)
        world.connect("writer").send(Publish("a", b"in flight", 1, 1), Publish("a", b"queued", 1, 2))
        in_flight = peer.take(Publish)
        peer.subscribe("a", qos=2)
        peer.send(Ack(PUBACK, in_flight.packet_id))
        assert peer.payloads() == [b"queued"]


@pytest.mark.parametrize(
    ("policy", "text", "reason"),
    [
        (Policy(limits=Limits(max_subscriptions=1)), "b", 0x97),
        (Policy(mqtt=Mqtt(wildcards_available=False)), "+", 0xA2),
        (Policy(mqtt=Mqtt(shared_available=False)), "$share/g/b", 0x9E),
        (Policy(mqtt=Mqtt(max_topic_levels=2)), "a/b/c", 0x8F),
        (Policy(), "$replay/-2h/a", 0x83),
    ],
)
def test_a_subscription_that_cannot_be_is_refused_and_the_others_hold(policy: Policy, text: str, reason: int) -> None:
    with World(policy) as world:
        peer = world.connect("c")
        assert peer.subscribe("a", text) == [2, reason]
        world.connect("writer").send(Publish("a", b"x"))
        assert peer.payloads() == [b"x"]


def test_the_session_expiry_is_bounded_by_the_server() -> None:
    with World(Policy(mqtt=Mqtt(max_session_expiry_s=50))) as world:
        peer = persistent(world, "c")
        assert peer.connack.properties.session_expiry_interval == 50
        peer.drop()
        world.advance(51)
        assert not persistent(world, "c").connack.session_present


def test_tenants_may_use_the_same_client_id() -> None:
    """A mount point keeps sessions apart, not only topics."""
    with World() as world:
        peers: list[Peer] = []
        for mount_point in ("", "a/", "b/"):
            peer = world.peer(V5, Origin("test", "127.0.0.1", 1, "tcp", mount_point=mount_point, allow_anonymous=True))
            peer.send(Connect(V5, "same", clean_start=False, properties=KEPT))
            assert not peer.take(Connack).session_present
            peer.subscribe("t")
            peers.append(peer)
        assert not any(peer.closed for peer in peers)
        peers[1].send(Publish("t", b"of a"))
        assert [peer.payloads() for peer in peers] == [[], [b"of a"], []]


def test_what_came_before_a_disconnect_is_acknowledged_and_what_comes_behind_it_is_not_read() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("#")
        writer = world.connect("writer")
        writer.send(Publish("a", b"before", 1, 1), Disconnect(), Publish("a", b"behind", 1, 2))
        assert writer.take_all(Ack) == [Ack(PUBACK, 1)]
        assert writer.closed
        assert reader.payloads() == [b"before"]
