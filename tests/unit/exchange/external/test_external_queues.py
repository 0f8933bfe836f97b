"""Clients whose queue is outside the log."""

import asyncio

from holdfast.broker.policy import ClientClass, Policy, Sessions
from holdfast.exchange.drops import DROP_QUEUE, DROP_QUOTA
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.wire.packets import Ack, Connack, Disconnect, Publish
from holdfast.wire.properties import Properties
from tests.queue_world import BACKEND, QueueWorld
from tests.slow_world import KEPT, MOUNTED, MOUNTED_2, connect, kept


def test_a_live_client_gets_its_message_when_the_queue_has_it() -> None:
    """T11: stored first, delivered after."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 1, 7))
        assert writer.take(Ack) == Ack(PUBACK, 7)
        message = reader.take(Publish)
        assert (message.payload, message.qos, message.dup) == (b"1", 1, False)
        assert len(world.store.appends) == 1
        assert world.size("reader") == 1
        reader.send(Ack(PUBACK, message.packet_id))
        assert world.size("reader") == 0


def test_an_absent_client_finds_its_messages_in_order() -> None:
    """T12: a slow client loses nothing within its limits."""
    with QueueWorld() as world:
        kept(world, "reader").subscribe("a/#", qos=1)
        world.connect("other")
        reader = kept(world, "reader")
        reader.drop()
        writer = world.connect("writer")
        for number in range(600):
            writer.send(Publish("a/b", str(number).encode(), 1, number + 1))
        assert len(writer.take_all(Ack)) == 600
        assert world.size("reader") == 600
        reader = kept(world, "reader")
        got = []
        while reader.inbox:
            for message in reader.take_all(Publish):
                got.append(message.payload)
                reader.send(Ack(PUBACK, message.packet_id))
        assert got == [str(number).encode() for number in range(600)]
        assert world.size("reader") == 0


def test_a_qos_2_message_goes_through_all_its_steps() -> None:
    """T8: PUBREC marks the entry, PUBCOMP forgets it."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 2, 7))
        assert writer.take(Ack) == Ack(PUBREC, 7)
        message = reader.take(Publish)
        reader.send(Ack(PUBREC, message.packet_id))
        assert reader.take(Ack).kind == PUBREL
        assert world.size("reader") == 1
        reader.drop()
        reader = kept(world, "reader")
        assert reader.take(Ack) == Ack(PUBREL, message.packet_id)
        assert not reader.inbox


def test_ending_a_session_removes_its_queue() -> None:
    """T9: by a clean start, by its expiry, by DISCONNECT."""
    with QueueWorld() as world:
        for client_id in ("anew", "expired", "parted"):
            reader = kept(world, client_id)
            reader.subscribe("a/#", qos=1)
            if client_id != "parted":
                reader.drop()
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        assert sorted(world.queues()) == ["anew", "expired", "parted"]
        world.connect("anew", clean_start=True)
        reader.send(Disconnect(properties=Properties(session_expiry_interval=0)))
        assert world.queues() == ["expired"]
        world.advance(101)
        assert world.queues() == []
        assert not kept(world, "expired").connack.session_present


def test_a_session_is_present_while_it_lasts() -> None:
    """R12"""
    with QueueWorld() as world:
        assert not kept(world, "reader").connack.session_present
        again = world.peer()
        again.send(connect("reader"))
        assert again.take(Connack).session_present


def test_a_takeover_goes_on_where_the_old_connection_was() -> None:
    """Q8: what is in flight comes again under its packet id, what was not sent follows it."""
    with QueueWorld() as world:
        reader = kept(world, "reader", receive_maximum=2)
        reader.subscribe("a/#", qos=2)
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"%d" % number, 1 + number % 2, number) for number in range(1, 6)))
        before = reader.take_all(Publish)
        assert [message.payload for message in before] == [b"1", b"2"]
        reader = kept(world, "reader")
        after = reader.take_all(Publish)
        assert [message.payload for message in after] == [b"1", b"2", b"3", b"4", b"5"]
        assert [message.packet_id for message in after[:2]] == [message.packet_id for message in before]
        assert [message.dup for message in after] == [True, True, False, False, False]


