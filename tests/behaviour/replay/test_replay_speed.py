"""Replays at a speed: history comes as far apart as it was published, or so many times as fast."""

from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.subscriptions.replay_request import parse_speed
from holdfast.model.errors import PeerError
from holdfast.model.protocol import PUBACK, V311
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connect, Publish, Suback, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, back, payloads, replay
from tests.slow_world import kept
from tests.world import Peer

pytestmark = pytest.mark.compiled


def publish_apart(world: DiskWorld, count: int, seconds: float, first: int = 0) -> None:
    """Messages with time between them, from publishers of different shards in turn."""
    writers = [world.connect(f"writer-{number}") for number in range(4)]
    for number in range(first, first + count):
        if number > first:
            world.advance(seconds)
        writers[number % 4].send(Publish("a", b"%d" % number, 1, number + 1))
    for writer in writers:
        writer.drop()


def numbers(peer: Peer) -> list[int]:
    return [int(payload) for payload in payloads(peer)]


@pytest.mark.parametrize(("speed", "apart_s"), [("1", 10.0), ("10", 1.0), ("0.5", 20.0), ("2.50", 4.0)])
def test_messages_come_as_far_apart_as_the_speed_says(tmp_path: Path, speed: str, apart_s: float) -> None:
    """All shards merged by time: each message exactly when it is due, and not before."""
    with DiskWorld(tmp_path, shards=3) as world:
        publish_apart(world, 6, 10)
        world.advance(1000)
        reader = world.connect("c")
        assert replay(reader, "a", qos=1, replay_from="earliest", replay_speed=speed) == [1]
        got = numbers(reader)
        for number in range(1, 6):
            assert got == list(range(number))
            world.advance(apart_s - 0.01)
            assert numbers(reader) == []
            world.advance(0.01)
            got += numbers(reader)
        assert got == list(range(6))


def test_the_pace_begins_at_the_start_that_was_asked_for(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        world.advance(60)
        publish_apart(world, 2, 10)
        world.advance(100)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="-120s", replay_speed="1")  # ten seconds before the first message
        world.advance(9.9)
        assert numbers(reader) == []
        world.advance(0.2)
        assert numbers(reader) == [0]


def test_a_faster_replay_catches_up_and_goes_on_live(tmp_path: Path) -> None:
    """L13: what is published meanwhile comes in its turn, and from the present on at once."""
    with DiskWorld(tmp_path, shards=2) as world:
        publish_apart(world, 10, 10)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="4")
        got = numbers(reader)
        publish_apart(world, 10, 6, first=10)
        got += numbers(reader)
        assert got == list(range(20)), "90 s are through after 30, while 30 more have passed"
        assert world.broker.sessions.clients["c"].replays is None
        publish_apart(world, 1, 0, first=20)
        assert numbers(reader) == [20]


def test_a_replay_at_the_speed_of_the_clock_stays_behind(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish_apart(world, 1, 0)
        world.advance(100)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="1")
        assert numbers(reader) == [0]
        publish_apart(world, 1, 0, first=1)
        world.advance(99.9)
        assert numbers(reader) == []
        world.advance(0.2)
        assert numbers(reader) == [1]


def test_a_pace_without_a_past_is_none(tmp_path: Path) -> None:
    """From `latest`, or with nothing stored: live at once."""
    with DiskWorld(tmp_path) as world:
        early = world.connect("early")
        replay(early, "a", qos=1, replay_from="earliest", replay_speed="0.1")
        late = world.connect("late")
        replay(late, "a", qos=1, replay_from="latest", replay_speed="1")
        publish_apart(world, 1, 0)
        assert (numbers(early), numbers(late)) == ([0], [0])


