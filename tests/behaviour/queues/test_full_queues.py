"""A client's queue that is full and refuses more: who is told what, and until when."""

from pathlib import Path

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.exchange.drops import DROP_QUOTA
from holdfast.exchange.external.external_queues import NOTICE_TOPIC
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL, V311
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import back, payloads
from tests.queue_world import BACKEND, DiskQueueWorld, QueueWorld, new_store
from tests.slow_world import kept
from tests.world import Peer, World

NOTICE = NOTICE_TOPIC.decode()
TWO = Policy(sessions=Sessions(queue=BACKEND, max_queued_messages=2, on_full="refuse"))


def offline_reader(world: World, *filters: str) -> None:
    reader = kept(world, "reader")
    reader.subscribe(*(filters or ("a/#",)), qos=1)
    reader.drop()


def told(writer: Peer, *numbers: int, qos: int = 1, topic: str = "a/b") -> list[int]:
    """Publish one after the other; the reasons of the acknowledgements."""
    reasons: list[int] = []
    for number in numbers:
        writer.send(Publish(topic, b"%d" % number, qos, number))
        ack = writer.take(Ack)
        reasons.append(ack.reason)
        if qos == 2 and ack.reason < 0x80:
            writer.send(Ack(PUBREL, number))
            writer.take(Ack)
    return reasons


def events(world: World) -> list[tuple[str, str, int]]:
    drops = world.broker.exchange.drops
    return [(event.client, event.topic, event.count) for event in drops.take() if event.reason == DROP_QUOTA]


def acknowledge(reader: Peer) -> list[Publish]:
    got = [packet for packet in reader.inbox if isinstance(packet, Publish)]
    reader.inbox.clear()
    reader.send(*(Ack(PUBACK, packet.packet_id) for packet in got))
    return got


@pytest.mark.parametrize("qos", [1, 2])
def test_publishers_to_a_full_queue_are_refused_until_it_was_read(qos: int) -> None:
    """S7: the message at the limit is taken from its publisher and given up; what comes after is refused with 0x97."""
    with QueueWorld(TWO) as world:
        offline_reader(world)
        writer = world.connect("writer")
        assert told(writer, 1, 2, 3, qos=qos) == [SUCCESS, SUCCESS, SUCCESS]
        assert told(writer, 4, 5, qos=qos) == [QUOTA_EXCEEDED, QUOTA_EXCEEDED]
        assert events(world) == [("reader", "a/b", 3)]
        assert world.broker.exchange.counters.drops == {DROP_QUOTA: 3}
        reader = kept(world, "reader")
        assert [packet.payload for packet in acknowledge(reader)] == [b"1", b"2"]
        world.advance(0.2)
        assert told(writer, 4, 5, qos=qos) == [SUCCESS, SUCCESS]
        assert reader.payloads() == [b"4", b"5"]
        assert events(world) == []


def test_a_refused_qos_2_message_leaves_its_packet_id_free() -> None:
    """Q2: the next message under that id is another one."""
    with QueueWorld(TWO) as world:
        offline_reader(world)
        writer = world.connect("writer")
        told(writer, 1, 2, 3, qos=2)
        writer.send(Publish("a/b", b"4", 2, 9))
        assert writer.take(Ack) == Ack(PUBREC, 9, QUOTA_EXCEEDED)
        reader = kept(world, "reader")
        acknowledge(reader)
        world.advance(0.2)
        writer.send(Publish("a/b", b"5", 2, 9))
        assert writer.take(Ack) == Ack(PUBREC, 9)
        assert reader.payloads() == [b"5"]


