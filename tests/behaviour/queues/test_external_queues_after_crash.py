"""Queues outside the log, and a broker that crashes: the outbox and the session store say what the queues do not."""

from pathlib import Path

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.model.reasons import UNSPECIFIED_ERROR
from holdfast.wire.packets import Ack, Disconnect, Publish
from tests.disk_world import back, payloads
from tests.queue_world import DiskQueueWorld, new_store
from tests.slow_world import KEPT, kept


def test_a_message_that_no_queue_has_at_a_crash_reaches_it_afterwards(tmp_path: Path) -> None:
    """Q2: the packet id of a QoS 2 message is stored, so its publisher does not bring it again."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        reader.drop()
        writer = kept(world, "writer")
        store.away = True
        writer.send(Publish("a/b", b"1", 2, 7), Publish("a/b", b"2", 1, 8))
        assert not writer.inbox
    store.away = False
    with DiskQueueWorld(tmp_path, store) as world:
        assert world.size("reader") == 2
        writer = back(world, "writer")
        writer.send(Publish("a/b", b"1", 2, 7, dup=True))
        assert writer.take(Ack) == Ack(PUBREC, 7)
        assert payloads(back(world, "reader")) == [b"1", b"2"]


def test_a_message_whose_queue_did_not_answer_is_there_once(tmp_path: Path) -> None:
    """T13: what is appended twice under one number is stored once."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        store.deaf = True
        writer.send(Publish("a/b", b"1", 1, 7))
        assert not writer.inbox
        assert world.size("reader") == 1
    store.deaf = False
    with DiskQueueWorld(tmp_path, store) as world:
        assert world.size("reader") == 1
        assert payloads(back(world, "reader")) == [b"1"]
        world.tick()
        assert not world.disk.outbox.leftover()


def test_a_qos_2_message_comes_once_over_crashes_at_every_step(tmp_path: Path) -> None:
    """Q1, T8: stored in flight before PUBLISH; the same packet id; done is done, though the queue was not told."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        world.connect("writer").send(Publish("a/b", b"1", 2, 7))
        first = reader.take(Publish)
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "reader")
        again = reader.take(Publish)
        assert (again.payload, again.packet_id, again.dup) == (b"1", first.packet_id, True)
        reader.send(Ack(PUBREC, again.packet_id))
        assert reader.take(Ack) == Ack(PUBREL, again.packet_id)
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "reader")
        assert reader.take(Ack) == Ack(PUBREL, first.packet_id)
        assert not reader.inbox
        store.away = True
        reader.send(Ack(PUBCOMP, first.packet_id))
        world.tick()
    store.away = False
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "reader")
        assert not reader.inbox
        assert world.size("reader") == 0


def test_qos_1_in_flight_at_a_crash_comes_again_with_dup(tmp_path: Path) -> None:
    """Q4: under a packet id that the crashed broker had not given out."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        first = reader.take(Publish)
        assert not first.dup
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "reader")
        again = reader.take(Publish)
        assert (again.payload, again.dup) == (b"1", True)
        assert again.packet_id != first.packet_id
        reader.send(Ack(PUBACK, first.packet_id))
        assert world.size("reader") == 1
        reader.send(Ack(PUBACK, again.packet_id))
        assert world.size("reader") == 0


def test_a_session_is_found_by_messages_after_a_restart_without_its_client(tmp_path: Path) -> None:
    """An offline session stands in the matcher before anybody can publish."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        kept(world, "reader").subscribe("a/#", qos=1)
    with DiskQueueWorld(tmp_path, store) as world:
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        assert world.size("reader") == 1
        assert payloads(back(world, "reader")) == [b"1"]


def test_a_queue_goes_with_its_session_after_a_crash_in_between(tmp_path: Path) -> None:
    """T9: the end of the session is committed, the queue was not told."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        assert world.size("reader") == 1
        store.away = True
        world.connect("reader", clean_start=True).drop()
    store.away = False
    with DiskQueueWorld(tmp_path, store) as world:
        assert world.size("reader") == 0
        world.tick()
        assert not world.disk.outbox.leftover()


