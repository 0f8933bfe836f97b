"""A replay reaches into the lake for what the log does not have any more: once, in order, whatever interrupts it."""

from pathlib import Path

import pytest

from holdfast.durable.erasures import Erasure, Erasures
from holdfast.model.protocol import PUBACK, PUBREL
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_pages import LakePages
from holdfast.records.events import Event
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.wire.packets import Ack, Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.disk_world import back, payloads, publish, replay
from tests.lake_world import LakeWorld, fill, kept_from, numbers
from tests.slow_world import kept
from tests.unit.pipeline.local_archive import archive
from tests.world import Peer

pytestmark = pytest.mark.compiled


def events(world: LakeWorld, reason: str) -> list[Event]:
    world.disk.drops.close_window()
    return [event for event in world.disk.drops.recent if event.reason == reason]


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("begin", ["earliest", "1700000000000000"])
def test_what_retention_dropped_comes_from_the_lake_and_the_rest_from_the_log(
    tmp_path: Path, shards: int, begin: str
) -> None:
    with LakeWorld(tmp_path, shards=shards) as world:
        fill(world, 0, 12)
        world.archive()
        world.age()
        fill(world, 12, 16)
        hot = kept_from(world)
        assert hot == numbers(12, 16)
        reader = world.connect("c")
        replay(reader, "+", replay_from=begin)
        assert payloads(reader) == numbers(0, 16)
        assert world.lake.counts.messages == 16 - len(hot)
        assert world.lake.counts.reading == 0
        publish(world, ("a", b"live"))
        assert payloads(reader) == [b"live"]
        assert world.drops() == {}


