"""The broker on a disk: what a restart finds, what a session is owed, and the way from history to the present."""

from pathlib import Path

import pytest

from holdfast.broker.sessions.session_recovery import GRACE_S
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.storage.rocks.log.log_reader import RocksLogReader
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Publish,
    Will,
)
from holdfast.wire.properties import Properties
from tests.broker_backends import OpenWorld
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import connect, kept
from tests.world import Peer

SECOND_US = 1_000_000


def test_what_was_acknowledged_is_delivered_after_a_restart(open_world: OpenWorld) -> None:
    """M6, Q5: QoS 1 and 2 come, QoS 0 does not."""
    with open_world() as world:
        reader = kept(world, "c")
        reader.subscribe("a/#")
        reader.drop()
        publish(world, ("a/1", b"1"), ("a/2", b"2"))
        publish(world, ("a/3", b"3"), qos=2)
        world.connect("other").send(Publish("a/0", b"0"))
    with open_world(start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == [b"1", b"2", b"3"]


def test_an_offline_session_has_no_object(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a/#")
        reader.drop()
        assert "c" not in world.broker.sessions.clients
        assert world.broker.exchange.routing.plan_for(b"a/1").empty
        publish(world, ("a/1", b"1"))
        assert payloads(back(world, "c")) == [b"1"]


def test_a_slow_session_reads_the_log_and_is_live_again(open_world: OpenWorld) -> None:
    """L13: without a gap and without a duplicate."""
    with open_world() as world:
        reader = kept(world, "c", receive_maximum=3)
        reader.subscribe("a")
        expected = [b"%d" % number for number in range(20)]
        publish(world, *(("a", payload) for payload in expected))
        assert payloads(reader) == expected
        client = world.client_of("c")
        assert client is not None
        assert not client.behind
        publish(world, ("a", b"live"))
        assert payloads(reader) == [b"live"]


def test_what_is_in_flight_keeps_its_packet_id_and_order_over_a_restart(open_world: OpenWorld) -> None:
    """Q1."""
    with open_world() as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        publish(world, ("a", b"1"))
        publish(world, ("a", b"2"), qos=2)
        publish(world, ("a", b"3"))
        sent = [(packet.payload, packet.packet_id) for packet in reader.take_all(Publish)]
        reader.drop()
    with open_world(start_us=1_700_000_010_000_000) as world:
        again = back(world, "c").take_all(Publish)
        assert [(packet.payload, packet.packet_id) for packet in again] == sent
        assert all(packet.dup for packet in again)


def test_a_completed_qos_2_message_does_not_come_again_after_a_crash(open_world: OpenWorld) -> None:
    """Q1: though the progress that was stored last is older."""
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"once"), qos=2)
    assert payloads(reader) == [b"once"]
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == []


def test_qos_1_since_the_last_progress_comes_again_and_says_so(open_world: OpenWorld) -> None:
    """Q4: under packet ids that no late acknowledgement can hit."""
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"1"))
    first = reader.take(Publish)
    reader.send(Ack(PUBACK, first.packet_id))
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        again = back(world, "c").take(Publish)
        assert (again.payload, again.dup) == (b"1", True)
        assert again.packet_id != first.packet_id


def test_acknowledged_progress_is_stored_once_a_second(open_world: OpenWorld) -> None:
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"1"))
    assert payloads(reader) == [b"1"]
    world.tick()
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == []


def test_a_resubscribe_keeps_the_backlog(open_world: OpenWorld) -> None:
    """Q3."""
    with open_world() as world:
        reader = kept(world, "c", receive_maximum=1)
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"1"), ("a", b"2"), ("a", b"3"))
        first = reader.take(Publish)
        reader.subscribe("a", qos=1)
        reader.send(Ack(PUBACK, first.packet_id))
        assert payloads(reader) == [b"2", b"3"]