def test_a_new_session_gets_nothing_of_the_queue_of_an_earlier_one(tmp_path: Path) -> None:
    """T9: a queue that was not removed in time is not the new session's."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        world.connect("writer").send(Publish("a/b", b"old", 1, 7))
        assert world.size("reader") == 1
        store.away = True
        reader = world.connect("reader", properties=KEPT)
        reader.subscribe("a/#", qos=1)
        reader.drop()
        world.connect("writer").send(Publish("a/b", b"new", 1, 8))
    store.away = False
    with DiskQueueWorld(tmp_path, store) as world:
        assert world.size("reader") == 2
        assert payloads(back(world, "reader")) == [b"new"]
        assert world.size("reader") == 0


def test_a_session_that_was_to_end_with_its_connection_ends_with_the_broker(tmp_path: Path) -> None:
    """T9: it outlived connections before, so it has a queue, which goes with it."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
        reader.drop()
        assert world.connect("reader", clean_start=False).connack.session_present
        assert world.size("reader") == 1
    with DiskQueueWorld(tmp_path, store) as world:
        assert world.size("reader") == 0
        assert not kept(world, "reader").connack.session_present


def test_qos_1_in_flight_keeps_its_packet_id_over_an_orderly_restart(tmp_path: Path) -> None:
    """[MQTT-4.4.0-1]"""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(*(Publish("a/b", b"%d" % number, 1, number) for number in (1, 2, 3)))
        first = reader.take_all(Publish)
        reader.send(Ack(PUBACK, first[1].packet_id))
        reader.drop()
        assert world.size("reader") == 2
        world.connect("writer").send(Publish("a/b", b"4", 1, 4))
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "reader")
        again = reader.take_all(Publish)
        assert [(message.payload, message.dup) for message in again] == [(b"1", True), (b"3", True), (b"4", False)]
        assert [message.packet_id for message in again[:2]] == [first[0].packet_id, first[2].packet_id]
        reader.send(*(Ack(PUBACK, message.packet_id) for message in again))
        assert world.size("reader") == 0


def test_a_home_that_lost_its_queues_between_two_runs_is_noticed(tmp_path: Path) -> None:
    """T11: what the session knows of places in the old queue hides nothing of the new one."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        world.connect("writer").send(*(Publish("a/b", b"old", 2, number) for number in range(1, 4)))
        reader.send(Ack(PUBREC, reader.take(Publish).packet_id))
        world.tick()
        world.tick()
        assert not world.disk.outbox.leftover()
    store.store.forget_everything()
    with DiskQueueWorld(tmp_path, store) as world:
        world.connect("writer").send(*(Publish("a/b", b"new", 1, number) for number in range(1, 4)))
        got = payloads(back(world, "reader"))
        assert got.count(b"new") == 3
        assert world.size("reader") == 0


def test_what_is_done_of_a_lost_queue_hides_nothing_of_the_new_one_after_a_restart(tmp_path: Path) -> None:
    """T11: the queue is lost while its client is offline, and the new one gives out the same serials."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"open", 1, 1), Publish("a/b", b"done", 2, 2), Ack(PUBREL, 2))
        _open, done = reader.take_all(Publish)
        reader.send(Ack(PUBREC, done.packet_id), Ack(PUBCOMP, done.packet_id))
        reader.drop()
        world.connect("other")  # a commit after the one with which the session went offline
        world.do(store.store.forget_everything)
        writer.send(*(Publish("a/b", payload, 1, 3 + number) for number, payload in enumerate((b"1", b"2", b"3"))))
        assert world.size("reader") == 3
    with DiskQueueWorld(tmp_path, store) as world:
        assert payloads(back(world, "reader")) == [b"1", b"2", b"3"]


def test_a_queue_that_was_moved_is_read_from_its_beginning(tmp_path: Path) -> None:
    """T11: its messages have other places than those that the session knows."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(*(Publish("a/b", b"%d" % number, 1, number) for number in range(1, 6)))
        assert len(payloads(reader)) == 5
        world.advance(0.1)
        reader.drop()
        world.connect("writer").send(Publish("a/b", b"6", 1, 6))
        world.tick()
    moved = store.entries_of("reader")
    store.store.forget_everything()
    store.append_now("reader", moved)
    with DiskQueueWorld(tmp_path, store) as world:
        told = back(world, "reader")
        assert told.take(Disconnect).reason == UNSPECIFIED_ERROR
        assert payloads(back(world, "reader")) == [b"6"]
