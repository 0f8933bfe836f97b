"""Cursors: a reader goes on where it was, after a restart, with other settings, on nothing."""

from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.records.cursors import Cursor, decode_cursor, encode_cursor
from tests.replays import resumed_replay
from tests.unit.storage.rocks.log.store import OpenStore, Store, by_shard, drain, levels, places, zone


def saved(cursor: Cursor) -> Cursor:
    return decode_cursor(encode_cursor(cursor))


@pytest.mark.cluster_too
@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("limit", [1, 4, 13])
def test_a_reader_that_is_resumed_after_every_page_misses_nothing(
    open_store: OpenStore, limit: int, *, by_time: bool
) -> None:
    """L3: iterators serialise."""
    store = open_store(default=Zone("default", shards=3))
    for n in range(40):
        store.clock.advance(5)
        store.publish("a", "b", publisher=f"p{n}")
        if n == 20:
            store.rotate()
    found = []
    cursor = Cursor("*", {})
    for _ in range(1_000):
        replay = resumed_replay(store.reader, levels("a"), cursor, 0, by_time=by_time)
        page = replay.next(limit)
        found.extend(page.messages)
        cursor = saved(replay.cursor())
        if page.at_end:
            break
    assert {shard: places(messages) for shard, messages in by_shard(found).items()} == {
        shard: places(messages) for shard, messages in by_shard(store.expected("a")).items()
    }


@pytest.mark.cluster_too
def test_a_cursor_survives_a_restart(store: Store) -> None:
    """L3."""
    store.publish("a", "a", "a")
    replay = store.replay()
    first = replay.next(2).messages
    text = encode_cursor(replay.cursor())
    store.reopen()
    store.publish("a")
    rest, _lost = drain(resumed_replay(store.reader, (b"#",), decode_cursor(text), 0))
    assert places(first + rest) == places(store.written)


@pytest.mark.cluster_too
@pytest.mark.parametrize("since_us", [0, 1, 5])
def test_a_reader_that_has_read_nothing_has_a_cursor_too(store: Store, since_us: int) -> None:
    """And it is the one of a reader that begins: nothing is skipped, and nothing counts as lost."""
    cursor = saved(store.replay("#", since_us).cursor())
    store.publish("a")
    store.rotate()
    store.publish("a")
    messages, lost = drain(resumed_replay(store.reader, (b"#",), cursor, since_us))
    assert places(messages) == places(store.written)
    assert lost == []


@pytest.mark.cluster_too
def test_the_earliest_stays_the_earliest_in_a_cursor(store: Store) -> None:
    store.publish("a")
    store.rotate()
    store.publish("a")
    cursor = saved(store.replay().cursor())
    store.drop_oldest()
    messages, lost = drain(resumed_replay(store.reader, (b"#",), cursor, 0))
    assert places(messages) == places(store.written[1:])
    assert lost == []


def test_a_shard_that_the_cursor_does_not_know_is_read_from_the_start_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    store.publish("x/1", "y")
    replay = store.replay()
    drain(replay)
    cursor = saved(replay.cursor())
    store.reopen(zone("x", "x/#"), default=Zone("default", shards=2))
    middle = store.publish("x/2", "y")
    since_us = store.publish("x/3")[0].position_us
    found, _lost = drain(resumed_replay(store.reader, (b"#",), cursor, 0))
    assert sorted(places(found)) == sorted(places(store.written[2:]))
    found, _lost = drain(resumed_replay(store.reader, levels("x/#"), cursor, since_us))
    assert places(found) == places(store.written[-1:])
    assert middle
    store.close()


@pytest.mark.cluster_too
def test_what_was_read_ahead_is_not_done(open_store: OpenStore) -> None:
    """A merge holds messages that nobody has seen: its cursor stands before them."""
    store = open_store(default=Zone("default", shards=2))
    for n in range(30):
        store.clock.advance(5)
        store.publish("a", publisher=f"p{n}")
    replay = store.replay(by_time=True)
    first = replay.next(7).messages
    rest, _lost = drain(resumed_replay(store.reader, (b"#",), saved(replay.cursor()), 0, by_time=True))
    assert places(first + rest) == places(store.written)


def test_a_closed_replay_lets_go_of_the_store_and_keeps_its_place(store: Store) -> None:
    store.publish("a", "a")
    replay = store.replay()
    replay.next(1)
    assert len(store.reader._scans) == 1
    replay.close()
    assert len(store.reader._scans) == 0
    assert places(replay.next(10).messages) == places(store.written[1:])
