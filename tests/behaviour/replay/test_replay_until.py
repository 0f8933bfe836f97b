"""Replays with an end: up to a moment that may lie ahead, and silent from then on."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Unsuback, Unsubscribe
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import kept

pytestmark = pytest.mark.compiled

START_US = 1_700_000_000_000_000


def at(seconds: float) -> str:
    return str(START_US + int(seconds * 1_000_000))


def test_history_then_live_then_nothing(tmp_path: Path) -> None:
    """The end is not included, and the subscription stays."""
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"old"))
        reader = world.connect("c")
        assert replay(reader, "a", replay_from="earliest", replay_until=at(100)) == [2]
        assert payloads(reader) == [b"old"]
        publish(world, ("a", b"live"))
        world.connect("zero").send(Publish("a", b"live 0"))
        world.advance(99.999999)
        publish(world, ("a", b"last"))
        assert payloads(reader) == [b"live", b"live 0", b"last"]
        world.advance(0.000001)
        publish(world, ("a", b"late"))
        world.connect("zero").send(Publish("a", b"late 0"))
        assert payloads(reader) == []
        reader.send(Unsubscribe(3, (parse_filter(b"a"),)))
        assert reader.take(Unsuback).reasons == (0,)


def test_what_lies_behind_the_end_is_left_out_before_the_deadline_has_fired(tmp_path: Path) -> None:
    """By position, not by when a timer comes around to it."""
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        reader.subscribe("a/+", qos=0)
        replay(reader, "a/1", replay_from="earliest", replay_until=at(100))
        world.clock.advance(100_000_000)  # and no deadline is looked at
        publish(world, ("a/1", b"late"))
        packet = reader.take(Publish)
        assert (packet.payload, packet.qos) == (b"late", 0), "by the other subscription alone"


def test_the_matcher_is_free_of_it_when_it_is_over(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        replay(reader, "a", replay_from="earliest", replay_until=at(100))
        assert len(world.broker.exchange.routes.route(b"a").targets) == 1
        world.advance(101)
        assert len(world.broker.exchange.routes.route(b"a").targets) == 0


@pytest.mark.parametrize("crash", [True, False])
def test_an_absent_session_is_owed_what_lies_before_the_end(tmp_path: Path, crash: bool) -> None:
    world = DiskWorld(tmp_path)
    publish(world, ("a", b"old"))
    reader = kept(world, "c")
    replay(reader, "a", replay_from="earliest", replay_until=at(20))
    assert payloads(reader) == [b"old"]
    reader.drop()
    publish(world, ("a", b"missed"))
    world.advance(40)
    publish(world, ("a", b"late"))
    if crash:
        world.crash()
        world = DiskWorld(tmp_path, start_us=START_US + 60_000_000)
    with world:
        reader = back(world, "c")
        assert payloads(reader) == [b"missed"]
        publish(world, ("a", b"later"))
        assert payloads(reader) == []
        reader.drop()
        reader = back(world, "c")
        assert payloads(reader) == []


def test_an_end_that_lies_ahead_survives_a_restart(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        replay(reader, "a", replay_from="earliest", replay_until=at(100))
    with DiskWorld(tmp_path, start_us=START_US + 50_000_000) as world:
        reader = back(world, "c")
        publish(world, ("a", b"before"))
        world.advance(50)
        publish(world, ("a", b"behind"))
        assert payloads(reader) == [b"before"]


def test_a_client_that_was_slow_gets_what_was_before_the_end(tmp_path: Path) -> None:
    """Behind at the end: the log is read up to it, and not beyond."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c", receive_maximum=1)
        replay(reader, "a", qos=1, replay_from="earliest", replay_until=at(100))
        publish(world, *(("a", b"%d" % number) for number in range(3)))
        world.advance(100)
        publish(world, ("a", b"late"))
        first = reader.take(Publish)
        reader.send(Ack(PUBACK, first.packet_id))
        assert [first.payload, *payloads(reader)] == [b"0", b"1", b"2"]


def test_a_subscribe_before_the_end_keeps_it_and_one_behind_it_begins_anew(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_until=at(100))
        reader.subscribe("a", qos=1)
        world.advance(100)
        publish(world, ("a", b"late"))
        assert payloads(reader) == []
        reader.subscribe("a", qos=1)
        assert payloads(reader) == []
        publish(world, ("a", b"new"))
        assert payloads(reader) == [b"new"]
        reader.drop()
        publish(world, ("a", b"missed"))
        assert payloads(back(world, "c")) == [b"missed"]


def test_an_end_with_a_speed(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, shards=2) as world:
        writers = [world.connect(f"writer-{number}") for number in range(4)]
        for number in range(6):
            writers[number % 4].send(Publish("a", b"%d" % number, 1, 1))
            world.advance(10)
        reader = kept(world, "c")
        replay(reader, "a", qos=1, replay_from=at(0), replay_until=at(30), replay_speed="10")
        world.advance(0.5)
        assert payloads(reader) == [b"0"]
        world.advance(2)
        assert payloads(reader) == [b"1", b"2"]
        world.advance(10)
        assert payloads(reader) == []
        assert world.broker.sessions.clients["c"].replays is None


def test_with_an_end_all_shards_are_merged_by_time(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, shards=4) as world:
        writers = [world.connect(f"writer-{number}") for number in range(8)]
        for number in range(60):
            world.clock.advance(1)
            writers[number * 5 % 8].send(Publish("a", b"%d" % number, 1, 1))
        world.advance(1)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_until="latest")
        assert payloads(reader) == [b"%d" % number for number in range(60)]