def test_an_incoming_qos_2_message_is_taken_once_over_a_crash(open_world: OpenWorld) -> None:
    """Q2."""
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a")
    reader.drop()
    writer = kept(world, "w")
    writer.send(Publish("a", b"once", 2, 7))
    assert writer.take(Ack).kind == PUBREC
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        writer = back(world, "w")
        writer.send(Publish("a", b"once", 2, 7, dup=True))
        assert writer.take(Ack).kind == PUBREC
        writer.send(Ack(PUBREL, 7))
        assert writer.take(Ack).kind == PUBCOMP
        assert payloads(back(world, "c")) == [b"once"]


def test_a_clean_start_has_forgotten_incoming_packet_ids_when_its_connack_comes(open_world: OpenWorld) -> None:
    """Q2: durably, so that a crash behind it does not bring them back to swallow a new message."""
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    reader.drop()
    kept(world, "w").send(Publish("a", b"1", 2, 7))
    properties = Properties(session_expiry_interval=100)
    assert not world.connect("w", clean_start=True, properties=properties).connack.session_present
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        writer = back(world, "w")
        writer.send(Publish("a", b"2", 2, 7))
        assert writer.take(Ack).kind == PUBREC
        assert payloads(back(world, "c")) == [b"1", b"2"]


def test_retained_messages_are_there_after_a_restart(open_world: OpenWorld) -> None:
    """M1, M2."""
    with open_world() as world:
        world.connect("w").send(Publish("r/1", b"x", 1, 1, retain=True), Publish("r/2", b"y", 0, retain=True))
    with open_world(start_us=1_700_000_010_000_000) as world:
        reader = world.connect("c")
        reader.subscribe("r/#")
        assert sorted(payloads(reader)) == [b"x", b"y"]


def test_a_session_that_expired_while_the_broker_was_down_is_gone(open_world: OpenWorld) -> None:
    with open_world() as world:
        kept(world, "c").drop()
    with open_world(start_us=1_700_000_200_000_000) as world:
        world.tick()
        assert world.stores.sessions.load("c") is None
        peer = world.peer()
        peer.send(connect("c"))
        assert not peer.take(Connack).session_present


def test_the_will_of_who_was_connected_at_a_crash_is_published_after_the_grace(open_world: OpenWorld) -> None:
    world = open_world()
    reader = kept(world, "reader")
    reader.subscribe("w")
    reader.drop()
    peer = world.peer()
    peer.send(Connect(V5, "dying", will=Will("w", b"bye", 1)))
    peer.take(Connack)
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        reader = back(world, "reader")
        world.tick(20)
        assert payloads(reader) == []
        world.tick(15)
        assert payloads(reader) == [b"bye"]
        assert world.stores.sessions.load("dying") is None


@pytest.mark.parametrize("clean_start", [True, False])
def test_the_will_of_a_crash_is_not_published_if_the_client_is_back_within_the_grace(
    open_world: OpenWorld, clean_start: bool
) -> None:
    """Its session ended with the crash; the will still belongs to the client id [MQTT-3.1.2-8]."""
    world = open_world()
    kept(world, "reader").subscribe("w", qos=1)
    connect_with_will(world, Properties())
    world.crash()
    with open_world() as world:
        reader = back(world, "reader")
        peer = world.peer()
        peer.send(Connect(V5, "dying", clean_start=clean_start))
        world.tick(GRACE_S + 60)
        assert payloads(reader) == []


@pytest.mark.parametrize("clean_start", [True, False])
def test_a_stored_will_that_waits_is_dropped_when_its_client_returns(open_world: OpenWorld, clean_start: bool) -> None:
    """[MQTT-3.1.2-8], for a session that only the store knows any more."""
    with open_world() as world:
        reader = kept(world, "reader")
        reader.subscribe("w", qos=1)
        connect_with_will(world, Properties(session_expiry_interval=100), delay_s=50).drop()
        assert world.client_of("dying") is None
        peer = world.peer()
        peer.send(Connect(V5, "dying", clean_start=clean_start))
        assert peer.take(Connack).session_present is not clean_start
        world.tick(60)
        assert payloads(reader) == []


