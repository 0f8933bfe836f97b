"""Messages through the broker: QoS, order, retained, expiry, aliases, overlapping subscriptions."""

import pytest

from holdfast.broker.policy import Mqtt, Policy, Sessions
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V31, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Disconnect, Publish, Suback, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.broker_backends import OpenSlowWorld
from tests.world import World

pytestmark = pytest.mark.compiled

VERSIONS = [V31, V311, V5]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_a_message_arrives_with_the_lower_qos(version: int, published: int, subscribed: int) -> None:
    with World() as world:
        reader = world.connect("reader", version)
        reader.subscribe("a/+", qos=subscribed)
        writer = world.connect("writer", version)
        writer.send(Publish("a/b", b"x", published, 7 if published else 0))
        message = reader.take(Publish)
        assert (message.topic, message.payload, message.qos) == ("a/b", b"x", min(published, subscribed))
        if published:
            assert writer.take(Ack).kind == (PUBACK if published == 1 else PUBREC)


def test_qos_2_is_delivered_once_however_often_it_is_sent(slow_world: OpenSlowWorld) -> None:
    with slow_world() as world:
        reader = world.connect("reader")
        reader.subscribe("a")
        writer = world.connect("writer")
        for dup in (False, True, True):
            writer.send(Publish("a", b"x", 2, 9, dup=dup))
            assert writer.take(Ack) == Ack(PUBREC, 9)
        writer.send(Ack(PUBREL, 9))
        assert writer.take(Ack) == Ack(PUBCOMP, 9)
        assert reader.payloads() == [b"x"]
        writer.send(Publish("a", b"y", 2, 9))
        assert reader.payloads() == [b"y"]


def test_an_unknown_pubrel_is_answered_with_not_found_in_mqtt_5() -> None:
    with World() as world:
        writer = world.connect("writer")
        writer.send(Ack(PUBREL, 5))
        assert writer.take(Ack) == Ack(PUBCOMP, 5, 0x92)


def test_acknowledgements_leave_in_the_order_of_arrival(slow_world: OpenSlowWorld) -> None:
    """Q6: refusals and SUBACKs keep their place among the others."""
    with slow_world() as world:
        writer = world.connect("writer")
        line = Subscription(parse_filter(b"a"), 0)
        writer.send(
            Publish("x", b"", 1, 1),
            Publish("$SYS/forbidden", b"", 1, 2),
            Subscribe(3, (line,)),
            Publish("x", b"", 2, 4),
            Publish("x", b"", 1, 5),
        )
        ids = [packet.packet_id for packet in writer.inbox if isinstance(packet, Ack | Suback)]
        assert ids == [1, 2, 3, 4, 5]
        refused = [packet.packet_id for packet in writer.inbox if isinstance(packet, Ack) and packet.reason >= 0x80]
        assert refused == [2]


def test_overlapping_subscriptions_give_one_copy_with_the_highest_qos_and_all_identifiers() -> None:
    with World() as world:
        reader = world.connect("reader")
        for number, text in enumerate(["a/#", "a/+", "+/b"], start=1):
            line = Subscription(parse_filter(text.encode()), min(number, 2))
            reader.send(Subscribe(number, (line,), Properties(subscription_identifiers=(number * 10,))))
            reader.take(Suback)
        world.connect("writer").send(Publish("a/b", b"x", 2, 1))
        message = reader.take(Publish)
        assert message.qos == 2
        assert sorted(message.properties.subscription_identifiers) == [10, 20, 30]
        assert reader.inbox == []


def test_no_local_keeps_a_clients_own_messages_from_it() -> None:
    with World() as world:
        one = world.connect("one")
        one.subscribe("a", no_local=True)
        two = world.connect("two")
        two.subscribe("a", no_local=True)
        one.send(Publish("a", b"mine"))
        assert one.inbox == []
        assert two.payloads() == [b"mine"]


