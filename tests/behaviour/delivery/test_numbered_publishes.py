"""Numbered messages are taken once, by whatever way they come again."""

from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.publish_numbers import MemoryNumbers, PublishNumbers, numbers_key
from holdfast.exchange.inbound import publish_number
from holdfast.model.errors import PeerError
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.model.reasons import NOT_AUTHORIZED, PROTOCOL_ERROR
from holdfast.storage.rocks.sessions.publisher_numbers import KEPT_US
from holdfast.wire.packets import Ack, Disconnect, Publish
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, payloads
from tests.world import Peer, World


def numbered(number: int | str, payload: bytes, packet_id: int = 1, qos: int = 1, topic: str = "out") -> Publish:
    properties = Properties(user_properties=(("publish-number", str(number)),))
    return Publish(topic, payload, qos, packet_id, properties=properties)


def reader(world: World) -> Peer:
    peer = world.connect("reader")
    peer.subscribe("out", qos=1)
    return peer


def test_a_number_that_was_taken_is_acknowledged_and_not_delivered_again() -> None:
    with World() as world:
        peer = reader(world)
        writer = world.connect("writer")
        for packet_id, (number, payload) in enumerate([(5, b"a"), (5, b"a"), (7, b"b"), (6, b"late"), (8, b"c")]):
            writer.send(numbered(number, payload, packet_id + 1))
            assert writer.take(Ack).kind == PUBACK
        assert payloads(peer) == [b"a", b"b", b"c"]
        assert world.broker.exchange.counters.repeated == 2


def test_the_numbers_of_clients_are_their_own_and_others_need_none() -> None:
    with World() as world:
        peer = reader(world)
        for client in ("one", "two"):
            writer = world.connect(client)
            writer.send(numbered(1, client.encode()), Publish("out", b"none", 1, 2))
        assert sorted(payloads(peer)) == [b"none", b"none", b"one", b"two"]


def test_qos_2_with_a_number_that_was_taken_completes() -> None:
    with World() as world:
        peer = reader(world)
        writer = world.connect("writer")
        for packet_id in (1, 2):
            writer.send(numbered(1, b"once", packet_id, qos=2))
            assert writer.take(Ack).kind == PUBREC
            writer.send(Ack(PUBREL, packet_id))
            assert writer.take(Ack).packet_id == packet_id
        assert payloads(peer) == [b"once"]


def test_two_of_one_turn_are_taken_once() -> None:
    with World() as world:
        peer = reader(world)
        writer = world.connect("writer")
        writer.send(numbered(1, b"once", 1), numbered(1, b"once", 2))
        assert [writer.take(Ack).packet_id, writer.take(Ack).packet_id] == [1, 2]
        assert payloads(peer) == [b"once"]


def test_numbers_outlive_the_session_and_a_crash(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path)
    writer = world.connect("writer")
    writer.send(numbered(1, b"a", 1), numbered(2, b"b", 2))
    assert writer.take(Ack).packet_id == 1
    world.crash()
    with DiskWorld(tmp_path) as world:
        peer = reader(world)
        writer = world.connect("writer")
        writer.send(numbered(1, b"a", 1), numbered(2, b"b", 2), numbered(3, b"c", 3))
        assert payloads(peer) == [b"c"]


def test_numbers_that_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        world.connect("writer").send(numbered(1, b"a"))
        numbers = world.disk.numbers
        assert numbers.last(numbers_key("writer", "")) == 1
        changes = Changes()
        numbers.sweep(world.clock.wall_us(), 10, changes)
        assert len(changes) == 0
        numbers.sweep(world.clock.wall_us() + KEPT_US + 1, 10, changes)
        assert len(changes) == 1


@pytest.mark.parametrize("wrong", ["", "one", "-1", "1.5", "٣", str(2**63)])
def test_what_is_no_number_is_refused_with_its_reason(wrong: str) -> None:
    with World() as world:
        writer = world.connect("writer")
        writer.send(numbered(wrong, b"a", qos=2))
        goodbye = writer.take(Disconnect)
        assert goodbye.reason == PROTOCOL_ERROR
        assert "publish-number" in (goodbye.properties.reason_string or "")


def test_what_comes_behind_a_number_that_is_refused_is_not_taken() -> None:
    with World() as world:
        peer = reader(world)
        writer = world.connect("writer")
        writer.send(numbered(1, b"a", 1), numbered(2, b"b", 2, topic="$SYS/mine"), numbered(3, b"c", 3))
        goodbye = writer.take(Disconnect)
        assert goodbye.reason == NOT_AUTHORIZED
        assert "'$SYS/mine'" in (goodbye.properties.reason_string or "")
        writer = world.connect("writer")
        writer.send(numbered(1, b"a", 1), numbered(2, b"b", 2), numbered(3, b"c", 3))
        assert payloads(peer) == [b"a", b"b", b"c"]


def test_the_name_inside_another_property_is_no_number() -> None:
    inside = b"\x26\x00\x0epublish-number\x00\x011"
    assert publish_number(b"\x09" + len(inside).to_bytes(2, "big") + inside) == -1
    assert publish_number(inside) == 1
    with pytest.raises(PeerError):
        publish_number(inside[:-1] + b"x")


def test_those_at_hand_are_bounded() -> None:
    numbering = PublishNumbers(MemoryNumbers())
    for client in range(20_000):
        assert numbering.take(f"c{client}", 1, Batch(1))
    assert len(numbering._at_hand) == 10_000
    assert not numbering.take("c19999", 1, Batch(1))