def connect_with_will(world: DiskWorld, properties: Properties, delay_s: int = 0) -> Peer:
    will = Will("w", b"bye", 1, properties=Properties(will_delay_interval=delay_s) if delay_s else Properties())
    peer = world.peer()
    peer.send(Connect(V5, "dying", properties=properties, will=will))
    assert peer.take(Connack).reason == 0
    return peer


def test_a_will_whose_delay_ran_out_while_the_broker_was_down_is_published_at_the_start(open_world: OpenWorld) -> None:
    with open_world() as world:
        reader = kept(world, "reader")
        reader.subscribe("w")
        will = Will("w", b"late", 1, properties=Properties(will_delay_interval=5))
        peer = world.peer()
        peer.send(Connect(V5, "c", properties=Properties(session_expiry_interval=100), will=will))
        peer.take(Connack)
        peer.drop()
        reader.drop()
    with open_world(start_us=1_700_000_020_000_000) as world:
        reader = back(world, "reader")
        assert payloads(reader) == [b"late"]
        reader.drop()
    with open_world(start_us=1_700_000_030_000_000) as world:
        assert payloads(back(world, "reader")) == [], "once"


def test_a_group_keeps_its_backlog_over_a_restart_without_a_member_online(open_world: OpenWorld) -> None:
    """L15: and what is published before somebody returns."""
    with open_world() as world:
        member = kept(world, "m")
        member.subscribe("$share/g/a", qos=1)
        publish(world, ("a", b"1"))
        assert payloads(member) == [b"1"]
        world.tick()
        member.drop()
        publish(world, ("a", b"2"))
    with open_world(start_us=1_700_000_010_000_000) as world:
        publish(world, ("a", b"3"))
        assert payloads(back(world, "m")) == [b"2", b"3"]


def test_a_qos_2_message_that_was_assigned_goes_to_no_other_member_after_a_crash(open_world: OpenWorld) -> None:
    """Q10."""
    world = open_world()
    one, two = kept(world, "one"), kept(world, "two")
    one.subscribe("$share/g/a")
    two.subscribe("$share/g/a")
    publish(world, ("a", b"1"), ("a", b"2"), qos=2)
    first = [packet.payload for packet in one.take_all(Publish)]
    second = [packet.payload for packet in two.take_all(Publish)]
    assert sorted(first + second) == [b"1", b"2"]
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "one")) == first
        assert payloads(back(world, "two")) == second


def test_a_zone_that_is_not_stored_keeps_what_it_owes_in_memory(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, unstored="u/#") as world:
        reader = kept(world, "c")
        reader.subscribe("u/#", qos=1)
        reader.drop()
        publish(world, ("u/1", b"1"))
        assert payloads(back(world, "c")) == [b"1"]


def no_reading(*_place: object) -> None:
    raise AssertionError("the log is read")


def test_a_session_without_subscriptions_reads_nothing_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume costs nothing that grows with the log."""
    with DiskWorld(tmp_path) as world:
        kept(world, "c").drop()
        publish(world, *(("a", b"x") for _number in range(50)))
        monkeypatch.setattr(RocksLogReader, "scan", no_reading)
        back(world, "c")
        assert not world.broker.sessions.clients["c"].behind


def test_a_start_looks_at_no_message_of_who_was_connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand sessions at a crash must not mean a hundred thousand reads of the log."""
    world = DiskWorld(tmp_path)
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"1"), ("a", b"2"), qos=2)
    world.crash()
    with monkeypatch.context() as watched:
        watched.setattr(RocksLogReader, "at", no_reading)
        world = DiskWorld(tmp_path, start_us=1_700_000_010_000_000)
    with world:
        assert len(back(world, "c").take_all(Publish)) == 2, "they are read when they are needed"


def test_the_disk_is_tended_on_after_something_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure must not end retention, indexing and expiry for good."""
    with DiskWorld(tmp_path) as world:
        ticks: list[int] = []

        def tick() -> None:
            ticks.append(1)
            if len(ticks) == 1:
                raise OSError("for once")

        monkeypatch.setattr(world.disk.maintenance, "tick", tick)
        world.tick()
        world.tick()
        assert len(ticks) == 2