@pytest.mark.parametrize(("keep", "expected"), [(False, False), (True, True)])
def test_retain_as_published_decides_about_the_flag(keep: bool, expected: bool) -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("a", retain_as_published=keep)
        world.connect("writer").send(Publish("a", b"x", retain=True))
        assert reader.take(Publish).retain is expected


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_waits_for_new_subscribers(qos: int) -> None:
    """M1: a later one replaces it, an empty one removes it."""
    with World() as world:
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"old", qos, 1 if qos else 0, retain=True))
        writer.send(Publish("a/b", b"new", qos, 2 if qos else 0, retain=True))
        reader = world.connect("reader")
        reader.subscribe("a/#")
        message = reader.take(Publish)
        assert (message.payload, message.retain, message.qos) == (b"new", True, qos)
        writer.send(Publish("a/b", b"", qos, 3 if qos else 0, retain=True))
        late = world.connect("late")
        late.subscribe("a/#")
        assert late.inbox == []


@pytest.mark.parametrize(("handling", "again"), [(0, [b"r"]), (1, []), (2, [])])
def test_retain_handling_decides_what_a_repeated_subscription_gets(handling: int, again: list[bytes]) -> None:
    with World() as world:
        world.connect("writer").send(Publish("a", b"r", retain=True))
        reader = world.connect("reader")
        reader.subscribe("a", retain_handling=handling)
        assert reader.payloads() == ([] if handling == 2 else [b"r"])
        reader.subscribe("a", retain_handling=handling)
        assert reader.payloads() == again


def test_many_retained_messages_come_as_the_client_takes_them() -> None:
    policy = Policy(mqtt=Mqtt(max_inflight=10))
    with World(policy) as world:
        writer = world.connect("writer")
        for number in range(50):
            writer.send(Publish(f"a/{number:02}", b"r", 1, number + 1, retain=True))
        reader = world.connect("reader")
        reader.subscribe("a/#")
        seen: list[str] = []
        while reader.inbox:
            message = reader.take(Publish)
            seen.append(message.topic)
            assert len(reader.inbox) < 10
            reader.send(Ack(PUBACK, message.packet_id))
        assert seen == [f"a/{number:02}" for number in range(50)]


def test_an_expired_message_is_not_delivered_and_a_waiting_one_says_what_remains() -> None:
    """T10, M2."""
    with World() as world:
        world.connect("reader", properties=Properties(session_expiry_interval=100)).subscribe("a")
        world.broker.connections.close(next(iter(world.broker.connections)), b"")
        writer = world.connect("writer")
        writer.send(Publish("a", b"short", 1, 1, properties=Properties(message_expiry_interval=5)))
        writer.send(Publish("a", b"long", 1, 2, properties=Properties(message_expiry_interval=60)))
        world.advance(20)
        reader = world.connect("reader", clean_start=False)
        (message,) = reader.take_all(Publish)
        assert message.payload == b"long"
        assert message.properties.message_expiry_interval == 40
        assert world.broker.exchange.counters.drops == {"expired": 1}


def test_topic_aliases_of_a_publisher_stay_on_its_connection() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("#")
        writer = world.connect("writer")
        writer.send(Publish("long/topic", b"1", properties=Properties(topic_alias=3, content_type="t")))
        writer.send(Publish("", b"2", properties=Properties(topic_alias=3)))
        first, second = reader.take_all(Publish)
        assert (first.topic, second.topic) == ("long/topic", "long/topic")
        assert first.properties == Properties(content_type="t")
        assert second.properties == Properties()


def test_the_broker_gives_aliases_to_subscribers_that_take_them() -> None:
    with World() as world:
        reader = world.connect("reader", properties=Properties(topic_alias_maximum=1))
        reader.subscribe("#", qos=0)
        writer = world.connect("writer")
        for topic in ("a/long/topic", "a/long/topic", "another"):
            writer.send(Publish(topic, b""))
        first, second, third = reader.take_all(Publish)
        assert (first.topic, first.properties.topic_alias) == ("a/long/topic", 1)
        assert (second.topic, second.properties.topic_alias) == ("", 1)
        assert (third.topic, third.properties.topic_alias) == ("another", None)


