"""Replays that say when they are through, and what SUBACK tells about them."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Suback, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, payloads, publish, replay
from tests.slow_world import kept


@pytest.mark.parametrize("until", [{}, {"replay_until": "latest"}])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_end_is_told_behind_everything_of_the_past(tmp_path: Path, until: dict[str, str], qos: int) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, *(("a", b"%d" % number) for number in range(60)))
        reader = world.connect("c", properties=Properties(receive_maximum=7))
        replay(reader, "a", qos=qos, replay_from="earliest", replay_end="my/end", **until)
        assert payloads(reader) == [*(b"%d" % number for number in range(60)), b"a"]
        publish(world, ("a", b"live"))
        assert payloads(reader) == ([] if until else [b"live"])


def test_an_end_of_an_empty_past_is_told_too(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        replay(reader, "a", replay_from="-1h", replay_end="my/end")
        assert [(packet.topic, packet.payload, packet.qos) for packet in reader.take_all(Publish)] == [
            ("my/end", b"a", 0)
        ]


def test_the_end_waits_behind_messages_whose_entry_in_flight_is_being_stored(tmp_path: Path) -> None:
    """QoS 2 for a session that is kept: its frames leave with the commit, and the end does not overtake them."""
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"), ("a", b"2"), qos=2)
        reader = kept(world, "c")
        replay(reader, "a", qos=2, replay_from="earliest", replay_until="latest", replay_end="my/end")
        assert [packet.topic for packet in reader.take_all(Publish)] == ["a", "a", "my/end"]


def test_who_does_not_ask_is_told_nothing(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
        reader = world.connect("c")
        replay(reader, "a", replay_from="earliest")
        assert payloads(reader) == [b"1"]


def test_a_topic_of_the_end_that_is_none_is_refused(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        assert replay(reader, "a", replay_from="earliest", replay_end="my/#") == [TOPIC_FILTER_INVALID]
        assert replay(reader, "a", replay_end="my/end") == [TOPIC_FILTER_INVALID]


def test_suback_tells_from_when_until_when(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        now_us = world.clock.wall_us()
        reader = world.connect("c")
        asked = Properties(user_properties=(("replay-from", "-1m"), ("replay-until", "-30s")))
        reader.send(Subscribe(9, (Subscription(parse_filter(b"a"), 1),), asked))
        told = reader.take(Suback).properties.user_properties
        assert told == (
            ("ts", str(now_us)),
            ("replay-from", str(now_us - 60_000_000)),
            ("replay-until", str(now_us - 30_000_000)),
        )
        reader.send(Subscribe(10, (Subscription(parse_filter(b"b"), 1),)))
        assert reader.take(Suback).properties.user_properties == ()


def test_the_latest_end_has_what_was_acknowledged_also_when_positions_are_ahead_of_the_clock(tmp_path: Path) -> None:
    """After a crash positions go on behind the ceiling, some seconds ahead of the clock."""
    world = DiskWorld(tmp_path)
    publish(world, ("a", b"before"))
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_001_000_000) as world:
        publish(world, ("a", b"after"))
        reader = world.connect("c")
        replay(reader, "a", qos=0, replay_from="earliest", replay_until="latest", replay_end="end")
        first, second, _end = reader.take_all(Publish)
        assert [first.payload, second.payload] == [b"before", b"after"]
        place = dict(second.properties.user_properties)["offset"].split(":")[1]
        assert int(place) > world.clock.wall_us(), "the test needs a position that is ahead of the clock"


def test_an_end_that_lay_ahead_is_told_behind_what_a_slow_client_had_to_wait_for(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c", properties=Properties(receive_maximum=1))
        until_us = str(world.clock.wall_us() + 5_000_000)
        replay(reader, "a", qos=1, replay_from="earliest", replay_until=until_us, replay_end="my/end")
        publish(world, ("a", b"1"), ("a", b"2"), ("a", b"3"))
        world.advance(6)
        assert [packet.topic for packet in reader.take_all(Publish)] == ["a"]
        reader.send(Ack(PUBACK, 1))
        reader.send(Ack(PUBACK, 2))
        reader.send(Ack(PUBACK, 3))
        world.advance(1)
        assert [packet.topic for packet in reader.take_all(Publish)] == ["a", "a", "my/end"]