def test_nothing_is_done_while_a_pace_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop, until the next message is due or a client sends something."""
    with DiskWorld(tmp_path) as world:
        publish_apart(world, 2, 50)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="1")
        assert numbers(reader) == [0]
        turns = 0
        call_soon = world._loop.call_soon

        def counted(callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> object:
            nonlocal turns
            turns += callback == world.broker.exchange.run_iteration
            return call_soon(callback, *arguments, context=context)

        monkeypatch.setattr(world._loop, "call_soon", counted)
        world.settle()
        for _second in range(49):
            world.advance(1)
        assert (turns, numbers(reader)) == (0, [])
        world.advance(1)
        assert (turns > 0, numbers(reader)) == (True, [1])


@pytest.mark.parametrize("crash", [True, False])
def test_a_persistent_session_goes_on_at_its_pace(tmp_path: Path, crash: bool) -> None:
    """L3: from the message that was sent last, after a reconnect and after a crash."""
    world = DiskWorld(tmp_path, shards=2)
    publish_apart(world, 5, 10)
    reader = kept(world, "c")
    replay(reader, "a", qos=2, replay_from="earliest", replay_speed="1")
    world.advance(10)
    assert numbers(reader) == [0, 1]
    if crash:
        world.crash()
        world = DiskWorld(tmp_path, shards=2, start_us=1_700_000_100_000_000)
    else:
        reader.drop()
    with world:
        reader = back(world, "c")
        # What was acknowledged and not stored before the crash comes again, at once.
        assert numbers(reader) == ([0, 1] if crash else [])
        world.advance(9.9)
        assert numbers(reader) == []
        world.advance(0.2)
        assert numbers(reader) == [2]
        world.advance(20)
        assert numbers(reader) == [3, 4]


def test_a_slow_client_gets_what_was_due_meanwhile_when_it_has_room(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish_apart(world, 5, 1)
        reader = world.connect("c", properties=Properties(receive_maximum=1))
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="1")
        first = reader.take(Publish)
        world.advance(3)
        assert reader.inbox == []
        reader.send(Ack(PUBACK, first.packet_id))
        assert numbers(reader) == [1, 2, 3]


def test_two_paces_of_one_client_do_not_hold_each_other_up(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        writer = world.connect("writer")
        for number in range(3):
            writer.send(Publish("a", b"a%d" % number, 1, 1), Publish("b", b"b%d" % number, 1, 2))
            world.advance(10)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="1")
        replay_b = Properties(user_properties=(("replay-from", "earliest"), ("replay-speed", "10")))
        reader.send(Subscribe(3, (Subscription(parse_filter(b"b"), 1),), replay_b))
        world.advance(2)
        assert sorted(packet.payload for packet in reader.inbox if isinstance(packet, Publish)) == [
            b"a0",
            b"b0",
            b"b1",
            b"b2",
        ]


def test_an_unsubscribe_and_a_lost_connection_end_the_waiting(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish_apart(world, 2, 10)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="1")
        assert numbers(reader) == [0]
        reader.drop()
        world.advance(100)  # a write to a closed link would fail


def test_a_speed_that_is_none_is_refused_and_the_refusal_says_what_is_right(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c", properties=Properties(request_problem_information=True))
        for speed in ("0", "-1", "fast"):
            asked = Properties(user_properties=(("replay-from", "earliest"), ("replay-speed", speed)))
            reader.send(Subscribe(1, (Subscription(parse_filter(b"a"), 1),), asked))
            suback = reader.take(Suback)
            assert suback.reasons == (TOPIC_FILTER_INVALID,)
            told = suback.properties.reason_string or ""
            assert f"replay-speed {speed!r} is neither 'max' nor a number above 0" in told
        assert not reader.closed


@pytest.mark.parametrize("speed", ["0.0", "", "1e3", "nan", "inf", ".5", "1.", "1.0000001", "1000000000", "٣"])
def test_what_is_no_speed(speed: str) -> None:
    with pytest.raises(PeerError, match="above 0"):
        parse_speed(speed)


def test_speeds_are_exact() -> None:
    assert [parse_speed(text) for text in ("max", "1", "10", "0.5", "0.000001", "999999999")] == [
        0,
        1_000_000,
        10_000_000,
        500_000,
        1,
        999_999_999_000_000,
    ]


def test_groups_and_plain_subscriptions_have_no_speed(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        assert replay(reader, "$share/g/$replay/earliest/a", replay_speed="2") == [TOPIC_FILTER_INVALID]
        assert replay(reader, "$share/g/a", replay_from="earliest", replay_until="latest") == [TOPIC_FILTER_INVALID]
        assert replay(reader, "$share/g/$replay/earliest/a", replay_speed="max") == [2]
        assert replay(reader, "a", replay_speed="2") == [TOPIC_FILTER_INVALID]


def test_mqtt_3_replays_as_fast_as_it_takes_it(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish_apart(world, 3, 10)
        reader = world.peer(V311)
        reader.send(Connect(V311, "c"))
        reader.inbox.clear()
        reader.subscribe("$replay/earliest/a", qos=1)
        assert numbers(reader) == [0, 1, 2]
