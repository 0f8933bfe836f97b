"""Replays: history first, then what is live, for sessions that come and go meanwhile."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.broker_backends import OpenWorld
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.group_world import work
from tests.slow_world import kept


@pytest.mark.parametrize("by_filter", [True, False])
def test_a_replay_gives_history_and_then_what_is_live(open_world: OpenWorld, by_filter: bool) -> None:
    """L13, L16: by the filter in any version, by a user property in MQTT 5."""
    with open_world() as world:
        publish(world, ("a/1", b"1"), ("b", b"no"), ("a/2", b"2"))
        world.connect("zero").send(Publish("a/0", b"0"))
        reader = world.connect("c", properties=Properties(receive_maximum=2))
        if by_filter:
            assert replay(reader, "$replay/earliest/a/#", qos=1) == [1]
        else:
            assert replay(reader, "a/#", qos=1, replay_from="earliest") == [1]
        assert payloads(reader) == [b"1", b"2", b"0"]
        publish(world, ("a/3", b"3"))
        assert payloads(reader) == [b"3"]
        assert reader.inbox == []


def test_a_replay_starts_at_a_time(open_world: OpenWorld) -> None:
    with open_world() as world:
        publish(world, ("a", b"old"))
        world.advance(100)
        publish(world, ("a", b"new"))
        reader = world.connect("c")
        assert replay(reader, "$replay/-50s/a", qos=1) == [1]
        assert payloads(reader) == [b"new"]


def test_a_replayed_message_says_when_and_where_it_was_stored(open_world: OpenWorld) -> None:
    with open_world() as world:
        publish(world, ("a", b"1"))
        reader = world.connect("c")
        replay(reader, "$replay/earliest/a", qos=0)
        message = reader.take(Publish)
        told = dict(message.properties.user_properties)
        assert told["ts"] == str(world.clock.wall_us())
        assert told["offset"].startswith("0:")


def test_a_replay_may_end(open_world: OpenWorld) -> None:
    with open_world() as world:
        publish(world, ("a", b"1"))
        world.advance(100)
        publish(world, ("a", b"2"))
        reader = world.connect("c")
        assert replay(reader, "a", replay_from="earliest", replay_until="-50s") == [2]
        assert payloads(reader) == [b"1"]
        publish(world, ("a", b"3"))
        assert payloads(reader) == []


def test_a_bad_start_is_refused_with_a_reason_and_the_connection_stays(open_world: OpenWorld) -> None:
    """L16."""
    with open_world() as world:
        reader = world.connect("c")
        assert replay(reader, "$replay/yesterday/a") == [TOPIC_FILTER_INVALID]
        assert replay(reader, "a", replay_until="latest") == [TOPIC_FILTER_INVALID]
        assert not reader.closed


def test_a_persistent_session_goes_on_with_its_replay_after_a_crash(open_world: OpenWorld) -> None:
    """L3, Q1: exactly once for QoS 2."""
    world = open_world()
    publish(world, *(("a", b"%d" % number) for number in range(10)), qos=2)
    reader = kept(world, "c", receive_maximum=3)
    replay(reader, "$replay/earliest/a")
    first = reader.take_all(Publish)
    assert [packet.payload for packet in first] == [b"0", b"1", b"2"]
    reader.send(Ack(PUBREC, first[0].packet_id))
    assert reader.take(Ack).kind == PUBREL
    reader.send(Ack(PUBCOMP, first[0].packet_id))
    assert [packet.payload for packet in reader.take_all(Publish)] == [b"3"]
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        reader = back(world, "c")
        assert payloads(reader) == [b"%d" % number for number in range(1, 10)]
        publish(world, ("a", b"live"))
        assert payloads(reader) == [b"live"]


def test_members_of_a_group_split_a_replay_and_the_first_to_join_says_where_it_begins(open_world: OpenWorld) -> None:
    """L15."""
    with open_world() as world:
        publish(world, *(("a", b"%d" % number) for number in range(6)))
        one = world.connect("one", properties=Properties(receive_maximum=2))
        two = world.connect("two", properties=Properties(receive_maximum=2))
        replay(one, "$share/g/$replay/earliest/a", qos=1)
        replay(two, "$share/g/$replay/latest/a", qos=1)
        ones, twos = work(one, two)
        assert sorted(ones + twos) == [b"%d" % number for number in range(6)]
        assert len(ones) == len(twos) == 3, "both of them work"
        publish(world, ("a", b"live"))
        assert payloads(one) + payloads(two) == [b"live"]


def test_no_message_is_seen_twice_by_a_subscription_and_a_replay_of_one_filter(open_world: OpenWorld) -> None:
    """A replay in place of a subscription: one stream from then on."""
    with open_world() as world:
        reader = world.connect("c")
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"1"))
        assert payloads(reader) == [b"1"]
        assert replay(reader, "a", qos=1, replay_from="earliest") == [1]
        assert payloads(reader) == [b"1"]
        publish(world, ("a", b"2"))
        assert payloads(reader) == [b"2"]


def test_the_end_of_a_replay_survives_a_reconnect(open_world: OpenWorld) -> None:
    with open_world() as world:
        publish(world, ("a", b"1"))
        world.advance(100)
        reader = kept(world, "c")
        replay(reader, "a", replay_from="earliest", replay_until="-50s")
        assert payloads(reader) == [b"1"]
        reader.drop()
    with open_world(start_us=1_700_000_150_000_000) as world:
        reader = back(world, "c")
        publish(world, ("a", b"2"))
        assert payloads(reader) == []


def test_a_filter_that_was_replayed_once_is_owed_like_any_other_after_an_unsubscribe(open_world: OpenWorld) -> None:
    """A replay that was broken off leaves no mark on the subscription that comes after it."""
    with open_world() as world:
        publish(world, *(("a", b"old") for _number in range(5)))
        reader = kept(world, "c", receive_maximum=1)
        replay(reader, "a", qos=1, replay_from="earliest")
        first = reader.take(Publish)
        reader.send(Unsubscribe(3, (parse_filter(b"a"),)))
        reader.take(Unsuback)
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"new"))
        reader.send(Ack(PUBACK, first.packet_id))
        assert payloads(reader) == [b"new"]


def test_a_plain_subscribe_goes_on_with_the_replay_that_is_under_way(open_world: OpenWorld) -> None:
    """Q3: what is owed is not forgotten, and nothing comes twice."""
    with open_world() as world:
        publish(world, *(("a", b"%d" % number) for number in range(4)))
        reader = kept(world, "c", receive_maximum=1)
        replay(reader, "a", qos=1, replay_from="earliest")
        first = reader.take(Publish)
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"live"))
        reader.send(Ack(PUBACK, first.packet_id))
        assert [first.payload, *payloads(reader)] == [b"0", b"1", b"2", b"3", b"live"]


def test_qos_0_between_the_log_and_the_present_is_not_left_out(tmp_path: Path) -> None:
    """L13: passed on to whoever was live, and not readable yet, when a replay joins them."""
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
        reader = world.connect("c", properties=Properties(receive_maximum=1))
        replay(reader, "a", qos=1, replay_from="earliest")
        first = reader.take(Publish)
        writer = world.connect("w")
        world.hold()
        writer.send(Publish("a", b"2"), Publish("b", b"no"))
        writer.send(Publish("a", b"3"))
        assert reader.inbox == []
        reader.send(Ack(PUBACK, first.packet_id))
        assert payloads(reader) == [b"2", b"3"]
        writer.send(Publish("a", b"4"))
        world.release()
        world.settle()
        assert payloads(reader) == [b"4"]