def test_packet_ids_wrap_and_places_do_not() -> None:
    """T3: order holds, and no unacknowledged message loses its packet id."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        client = world.broker.sessions.clients["reader"]
        client.session.window.go_on_behind(65_530)
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"%d" % number, 1, number) for number in range(1, 11)))
        messages = reader.take_all(Publish)
        assert [message.payload for message in messages] == [b"%d" % number for number in range(1, 11)]
        assert [message.packet_id for message in messages] == [*range(65_531, 65_536), 1, 2, 3, 4, 5]
        reader.send(*(Ack(PUBACK, message.packet_id) for message in messages))
        assert world.size("reader") == 0


def test_the_first_class_that_matches_says_where_messages_wait() -> None:
    classes = {
        "few": ClientClass(clients="device-[0-9]", queue=BACKEND, max_queued_messages=2),
        "devices": ClientClass(clients="device-*", queue=BACKEND),
        "all": ClientClass(clients="*-log"),
    }
    with QueueWorld(Policy(classes=classes)) as world:
        for client_id in ("device-1", "device-log", "other-log", "other"):
            reader = kept(world, client_id)
            reader.subscribe("a/#", qos=1)
            reader.drop()
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"%d" % number, 1, number) for number in range(1, 6)))
        assert sorted(world.queues()) == ["device-1", "device-log"]
        assert (world.size("device-1"), world.size("device-log")) == (2, 5)
        assert kept(world, "device-1").payloads() == [b"4", b"5"]
        assert kept(world, "other").payloads() == [b"1", b"2", b"3", b"4", b"5"]
        assert world.broker.exchange.counters.drops[DROP_QUEUE] == 3


def test_a_session_that_ends_with_its_connection_has_no_queue() -> None:
    with QueueWorld() as world:
        reader = world.connect("reader")
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        assert reader.payloads() == [b"1"]
        assert world.queues() == []
        assert not world.store.appends


def test_a_full_queue_that_refuses_does_not_hold_up_the_publisher() -> None:
    """S7: what it does not take is noted."""
    with QueueWorld(Policy(sessions=Sessions(queue=BACKEND, max_queued_messages=1, on_full="refuse"))) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 1, 1), Publish("a/b", b"2", 1, 2))
        assert len(writer.take_all(Ack)) == 2
        assert [(event.reason, event.client, event.count) for event in world.broker.exchange.drops.take()] == [
            (DROP_QUOTA, "reader", 1)
        ]
        assert kept(world, "reader").payloads() == [b"1"]


def test_what_is_delivered_carries_what_remains_of_its_expiry() -> None:
    """T10"""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        for number, expiry_s in enumerate((5, 60), 1):
            properties = Properties(message_expiry_interval=expiry_s)
            writer.send(Publish("a/b", b"%d" % number, 1, number, properties=properties))
        world.advance(10)
        message = kept(world, "reader").take(Publish)
        assert (message.payload, message.properties.message_expiry_interval) == (b"2", 50)


def test_messages_of_one_publisher_stay_in_order_for_who_is_live_and_who_is_behind() -> None:
    with QueueWorld() as world:
        reader = kept(world, "reader", receive_maximum=3)
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        got: list[bytes] = []
        for number in range(1, 200):
            writer.send(Publish("a/b", b"%d" % number, 1, number))
            if number % 3 == 0 and reader.inbox:
                for message in reader.take_all(Publish):
                    got.append(message.payload)
                    reader.send(Ack(PUBACK, message.packet_id))
        while reader.inbox:
            for message in reader.take_all(Publish):
                got.append(message.payload)
                reader.send(Ack(PUBACK, message.packet_id))
        assert got == [b"%d" % number for number in range(1, 200)]


def test_qos_0_no_local_retained_and_groups_are_as_for_everybody() -> None:
    """Q5: QoS 0 is for who is there."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("own/#", qos=1, no_local=True)
        reader.subscribe("zero/#", qos=0)
        reader.subscribe("$share/g/team/#", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("zero/a", b"0", 1, 1), Publish("team/a", b"t", 1, 2), Publish("own/a", b"o", 0))
        assert sorted(reader.payloads()) == [b"0", b"o", b"t"]
        reader.send(Publish("own/a", b"mine", 1, 1))
        assert reader.take(Ack).packet_id == 1
        assert world.queues() == []
        writer.send(Publish("kept/a", b"r", 1, 3, retain=True))
        reader.subscribe("kept/#", qos=1)
        message = reader.take(Publish)
        assert (message.payload, message.retain) == (b"r", True)


