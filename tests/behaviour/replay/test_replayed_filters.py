"""What a replay finds through the whole broker: what brute force finds, for every kind of topic and filter."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.topics.filters import levels_match, parse_filter
from holdfast.topics.names import is_dollar
from holdfast.wire.packets import Publish
from tests.broker_backends import OpenWorld, ThreeNodes
from tests.cluster_disk_world import NODES
from tests.disk_world import back, payloads, publish, replay
from tests.slow_world import kept

LONGEST = "long/" + "x" * 65_530
DEEP = "/".join(["deep", *["d"] * 100])
TOPICS = ["a", "/a", "a/", "a//b", "a/b", "a/b/c/d", "b/b/c", "é/ü", "$app/a", "$app/b/c", DEEP, LONGEST]
FILTERS = [
    "a",
    "#",
    "+",
    "+/+",
    "/+",
    "a/#",
    "a/+/b/#",
    "+/b/#",
    "a/+/c/+",
    "é/+",
    "$app/#",
    "deep/#",
    "long/+",
    "none",
]


def test_a_replay_of_any_filter_gives_what_brute_force_gives(open_world: OpenWorld) -> None:
    """L4, L5, L6, L7: single topics, wildcards at any level and mixes; deep, empty, Unicode, `$` and longest topics."""
    with open_world() as world:
        for number, topic in enumerate(TOPICS):
            world.connect("writer").send(Publish(topic, b"%d" % number, 1, 1))
            world.connect(f"other {number}").send(Publish(topic, b"other %d" % number, 1, 1))
    with open_world(start_us=1_700_000_010_000_000) as world:
        for text in FILTERS:
            reader = world.connect("c")
            assert replay(reader, text, qos=1, replay_from="earliest") == [1]
            matching = [number for number, topic in enumerate(TOPICS) if matches(text, topic)]
            expected = [*(b"%d" % number for number in matching), *(b"other %d" % number for number in matching)]
            assert sorted(payloads(reader)) == sorted(expected), text


def matches(text: str, topic: str) -> bool:
    raw = topic.encode()
    return levels_match(parse_filter(text.encode()).levels, raw.split(b"/"), dollar=is_dollar(raw))


def test_messages_of_a_publisher_on_a_topic_are_replayed_in_its_order(open_world: OpenWorld) -> None:
    """L1: by filters that find one topic or all, live, and after a restart; publishers are at different nodes."""
    names = [f"p{number}" for number in range(6)]
    with open_world() as world:
        live = kept(world, "live")
        live.subscribe("a/#", qos=1)
        got: list[bytes] = []
        for number in range(5):
            for name in names:
                peer = world.connect(name)
                peer.send(*(Publish(f"a/{half}", f"{name} {half} {number}".encode(), 1, half + 1) for half in (0, 1)))
                peer.drop()
            got += payloads(live)
        assert in_order(got, names)
    with open_world(start_us=1_700_000_010_000_000) as world:
        for text in ("a/#", "a/+", "#"):
            reader = world.connect("c")
            replay(reader, text, qos=1, replay_from="earliest")
            found = payloads(reader)
            assert sorted(found) == sorted(got)
            assert in_order(found, names)


def in_order(found: list[bytes], names: list[str]) -> bool:
    """Whether the numbers of each publisher on each topic go up by one."""
    starts = [f"{name} {half} ".encode() for name in names for half in (0, 1)]
    return all(
        [one for one in found if one.startswith(start)] == [start + b"%d" % number for number in range(5)]
        for start in starts
    )


def test_what_one_subscriber_saw_is_seen_by_every_later_replay(open_world: OpenWorld) -> None:
    """L2: by whoever comes, and after a crash."""
    world = open_world()
    reader = kept(world, "c")
    reader.subscribe("a/#", qos=1)
    publish(world, *((f"a/{number}", b"%d" % number) for number in range(5)), qos=2)
    seen = payloads(reader)
    assert len(seen) == 5
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        for name in ("one", "two", "three"):
            later = world.connect(name)
            replay(later, "a/#", qos=1, replay_from="earliest")
            assert payloads(later) == seen


@pytest.mark.parametrize("lost", range(NODES))
def test_what_one_subscriber_saw_is_there_though_one_node_of_three_is_lost_for_ever(tmp_path: Path, lost: int) -> None:
    """L2: with its disk, be it the node of the publisher, of the subscriber, or of neither."""
    world: Any = ThreeNodes(tmp_path).cluster()
    with world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"1"), ("a", b"2"))
        assert payloads(reader) == [b"1", b"2"]
        world.tick()
        world.lose(lost)
        assert payloads(back(world, "c")) == []
        publish(world, ("a", b"3"))
        later = world.connect("later")
        replay(later, "a", qos=1, replay_from="earliest")
        assert payloads(later) == [b"1", b"2", b"3"]
