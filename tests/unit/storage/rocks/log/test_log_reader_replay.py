"""Replay: nothing twice, nothing missing, nothing too early."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.log import Page
from holdfast.durable.zones import Zone
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import stored_position
from holdfast.storage.rocks.layouts.learned import LearnedLayout
from holdfast.storage.rocks.layouts.timeline import TimelineLayout
from tests.replays import replay_of
from tests.unit.storage.rocks.log.store import OpenStore, Store, by_shard, drain, places, zone

LAYOUTS = ("timeline", "learned", "bitmask", "paged")


@pytest.mark.cluster_too
def test_readers_never_pass_the_durable_head(store: Store) -> None:
    """L20: with receipts withheld, nobody sees what was written, in memory or on disk."""
    store.publish("a", "b")
    caught_up = store.replay()
    drain(caught_up)
    for _ in range(3):
        store.write(store.message("a"), store.message("b"))
    assert places(store.read()) == places(store.read(by_time=True)) == places(store.written[:2])
    assert places(store.read("a")) == places(store.written[:1])
    assert drain(caught_up)[0] == []
    assert store.reader.heads()[0] == store.written[1].position_us
    store.settle()
    assert places(drain(caught_up)[0]) == places(store.written[2:])
    assert store.reader.heads()[0] == store.written[-1].position_us


@pytest.mark.cluster_too
@pytest.mark.parametrize("large", ["payload", "properties"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_page_of_large_messages_ends_before_it_is_full(open_store: OpenStore, layout: str, large: str) -> None:
    store = open_store(default=Zone("default", layout=layout))
    for n in range(30):
        payload, properties = (bytes(300_000), b"") if large == "payload" else (b"", bytes(300_000))
        store.write(Message(b"a/%d" % (n % 3), payload, 1, ClientId("p"), store.clock.wall_us(), properties=properties))
    store.settle()
    store.reopen()
    replay = store.replay("a/#")

    pages = []
    while not (page := replay.next(500)).at_end:
        pages.append(page.messages)
    pages.append(page.messages)

    assert max(map(len, pages)) < 10, "a megabyte is enough"
    assert places([message for messages in pages for message in messages]) == places(store.written)


def test_what_a_crash_leaves_above_the_last_receipt_is_durable_after_the_next_start(store: Store) -> None:
    store.publish("a")
    store.write(store.message("a"))
    store.reopen()
    assert places(store.read()) == places(store.written)


@pytest.mark.cluster_too
@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 500])
def test_a_replay_that_reaches_the_present_goes_on_without_a_gap(
    open_store: OpenStore, limit: int, *, by_time: bool
) -> None:
    """L13: history from disk, then memory, then what arrives, each once."""
    store = open_store(default=Zone("default", shards=2))
    for n in range(12):
        store.publish("a", "b", publisher=f"p{n}")
    store.reopen()
    replay = store.replay("a", by_time=by_time)
    found = []
    for n in range(60):
        store.clock.advance(10)
        store.publish("a", "b", publisher=f"p{n % 7}")
        page = replay.next(limit)
        found.extend(page.messages)
        if n == 20:
            store.rotate()
        if n == 40:
            store.reader.revoke()
    found.extend(drain(replay, limit)[0])
    assert {shard: places(messages) for shard, messages in by_shard(found).items()} == {
        shard: places(messages) for shard, messages in by_shard(store.expected("a")).items()
    }


@pytest.mark.cluster_too
def test_an_iterator_at_its_end_goes_on_when_more_arrives(store: Store) -> None:
    """L3."""
    replay = store.replay("a")
    assert drain(replay)[0] == []
    store.publish("b")
    page = replay.next(10)
    assert page.messages == []
    assert page.at_end
    (message,) = store.publish("a")
    page = replay.next(10)
    assert places(page.messages) == places([message])
    assert page.at_end


@pytest.mark.cluster_too
def test_a_page_tells_when_the_shard_changes(open_store: OpenStore) -> None:
    """L3: `next` says end, messages, or messages of the next stream."""
    store = open_store(default=Zone("default", shards=2))
    for n in range(20):
        store.publish("a", publisher=f"p{n}")
    replay = store.replay()
    shards, changes = [], []
    while True:
        page = replay.next(3)
        if page.messages:
            assert len({message.shard for message in page.messages}) == 1
            shards.append(page.messages[0].shard)
            changes.append(page.next_stream)
        if page.at_end:
            break
    assert changes == [True] + [one != other for one, other in pairwise(shards)]
    assert set(shards) == {0, 1}


@pytest.mark.cluster_too
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stream_first_created_while_a_replay_runs_is_not_skipped(open_store: OpenStore, layout: str) -> None:
    """L19: also while the reader is in the middle of a scan on disk."""
    store = open_store(default=Zone("default", layout=layout))
    store.publish(*["plant/1/temp"] * 10)
    store.reopen(default=Zone("default", layout=layout))
    replay = store.replay("plant/#")
    found = replay.next(4).messages
    store.publish("plant/1/new", "plant/2/temp", "plant/deep/er/one")
    store.reader.revoke()
    found += drain(replay, 4)[0]
    assert places(found) == places(store.expected("plant/#"))


@pytest.mark.cluster_too
def test_the_end_of_a_range_is_not_in_it_and_the_start_is(store: Store) -> None:
    messages = store.publish("a", "a", "a", "a")
    one, two, three = (message.position_us for message in messages[:3])
    for _ in range(2):
        assert places(store.read("#", two, three)) == places(messages[1:2])
        assert places(store.read("#", one, one)) == []
        assert places(store.read("#", one, three + 1)) == places(messages[:3])
        store.reopen()


@pytest.mark.cluster_too
def test_a_replay_with_an_end_is_at_its_end_for_good(store: Store) -> None:
    messages = store.publish("a", "a", "a")
    replay = store.replay("#", 0, messages[2].position_us)
    assert places(drain(replay)[0]) == places(messages[:2])
    store.publish("a")
    page = replay.next(10)
    assert page.at_end
    assert page.messages == []


@pytest.mark.cluster_too
def test_a_start_in_the_future_waits(store: Store) -> None:
    store.publish("a")
    since_us = store.clock.wall_us() + 1_000
    replay = store.replay("#", since_us)
    assert replay.next(10).at_end
    store.clock.advance(2_000)
    (message,) = store.publish("a")
    assert places(replay.next(10).messages) == places([message])


def test_a_page_has_room_for_a_message(store: Store) -> None:
    with pytest.raises(MisuseError, match="1 or more"):
        store.replay().next(0)


@pytest.mark.cluster_too
def test_shards_are_merged_by_time(open_store: OpenStore) -> None:
    store = open_store(zone("x", "x/#", shards=3), default=Zone("default", shards=2))
    for n in range(100):
        store.clock.advance(7)
        store.publish("x/1" if n % 3 else "y", publisher=f"p{n % 10}")
    for _ in range(2):
        for limit in (1, 2, 9, 500):
            found, _lost = drain(store.replay(by_time=True), limit)
            assert places(found) == places(store.written)
        store.reopen()


def test_a_merging_reader_waits_for_a_shard_that_scans_without_a_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By time: what the slow shard finds at last comes before what the others have had for long. And nobody else is
    kept waiting meanwhile: a page ends, empty, when the patience does."""
    real = TimelineLayout.read

    def with_pauses(self: TimelineLayout, *range_: Any) -> Iterator[bytes]:
        for value in real(self, *range_):
            yield from [b""] * 45
            yield value

    store = Store(tmp_path / "data", default=Zone("default", shards=2, layout="timeline"))
    for n in range(30):
        store.clock.advance(7)
        store.publish("a", publisher=f"p{n % 10}")
    store.reopen()
    monkeypatch.setattr(TimelineLayout, "read", with_pauses)
    for by_time in (True, False):
        replay = store.replay(by_time=by_time)
        pages: list[Page[Message]] = []
        while not pages or not pages[-1].at_end:
            pages.append(replay.next(5))
        assert any(not page.messages for page in pages)
        found = [message for page in pages for message in page.messages]
        assert sorted(places(found)) == sorted(places(store.written))
        if by_time:
            assert places(found) == places(store.written)
    store.close()