def test_what_is_too_large_for_a_client_is_dropped_and_uses_no_quota() -> None:
    with World() as world:
        limits = Properties(maximum_packet_size=60, receive_maximum=1)
        reader = world.connect("reader", properties=limits)
        reader.subscribe("a")
        writer = world.connect("writer")
        writer.send(Publish("a", b"x" * 100, 1, 1), Publish("a", b"small", 1, 2))
        assert reader.payloads() == [b"small"]
        assert world.broker.exchange.counters.drops == {"packet_too_large": 1}


def test_the_clients_receive_maximum_is_kept() -> None:
    with World() as world:
        reader = world.connect("reader", properties=Properties(receive_maximum=2))
        reader.subscribe("a", qos=1)
        writer = world.connect("writer")
        for number in range(5):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        first, second = reader.take_all(Publish)
        reader.send(Ack(PUBACK, second.packet_id))
        assert reader.payloads() == [b"2"]
        reader.send(Ack(PUBACK, first.packet_id))
        assert reader.payloads() == [b"3"]


def test_a_client_that_exceeds_the_servers_receive_maximum_is_disconnected() -> None:
    with World(Policy(mqtt=Mqtt(receive_maximum=3))) as world:
        writer = world.connect("writer")
        writer.send(*[Publish("a", b"", 2, number) for number in range(1, 5)])
        assert isinstance(writer.inbox[-1], Disconnect)
        assert writer.inbox[-1].reason == 0x93


def test_over_the_queue_limit_the_oldest_go_and_are_counted() -> None:
    with World(Policy(sessions=Sessions(max_queued_messages=3))) as world:
        offline = world.connect("reader", properties=Properties(session_expiry_interval=100))
        offline.subscribe("a")
        offline.drop()
        writer = world.connect("writer")
        for number in range(5):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        reader = world.connect("reader", clean_start=False)
        assert reader.payloads() == [b"2", b"3", b"4"]
        assert world.broker.exchange.counters.drops == {"queue_full": 2}


def test_qos_0_is_never_delivered_on_resume(slow_world: OpenSlowWorld) -> None:
    """Q5."""
    with slow_world() as world:
        offline = world.connect("reader", properties=Properties(session_expiry_interval=100))
        offline.subscribe("a")
        offline.drop()
        world.connect("writer").send(Publish("a", b"zero"))
        assert world.connect("reader", clean_start=False).inbox == []


def test_a_client_that_does_not_read_is_not_fed_and_loses_only_qos_0() -> None:
    """T12."""
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("a")
        world.broker.writable(reader.channel, yes=False)
        writer = world.connect("writer")
        writer.send(Publish("a", b"zero"), Publish("a", b"one", 1, 1))
        assert reader.inbox == []
        assert not reader.reading
        world.broker.writable(reader.channel, yes=True)
        world.settle()
        assert reader.payloads() == [b"one"]
        assert reader.reading
        assert world.broker.exchange.counters.drops == {"slow_client": 1}


def test_nobody_publishes_in_the_brokers_name() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/#")
        writer = world.connect("writer")
        writer.send(Publish("$SYS/broker/uptime", b"lie", 1, 1))
        assert writer.take(Ack) == Ack(PUBACK, 1, 0x87)
        assert reader.inbox == []


def test_a_payload_that_is_not_what_it_claims_is_refused_when_asked_for() -> None:
    with World(Policy(mqtt=Mqtt(check_payload_format=True))) as world:
        writer = world.connect("writer")
        text = Properties(payload_format_indicator=1)
        writer.send(Publish("a", b"\xff", 1, 1, properties=text), Publish("a", "ü".encode(), 1, 2, properties=text))
        assert writer.take(Ack) == Ack(PUBACK, 1, 0x99)
        assert writer.take(Ack) == Ack(PUBACK, 2, 0x10)


def test_a_flood_of_packets_is_worked_off_over_several_turns() -> None:
    with World() as world:
        reader = world.connect("reader", V311)
        reader.subscribe("a", qos=0)
        writer = world.connect("writer", V311)
        writer.send(*[Publish("a", b"%d" % number) for number in range(5000)])
        assert reader.payloads() == [b"%d" % number for number in range(5000)]
        assert writer.reading