def test_who_subscribes_to_notices_gets_one_where_messages_are_missing(tmp_path: Path) -> None:
    """S7: behind what the queue took, once, also if the broker is killed meanwhile."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store, TWO) as world:
        offline_reader(world, "a/#", NOTICE)
        told(world.connect("writer"), 1, 2, 3, 4, 5)
    with DiskQueueWorld(tmp_path, store, TWO) as world:
        reader = back(world, "reader")
        got = acknowledge(reader)
        assert [(packet.topic, packet.qos) for packet in got] == [("a/b", 1), ("a/b", 1), (NOTICE, 1)]
        assert got[2].payload == b'{"since_us":1700000000000000,"max_messages":2,"max_bytes":%d}' % (
            TWO.sessions.max_queued_bytes
        )
        world.advance(0.2)
        assert told(world.connect("writer"), 6) == [SUCCESS]
        assert payloads(reader) == [b"6"]


def test_a_notice_that_its_queue_did_not_get_comes_after_a_crash(tmp_path: Path) -> None:
    """T13, S7: it is in the outbox as any message is, and finds its place in a queue that takes nothing else."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store, TWO) as world:
        offline_reader(world, "a/#", NOTICE)
        writer = world.connect("writer")
        told(writer, 1, 2)
        store.fails_after = 1
        told(writer, 3)
    store.fails_after = None
    with DiskQueueWorld(tmp_path, store, TWO) as world:
        assert [packet.topic for packet in acknowledge(back(world, "reader"))] == ["a/b", "a/b", NOTICE]


def test_a_full_queue_refuses_nothing_that_others_get() -> None:
    """The publisher cannot know for whom it should send again."""
    with QueueWorld(TWO) as world:
        offline_reader(world)
        other = world.connect("other")
        writer = world.connect("writer")
        told(writer, 1, 2, 3)
        assert told(writer, 4) == [QUOTA_EXCEEDED]
        other.subscribe("a/#", qos=1)
        assert told(writer, 5) == [SUCCESS]
        assert other.payloads() == [b"5"]
        assert events(world) == [("reader", "a/b", 3)]


def test_mqtt_3_publishers_are_not_cut_off_by_a_full_queue() -> None:
    """They know no refusal: the loss is noted, and counted."""
    with QueueWorld(TWO) as world:
        offline_reader(world)
        writer = world.connect("writer", V311)
        assert told(writer, 1, 2, 3, 4, 5) == [SUCCESS] * 5
        assert events(world) == [("reader", "a/b", 3)]


def test_a_queue_that_was_emptied_by_expiry_takes_messages_again() -> None:
    """S7, T4: nobody has to read what is not there any more."""
    policy = Policy(sessions=Sessions(queue=BACKEND, max_queued_messages=1, queue_ttl_s=20, on_full="refuse"))
    with QueueWorld(policy) as world:
        offline_reader(world)
        writer = world.connect("writer")
        assert told(writer, 1, 2, 3) == [SUCCESS, SUCCESS, QUOTA_EXCEEDED]
        world.advance(11)
        assert told(writer, 4, 5) == [SUCCESS, QUOTA_EXCEEDED], "its store is asked now and then"
        world.advance(11)
        assert told(writer, 6) == [SUCCESS]
        assert kept(world, "reader").payloads() == [b"6"]


def test_a_slow_client_that_is_connected_gets_more_when_it_has_taken_what_there_is() -> None:
    """S7: what it was sent and has not acknowledged counts until its store knows that it was read."""
    with QueueWorld(TWO) as world:
        reader = kept(world, "reader", receive_maximum=1)
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        for number in range(1, 6):
            writer.send(Publish("a/b", b"%d" % number, 1, number))
        got: list[bytes] = []
        while reader.inbox:
            got += [packet.payload for packet in acknowledge(reader)]
            world.advance(0.2)
        assert got == sorted(set(got))
        writer.inbox.clear()
        assert told(writer, 6) == [SUCCESS]
        assert [packet.payload for packet in acknowledge(reader)] == [b"6"]


def test_a_client_acknowledges_only_what_it_was_sent() -> None:
    """S8: a packet id that is not in flight takes nothing out of the queue."""
    with QueueWorld() as world:
        reader = kept(world, "reader", receive_maximum=1)
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        writer.send(*(Publish("a/b", b"%d" % number, 1, number) for number in (1, 2, 3)))
        first = reader.take(Publish)
        reader.send(*(Ack(PUBACK, first.packet_id + ahead) for ahead in (1, 2)))
        assert (world.size("reader"), reader.inbox) == (3, [])
        reader.send(Ack(PUBACK, first.packet_id))
        assert reader.take(Publish).payload == b"2"
        assert world.size("reader") == 2