def test_damage_is_told_each_time_and_what_lies_before_it_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator that has failed looks like one that is at its end. It must not be taken for one."""
    store = Store(tmp_path / "data", default=Zone("default", layout="learned"))
    store.publish(*["a"] * 10)
    store.reopen()
    real = LearnedLayout.read
    damaged_us = store.written[5].position_us

    def failing(self: LearnedLayout, *range_: Any) -> Iterator[bytes]:
        for value in real(self, *range_):
            if stored_position(value) >= damaged_us:
                raise PermanentError("a block is damaged")
            yield value

    monkeypatch.setattr(LearnedLayout, "read", failing)
    replay = store.replay()
    assert places(replay.next(500).messages) == places(store.written[:5])
    for _ in range(3):
        with pytest.raises(PermanentError, match="a block is damaged"):
            replay.next(500)
    assert replay.cursor().done[0] < damaged_us
    monkeypatch.setattr(LearnedLayout, "read", real)
    assert places(drain(replay)[0]) == places(store.written[5:])
    store.close()


@pytest.mark.cluster_too
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_levels_at_all_give_everything(open_store: OpenStore, layout: str) -> None:
    """For copies and exports: `$`-topics too, which no filter gives together with the others."""
    store = open_store(zone("x", "x/#", layout=layout), default=Zone("default", layout=layout))
    store.publish("a", "$app/1", "x/1", "$app/1")
    for _ in range(2):
        found, _lost = drain(replay_of(store.reader, (), 0, by_time=True))
        assert sorted(places(found)) == sorted(places(store.written))
        store.reopen()
    assert len(store.read("#")) == 2