def test_a_message_of_the_lake_is_what_it_was_in_the_log(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        writer = world.connect("writer")
        properties = Properties(
            user_properties=(("k", "v"), ("k", "w")), content_type="text", message_expiry_interval=1_000_000
        )
        writer.send(Publish("a", b"\x00\xff", 2, 1, retain=True, properties=properties), Ack(PUBREL, 1))
        writer.send(Publish("a", b"zero", 0))
        line = (Subscription(replay_filter("a"), 2, retain_as_published=True),)
        asked = Properties(user_properties=(("replay-from", "earliest"),), subscription_identifiers=(7,))

        def replayed(name: str) -> list[Publish]:
            reader = world.connect(name)
            reader.send(Subscribe(9, line, asked))
            reader.take(Suback)
            return reader.take_all(Publish)

        hot = replayed("hot")
        world.archive()
        world.age()
        cold = replayed("cold")
        assert world.lake.counts.messages == len(cold) == 2
        for one, other in zip(hot, cold, strict=True):
            expiry = other.properties.message_expiry_interval
            assert (expiry or 0) < 1_000_000, "it says what is left"
            assert (one.topic, one.payload, one.qos, one.retain) == (
                other.topic,
                other.payload,
                other.qos,
                other.retain,
            )
            assert one.properties.user_properties == other.properties.user_properties
            assert one.properties.content_type == other.properties.content_type
            assert one.properties.subscription_identifiers == other.properties.subscription_identifiers


def replay_filter(text: str) -> TopicFilter:
    return parse_filter(text.encode())


def test_an_expired_message_of_the_lake_is_left_out_and_counted(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        world.connect("w").send(Publish("a", b"short", 1, 1, properties=Properties(message_expiry_interval=3)))
        publish(world, ("a", b"long"))
        world.archive()
        world.age()
        reader = world.connect("c")
        replay(reader, "a", replay_from="earliest")
        assert payloads(reader) == [b"long"]
        assert world.drops() == {"expired": 1}


def test_the_archive_moves_and_retention_drops_while_a_replay_waits_for_its_page(tmp_path: Path) -> None:
    """The border is looked up when a scan stands before it: no hole, and nothing twice."""
    with LakeWorld(tmp_path, shards=2) as world:
        fill(world, 0, 6)
        world.archive()
        world.age()
        fill(world, 6, 12)
        reader = world.connect("c")
        world.held = True
        replay(reader, "+", replay_from="earliest")
        assert payloads(reader) == []
        assert len(world.lake.asked) == 1
        before = kept_from(world)
        fill(world, 12, 24)
        world.archive()
        world.age()
        fill(world, 24, 30)
        assert (before, kept_from(world)) == (numbers(6, 12), numbers(24, 30))
        world.held = False
        while world.lake.asked:
            world.answer()
        assert payloads(reader) == numbers(0, 30)
        assert world.drops() == {}


def test_a_replay_in_the_log_goes_on_in_the_lake_when_retention_overtakes_it(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        for number in range(30):
            publish(world, ("a", b"%d" % number))
        reader = world.connect("c", properties=Properties(receive_maximum=3))
        replay(reader, "a", qos=1, replay_from="earliest")
        first = reader.take_all(Publish)
        assert len(first) == 3
        assert world.lake.counts.pages == 0
        world.archive()
        world.age()
        reader.send(*[Ack(PUBACK, packet.packet_id) for packet in first])
        assert [packet.payload for packet in first] + payloads(reader) == numbers(0, 30)
        assert world.lake.counts.messages >= 20
        assert world.drops() == {}


@pytest.mark.parametrize("in_group", [False, True])
def test_a_client_that_goes_cancels_its_question(tmp_path: Path, *, in_group: bool) -> None:
    """Also one whose session stays in memory, for the group that it is a member of."""
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 8)
        world.archive()
        world.age()
        world.held = True
        reader = kept(world, "c")
        if in_group:
            reader.subscribe("$share/g/x")
        replay(reader, "+", replay_from="earliest")
        [asking] = world.lake.asked
        reader.drop()
        assert (world.client_of("c") is not None) == in_group
        assert asking.cancelled
        assert world.lake.counts.reading == 0
        world.held = False
        assert payloads(back(world, "c")) == numbers(0, 8)


def test_unsubscribing_cancels_the_question(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 8)
        world.archive()
        world.age()
        world.held = True
        reader = world.connect("c")
        replay(reader, "+", replay_from="earliest")
        [asking] = world.lake.asked
        reader.send(Unsubscribe(3, (replay_filter("+"),)))
        reader.take(Unsuback)
        assert asking.cancelled
        assert world.lake.counts.reading == 0


def test_without_its_lake_a_replay_gets_what_the_log_has_and_says_why(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 8)
        world.age()
        fill(world, 8, 12)
        hot = kept_from(world)
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000")
        assert payloads(reader) == hot
        [event] = events(world, "lake_away")
        assert event.client == "c"
        assert "is no lake" in event.detail
        assert event.to_us > event.from_us
        assert world.drops()["retention"] >= 12 - len(hot), "it asked from a time, so the rest is lost to it"
        assert world.lake.counts.given_up == 1
        assert world.lake.counts.reading == 0


def test_the_lake_of_another_broker_is_not_shown(tmp_path: Path) -> None:
    with LakeWorld(tmp_path / "other") as other:
        fill(other, 100, 108)
        other.archive()
    with LakeWorld(tmp_path / "one") as world:
        fill(world, 0, 4)
        world.age()
        fill(world, 4, 6)
        world.lake.pages = LakePages(tmp_path / "other" / "lake")
        hot = kept_from(world)
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000")
        assert payloads(reader) == hot
        [event] = events(world, "lake_away")
        assert "belongs to another broker" in event.detail


def test_what_the_lake_does_not_have_is_lost_and_said_so(tmp_path: Path) -> None:
    """The archive stopped, and retention did not wait: a hole between lake and log."""
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 4)
        world.archive()
        fill(world, 4, 8)
        world.age()
        fill(world, 8, 12)
        hot = kept_from(world)
        assert hot == numbers(8, 12)
        reader = world.connect("c")
        replay(reader, "+", replay_from="earliest")
        assert payloads(reader) == [*numbers(0, 4), *hot]
        assert world.drops()["retention"] >= 4
        assert events(world, "lake_away") == []


def test_a_shard_that_was_idle_when_its_generation_ended_has_lost_nothing(tmp_path: Path) -> None:
    """A generation ends behind the last message of its busiest shard."""
    with LakeWorld(tmp_path, shards=4) as world:
        names = ["p", "q", "r", "s", "t", "u", "u", "u"]
        for first in (0, 8):
            for number, name in enumerate(names, first):
                writer = world.connect(name)
                writer.send(Publish("a", b"%d" % number, 1, 1))
                writer.drop()
                world.tick(0.5)
            if not first:
                world.archive()
                world.age()
        assert len([us for us in world.disk.log.reader.heads().values() if us]) > 2
        assert kept_from(world) == numbers(8, 16)
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000")
        assert payloads(reader) == numbers(0, 16)
        assert world.drops() == {}
        assert events(world, "retention") == []


def test_suback_says_up_to_when_the_lake_is_read(tmp_path: Path) -> None:
    def told(peer: Peer, begin: str) -> dict[str, str]:
        lines = (Subscription(replay_filter("+"), 1),)
        peer.send(Subscribe(9, lines, Properties(user_properties=(("replay-from", begin),))))
        return dict(peer.take(Suback).properties.user_properties)

    with LakeWorld(tmp_path) as world:
        fill(world, 0, 12)
        world.archive()
        world.age()
        fill(world, 12, 14)
        [archived] = Lake.open(world.lake_folder).offsets.values()
        border = told(world.connect("a"), "earliest")["replay-lake"]
        assert int(border) == archived.position_us + 1
        assert "replay-lake" not in told(world.connect("b"), border)


def test_erased_messages_of_the_lake_are_not_replayed(tmp_path: Path) -> None:
    """The erasure is known to the log before the lake is rewritten."""
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 12)
        world.archive()
        world.age()
        heads = world.disk.log.reader.heads()
        world.disk.log.reader.hide(Erasures([Erasure("", (b"a",), heads, 1, "test")]))
        reader = world.connect("c")
        replay(reader, "+", replay_from="earliest")
        assert payloads(reader) == [b"%d" % number for number in range(1, 12, 2)]