def test_a_backlog_comes_at_the_pace_that_is_set() -> None:
    with QueueWorld(Policy(sessions=Sessions(queue=BACKEND, backlog_rate=10))) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"%d" % number, 1, number) for number in range(1, 31)))
        reader = kept(world, "reader")
        got = len(reader.payloads())
        assert got == 1
        for number in range(2, 31):
            world.advance(0.09)
            assert not reader.inbox
            world.advance(0.01)
            assert reader.payloads() == [b"%d" % number]


def test_clients_of_two_mount_points_have_queues_of_their_own() -> None:
    with QueueWorld() as world:
        for origin in (MOUNTED, MOUNTED_2):
            reader = world.peer(origin=origin)
            reader.send(connect("reader"))
            reader.take(Connack)
            reader.subscribe("a/#", qos=1)
            reader.drop()
        writer = world.peer(origin=MOUNTED)
        writer.send(connect("writer"))
        writer.send(Publish("a/b", b"1", 1, 7))
        assert world.queues() == ["t1/%00reader"]
        reader = world.peer(origin=MOUNTED)
        reader.send(connect("reader"))
        assert reader.take(Connack).session_present
        message = reader.take(Publish)
        assert (message.topic, message.payload) == ("a/b", b"1")


def test_a_clean_start_begins_with_an_empty_queue() -> None:
    """T9: what the old session had read or acknowledged last does not touch the new one's messages."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"old", 1, number) for number in range(1, 6)))
        old = reader.take_all(Publish)
        reader.send(*(Ack(PUBACK, message.packet_id) for message in old[:3]))
        reader = world.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("a/#", qos=1)
        reader.drop()
        assert world.queues() == []
        writer.send(*(Publish("a/b", b"new", 1, number) for number in range(6, 9)))
        world.advance(1)
        assert world.size("reader") == 3
        assert kept(world, "reader").payloads() == [b"new"] * 3


def test_a_clean_start_while_the_home_is_away_gets_its_own_messages_alone() -> None:
    """T9: the old queue is removed before the new one is given anything."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"old", 1, 1))
        world.store.away = True
        reader = world.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("a/#", qos=1)
        writer.send(Publish("a/b", b"new", 1, 2))
        world.advance(1)
        world.store.away = False
        world.advance(5)
        assert reader.payloads() == [b"new"]
        assert world.size("reader") == 1


def test_a_queue_that_is_being_removed_is_neither_read_nor_given_anything() -> None:
    """T9: a serial of the old queue must not meet a message of the new one."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"old", 1, 1))
        world.store.gate = asyncio.Event()
        reader = world.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("a/#", qos=1)
        writer.send(Publish("a/b", b"new", 1, 2))
        asked = (world.store.reads, len(world.store.appends))
        world.advance(1)
        assert asked == (world.store.reads, len(world.store.appends)) == (1, 1)
        world.do(world.store.gate.set)
        assert reader.payloads() == [b"new"]
        assert [ack.packet_id for ack in writer.take_all(Ack)] == [1, 2]
