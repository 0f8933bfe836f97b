"""QoS 1 before the commit: live subscribers get it early, once, in order, and nothing stored runs ahead of the log."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.model.protocol import PUBACK, PUBREC
from holdfast.wire.packets import Ack, Publish, Suback
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import SlowWorld, kept, subscribe

pytestmark = pytest.mark.compiled


class EarlyWorld(SlowWorld):
    """Receipts come when the test says so; topics below `fast` do not wait for them."""

    def make_stores(self, policy: Policy) -> Stores:
        return replace(super().make_stores(policy), goes_early=lambda topic: topic.startswith(b"fast"))


@pytest.mark.parametrize(("topic", "early"), [("fast/a", True), ("slow/a", False)])
def test_a_zone_chooses_between_before_and_after_the_commit(topic: str, early: bool) -> None:
    """The PUBACK waits for the receipt in both cases; the message comes once."""
    with EarlyWorld() as world:
        readers = [world.connect(f"reader-{qos}") for qos in range(3)]
        for qos, reader in enumerate(readers):
            reader.subscribe("#", qos=qos)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish(topic, b"1", 1, 1))
        assert writer.inbox == []
        assert [reader.payloads() for reader in readers] == ([[b"1"]] * 3 if early else [[]] * 3)
        world.receipts()
        assert writer.take_all(Ack) == [Ack(PUBACK, 1)]
        assert [reader.payloads() for reader in readers] == ([[]] * 3 if early else [[b"1"]] * 3)


def test_qos_2_and_groups_wait_for_the_commit() -> None:
    with EarlyWorld() as world:
        reader = world.connect("reader")
        reader.subscribe("$share/g/fast/a", qos=1)
        other = world.connect("other")
        other.subscribe("fast/b", qos=2)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("fast/a", b"1", 1, 1), Publish("fast/b", b"2", 2, 2))
        assert (reader.inbox, other.inbox, writer.inbox) == ([], [], [])
        world.receipts()
        assert (reader.payloads(), other.payloads()) == ([b"1"], [b"2"])
        assert writer.take_all(Ack) == [Ack(PUBACK, 1), Ack(PUBREC, 2)]


def test_an_outgoing_qos_that_was_raised_to_2_waits() -> None:
    policy = Policy()
    policy.mqtt = replace(policy.mqtt, upgrade_outgoing_qos=True)
    with EarlyWorld(policy) as world:
        reader = world.connect("reader")
        reader.subscribe("fast/a", qos=2)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("fast/a", b"1", 1, 1))
        assert reader.inbox == []
        world.receipts()
        assert [packet.qos for packet in reader.take_all(Publish)] == [2]


def test_what_is_early_does_not_overtake_what_had_to_wait() -> None:
    """A full window, and room again before the commit: order is kept."""
    with EarlyWorld() as world:
        reader = world.connect("reader", properties=Properties(receive_maximum=1))
        reader.subscribe("fast/a", qos=1)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("fast/a", b"1", 1, 1), Publish("fast/a", b"2", 1, 2))
        first = reader.take(Publish)
        reader.send(Ack(PUBACK, first.packet_id))
        writer.send(Publish("fast/a", b"3", 1, 3))
        assert (first.payload, reader.inbox) == (b"1", [])
        world.release()
        assert payloads(reader) == [b"2", b"3"]
        world.hold()
        writer.send(Publish("fast/a", b"4", 1, 4))
        assert payloads(reader) == [b"4"], "and early again"


def test_a_new_subscription_gets_what_is_under_way_in_order() -> None:
    with EarlyWorld() as world:
        reader = world.connect("reader")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("fast/a", b"1", 1, 1))
        reader.send(subscribe("fast/a"))
        writer.send(Publish("fast/a", b"2", 1, 2))
        assert reader.inbox == []
        world.release()
        world.settle()
        assert isinstance(reader.inbox.pop(0), Suback)
        assert reader.payloads() == [b"1", b"2"]


def test_a_publisher_gets_its_own_message_early_unless_it_does_not_want_it() -> None:
    with EarlyWorld() as world:
        writer = world.connect("writer")
        writer.subscribe("fast/a", qos=1)
        writer.subscribe("fast/b", qos=1, no_local=True, packet_id=2)
        world.hold()
        writer.send(Publish("fast/a", b"1", 1, 1), Publish("fast/b", b"2", 1, 2))
        assert writer.payloads() == [b"1"]
        world.receipts()
        assert [type(packet) for packet in writer.inbox] == [Ack, Ack]


def test_stored_progress_never_says_more_than_the_log_has(tmp_path: Path) -> None:
    """L20 for the broker itself: the subscriber has acknowledged what is not durable, and nothing stored says so."""
    with DiskWorld(tmp_path, early=True) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"0"))
        writer = world.connect("writer")
        assert payloads(reader) == [b"0"]
        world.hold()
        writer.send(Publish("a", b"1", 1, 1))
        assert payloads(reader) == [b"1"]
        world.tick()
        head_us = world.disk.log.reader.heads()[0]
        before = world.disk.sessions.load("c")
        assert before is not None
        assert before.progress is not None
        assert before.progress.sent[0] == head_us
        assert writer.inbox == []
        world.release()
        stored = world.disk.sessions.load("c")
        assert stored is not None
        assert stored.progress is not None
        assert stored.progress.sent[0] == world.disk.log.reader.heads()[0] > head_us, "told when it is committed"
        assert payloads(reader) == []


def test_progress_that_is_stored_beside_a_sync_is_stored_again_after_it(tmp_path: Path) -> None:
    """M6: what was acknowledged before its commit counts soon after it, without a tick."""
    with DiskWorld(tmp_path, early=True) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"0"))
        writer = world.connect("writer")
        assert payloads(reader) == [b"0"]
        world.hold()
        writer.send(Publish("a", b"1", 1, 1))
        assert payloads(reader) == [b"1"]
        world.advance(0.01)
        before = world.disk.sessions.load("c")
        assert before is not None
        assert before.progress is not None
        assert before.progress.sent[0] == world.disk.log.reader.heads()[0]
        world.release()
        world.advance(0.01)
        stored = world.disk.sessions.load("c")
        assert stored is not None
        assert stored.progress is not None
        assert stored.progress.sent[0] == world.disk.log.reader.heads()[0] > before.progress.sent[0]


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_client_that_leaves_before_the_commit_gets_it_again_only_if_it_was_not_acknowledged(
    tmp_path: Path, acknowledged: bool
) -> None:
    """[MQTT-4.4.0-1]: under its packet id, with DUP."""
    with DiskWorld(tmp_path, early=True) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"1", 1, 1))
        first = reader.take(Publish)
        if acknowledged:
            reader.send(Ack(PUBACK, first.packet_id))
        reader.drop()
        writer.send(Publish("a", b"2", 1, 2))
        world.release()
        world.settle()
        assert "c" not in world.broker.sessions.clients
        reader = back(world, "c")
        got = [(packet.payload, packet.packet_id, packet.dup) for packet in reader.take_all(Publish)]
        again = [] if acknowledged else [(b"1", first.packet_id, True)]
        assert [entry for entry in got if entry[0] == b"1"] == again
        assert [entry[0] for entry in got][-1] == b"2"


@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_client_that_falls_behind_is_not_read_what_it_was_sent_early(
    tmp_path: Path, acknowledged: bool, crash: bool
) -> None:
    """It has a QoS 2 message to wait for that is older than the early one; and nothing is lost if the broker dies."""
    world = DiskWorld(tmp_path, early=True)
    reader = kept(world, "c", receive_maximum=1)
    reader.subscribe("a", qos=2)
    writer = world.connect("writer")
    world.hold()
    writer.send(Publish("a", b"2a", 2, 1), Publish("a", b"2b", 2, 2), Publish("a", b"1", 1, 3))
    early = reader.take(Publish)
    assert early.payload == b"1"
    world.release()
    world.tick()
    if acknowledged:
        reader.send(Ack(PUBACK, early.packet_id))
    if crash:
        world.crash()
        world = DiskWorld(tmp_path, early=True, start_us=1_700_000_010_000_000)
    with world:
        if crash:
            reader = back(world, "c")
        elif not acknowledged:
            reader.send(Ack(PUBACK, early.packet_id))
        got = payloads(reader)
        assert [payload for payload in got if payload != b"1"] == [b"2a", b"2b"]
        if not crash:
            assert b"1" not in got
        elif not acknowledged:
            assert got.count(b"1") == 1


def test_what_was_acknowledged_early_is_not_read_after_a_reconnect(tmp_path: Path) -> None:
    """Behind, with an acknowledged message above the stored progress."""
    with DiskWorld(tmp_path, early=True) as world:
        reader = kept(world, "c", receive_maximum=1)
        reader.subscribe("a", qos=2)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"2a", 2, 1), Publish("a", b"2b", 2, 2), Publish("a", b"1", 1, 3))
        early = reader.take(Publish)
        world.release()
        reader.send(Ack(PUBACK, early.packet_id))
        world.tick()
        reader.drop()
        assert payloads(back(world, "c")) == [b"2a", b"2b"]


def test_progress_that_is_stored_before_the_commit_names_what_is_in_flight_once(tmp_path: Path) -> None:
    """Progress and an entry above it, both durable at a crash: the entry is sent again, and not read as well."""
    world = DiskWorld(tmp_path, early=True)
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    writer = world.connect("writer")
    world.hold()
    writer.send(Publish("a", b"1", 1, 1), Publish("a", b"2", 1, 2))
    first, second = reader.take_all(Publish)
    reader.send(Ack(PUBACK, first.packet_id))
    world.tick()
    writer.send(*(Publish("other", b"", 1, 10 + number) for number in range(200)))  # enough to be written at once
    world.crash()
    with DiskWorld(tmp_path, early=True, start_us=1_700_000_010_000_000) as world:
        got = [(packet.payload, packet.packet_id, packet.dup) for packet in back(world, "c").take_all(Publish)]
        assert [entry for entry in got if entry[0] == b"2"] == [(b"2", second.packet_id, True)]


def test_after_a_crash_it_comes_again(tmp_path: Path) -> None:
    """At least once: the log has it, and progress was not stored beyond it."""
    world = DiskWorld(tmp_path, early=True)
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    writer = world.connect("writer")
    world.hold()
    writer.send(Publish("a", b"1", 1, 1))
    assert payloads(reader) == [b"1"]
    world.crash()
    with DiskWorld(tmp_path, early=True, start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == [b"1"]


def test_a_replay_that_joins_meanwhile_gets_what_is_under_way_in_order(tmp_path: Path) -> None:
    """L13."""
    with DiskWorld(tmp_path, early=True) as world:
        publish(world, ("a", b"0"))
        reader = world.connect("c", properties=Properties(receive_maximum=1))
        replay(reader, "a", qos=1, replay_from="earliest")
        first = reader.take(Publish)
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"1", 1, 1))
        reader.send(Ack(PUBACK, first.packet_id))
        assert world.broker.sessions.clients["c"].replays is None
        writer.send(Publish("a", b"2", 1, 2))
        assert reader.inbox == []
        world.release()
        world.settle()
        assert payloads(reader) == [b"1", b"2"]