def test_a_paced_replay_of_the_lake_keeps_its_pace(tmp_path: Path) -> None:
    with LakeWorld(tmp_path, shards=2) as world:
        fill(world, 0, 6)
        world.archive()
        world.age()
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000", replay_speed="10")
        got = payloads(reader)
        assert len(got) < 6
        for _step in range(40):
            world.advance(0.1)
            got += payloads(reader)
        assert got == numbers(0, 6)


def test_a_slow_replay_of_the_lake_asks_for_a_page_and_not_for_each_message(tmp_path: Path) -> None:
    with LakeWorld(tmp_path, shards=2) as world:
        fill(world, 0, 12)
        world.archive()
        world.age()
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000", replay_speed="0.1")
        got = payloads(reader)
        for _step in range(60):
            world.advance(1)
            more = payloads(reader)
            assert len(more) <= 1
            got += more
        assert got == numbers(0, 12)
        assert world.lake.counts.pages <= 2


def test_what_is_erased_while_a_slow_replay_waits_is_not_sent(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        fill(world, 0, 12)
        world.archive()
        world.age()
        reader = world.connect("c")
        replay(reader, "+", replay_from="1700000000000000", replay_speed="0.1")
        got = payloads(reader)
        while len(got) < 2:
            world.advance(1)
            got += payloads(reader)
        heads = world.disk.log.reader.heads()
        world.disk.log.reader.hide(Erasures([Erasure("", (b"a",), heads, 1, "test")]))
        for _step in range(60):
            world.advance(1)
            got += payloads(reader)
        assert got == [b"0", *[b"%d" % number for number in range(1, 12, 2)]]


def test_a_second_archive_run_is_seen_by_a_replay_that_begins_later(tmp_path: Path) -> None:
    with LakeWorld(tmp_path) as world:
        for first in (0, 8):
            fill(world, first, first + 8)
            world.archive()
            world.age()
            reader = world.connect(f"c{first}")
            replay(reader, "+", replay_from="earliest")
            assert payloads(reader) == numbers(0, first + 8)
        assert archive(world.data, world.lake_folder).rows == 0
