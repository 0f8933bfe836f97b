"""Retention drops whole generations, and tells every reader what it lost."""

import gc
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.model.message import Message
from holdfast.records.cursors import Cursor, decode_cursor, encode_cursor
from holdfast.storage.rocks.log import zone_log
from tests.replays import resumed_replay
from tests.unit.storage.rocks.log.store import SECOND_US, OpenStore, Store, drain, places, zone


def generations(store: Store, *counts: int) -> list[list[Message]]:
    """Generations with so many messages each; the last one stays open."""
    made: list[list[Message]] = []
    for count in counts:
        store.clock.advance(SECOND_US)
        if made:
            store.rotate()
        store.clock.advance(SECOND_US)
        made.append(store.publish(*["a"] * count))
    return made


def resumed(store: Store, done_us: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """What a reader at a position finds from there on: places, and ranges lost with their bound."""
    messages, lost = drain(resumed_replay(store.reader, (b"#",), Cursor("*", {0: done_us}), 0))
    return places(messages), [(item.from_us, item.to_us, item.at_most) for item in lost]


@pytest.mark.cluster_too
def test_a_reader_in_a_dropped_generation_goes_on_at_the_oldest_message_kept(store: Store) -> None:
    """L12: with the range, and an upper bound of the count."""
    first, second, third = generations(store, 5, 4, 3)
    store.drop_oldest()
    done_us = first[1].position_us
    found, lost = resumed(store, done_us)
    assert found == places(second + third)
    assert lost == [(done_us + 1, store.end_behind(first), 5)]


@pytest.mark.cluster_too
def test_a_reader_that_was_at_the_beginning_has_lost_what_came_and_went(store: Store) -> None:
    """L12: it did not ask for the earliest there is: it had read an empty shard to its end."""
    first, second = generations(store, 5, 4)
    store.drop_oldest()
    found, lost = resumed(store, 0)
    assert found == places(second)
    assert [(to_us, at_most) for _from_us, to_us, at_most in lost] == [(store.end_behind(first), 5)]


@pytest.mark.cluster_too
def test_several_dropped_generations_are_one_loss(store: Store) -> None:
    """L12."""
    first, second, third = generations(store, 5, 4, 3)
    store.drop_oldest()
    store.drop_oldest()
    end_us = store.end_behind(second)
    assert resumed(store, first[0].position_us) == (places(third), [(first[0].position_us + 1, end_us, 9)])
    lost = [(second[0].position_us + 1, end_us, 4 if isinstance(store, Store) else 9)]
    assert resumed(store, second[0].position_us) == (places(third), lost), "a cluster counts all that was dropped"


@pytest.mark.cluster_too
def test_a_reader_that_has_read_all_has_lost_nothing_when_retention_empties_the_shard(store: Store) -> None:
    """A session of a quiet shard is such a reader each time that it returns."""
    (only,) = generations(store, 5)
    store.rotate()
    store.drop_oldest()
    for _open in range(2):
        assert resumed(store, only[-1].position_us) == ([], [])
        assert resumed(store, only[-2].position_us)[1] == [(only[-1].position_us, only[-1].position_us + 1, 5)]
        store.reopen()


def test_a_reader_behind_a_dropped_generation_has_lost_nothing(store: Store) -> None:
    first, second = generations(store, 5, 4)
    store.drop_oldest()
    assert resumed(store, first[-1].position_us) == (places(second), [])
    assert resumed(store, second[0].position_us) == (places(second[1:]), [])


@pytest.mark.cluster_too
def test_whoever_asks_for_the_earliest_has_lost_nothing(store: Store) -> None:
    _first, second = generations(store, 5, 4)
    store.drop_oldest()
    for since_us in (0, 1):
        assert (places(second), []) == (lambda found: (places(found[0]), found[1]))(drain(store.replay("#", since_us)))


@pytest.mark.cluster_too
def test_whoever_asks_for_the_earliest_has_lost_nothing_where_zones_begin_at_different_times(
    open_store: OpenStore,
) -> None:
    """A replay comes to what each zone has dropped in parts, which end where generations of others do."""
    store = open_store(zone("x", "x/#"))
    for name, topic in (("default", "a"), ("x", "x/1"), ("default", "a"), ("x", "x/1")):
        store.publish(topic, topic)
        store.clock.advance(SECOND_US)
        store.rotate(name)
    kept = store.publish("a", "x/1")
    for name in ("default", "x"):
        store.drop_oldest(name)
        store.drop_oldest(name)
    messages, lost = drain(store.replay())
    assert sorted(places(messages)) == sorted(places(kept))
    assert lost == []


@pytest.mark.cluster_too
def test_a_loss_is_told_once_and_not_again_after_the_cursor_was_saved(store: Store) -> None:
    first, _second = generations(store, 5, 4)
    store.drop_oldest()
    replay = resumed_replay(store.reader, (b"#",), Cursor("*", {0: first[0].position_us}), 0)
    page = replay.next(1)
    assert len(page.lost) == 1
    assert drain(replay)[1] == []
    assert drain(resumed_replay(store.reader, (b"#",), decode_cursor(encode_cursor(replay.cursor())), 0))[1] == []


@pytest.mark.cluster_too
def test_a_reader_in_the_middle_of_a_generation_when_it_goes(store: Store) -> None:
    """L12: what it had read is no loss; from there on it is told."""
    first, second = generations(store, 50, 4)
    store.reopen()
    replay = store.replay()
    read = replay.next(20).messages
    assert places(read) == places(first[:20])
    store.drop_oldest()
    messages, lost = drain(replay)
    assert places(messages) == places(second)
    assert [(item.from_us, item.to_us) for item in lost] == [(first[19].position_us + 1, store.end_behind(first))]
    assert 30 <= lost[0].at_most <= 50


@pytest.mark.cluster_too
def test_a_merging_reader_returns_what_it_has_and_is_told_of_the_rest(open_store: OpenStore) -> None:
    """L12, by time."""
    store = open_store(default=Zone("default", shards=2))
    for n in range(40):
        store.publish(*["a"] * 10, publisher=f"p{n % 8}")
    old = list(store.written)
    store.rotate()
    store.publish("a")
    store.reopen()
    replay = store.replay(by_time=True)
    messages = list(replay.next(10).messages)
    store.drop_oldest()
    rest, lost = drain(replay)
    messages += rest
    assert places(messages) == sorted(places(messages), key=lambda place: place[1])
    assert places(messages)[-1] == places(store.written)[-1]
    gone = len(old) + 1 - len(messages)
    assert gone > 0
    assert sum(item.at_most for item in lost) >= gone


@pytest.mark.cluster_too
def test_an_end_inside_a_dropped_generation_bounds_the_loss(store: Store) -> None:
    first, _second = generations(store, 5, 4)
    store.drop_oldest()
    messages, lost = drain(store.replay("#", first[1].position_us, first[3].position_us))
    assert messages == []
    assert [(item.from_us, item.to_us, item.at_most) for item in lost] == [
        (first[1].position_us, first[3].position_us, 5)
    ]


@pytest.mark.cluster_too
def test_a_loss_is_told_after_a_restart_too(store: Store) -> None:
    first, second = generations(store, 5, 4)
    store.drop_oldest()
    store.reopen()
    found, lost = resumed(store, first[0].position_us)
    assert found == places(second)
    assert [at_most for _from, _to, at_most in lost] == [5]


def test_a_shard_that_has_nothing_left_still_tells_what_is_gone(tmp_path: Path) -> None:
    """L12: fewer shards by the settings, and their last generation dropped: never silence."""
    store = Store(tmp_path / "data", default=Zone("default", shards=2))
    for n in range(20):
        store.publish("a", publisher=f"p{n}")
    replay = store.replay()
    page = replay.next(1)
    store.reopen(default=Zone("default", shards=1))
    (last,) = store.publish("a")
    store.drop_oldest()
    messages, lost = drain(resumed_replay(store.reader, (b"#",), replay.cursor(), 0))
    assert places(messages) == places([last])
    assert {item.shard for item in lost} == {0, 1}
    assert sum(item.at_most for item in lost) >= 20 - len(page.messages)
    store.close()


def test_what_was_forgotten_even_as_a_record_still_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of dropped generations are bounded; the bound of a loss stays one."""
    monkeypatch.setattr(zone_log, "_KEPT_RECORDS", 2)
    made = generations(store, 5, 4, 3, 2, 1)
    for _ in range(4):
        store.drop_oldest()
    store.reopen()
    assert len(store.zone_log().dropped) == 2
    done_us = made[0][0].position_us
    found, lost = resumed(store, done_us)
    assert found == places(made[-1])
    assert lost == [(done_us + 1, made[-2][-1].position_us + 1, 14)]


def test_a_generation_that_is_missing_in_the_middle_is_told_and_its_neighbours_are_read(store: Store) -> None:
    """A repair may come without a family. What lies before and behind it is not lost with it."""
    first, second, third = generations(store, 5, 4, 3)
    bounds = store.zone_log().live[1].record
    store.reader.revoke()
    store.engine.drop_family("log-00000-00000002")
    store.reopen()
    messages, lost = drain(store.replay("#", first[0].position_us))
    assert places(messages) == places(first + third)
    assert [(item.from_us, item.to_us, item.at_most) for item in lost] == [(bounds.start_us, bounds.end_us, 4)]
    assert second
    assert store.zone_log().lost(0, first[0].position_us, 2**62) is None, "what is still there comes first"


def test_time_drops_what_is_too_old_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", retention_s=100, generation_s=60))
    store.publish("a")
    for _ in range(3):
        store.clock.advance(61 * SECOND_US)
        store.maintenance.tick()
        store.publish("a")
    store.maintenance.tick()
    oldest_us = store.clock.wall_us() - 100 * SECOND_US
    kept = store.read()
    assert len(kept) < len(store.written)
    assert {message.position_us for message in store.written if message.position_us >= oldest_us} <= {
        message.position_us for message in kept
    }
    store.close()


def test_size_drops_the_oldest(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", retention_s=0, retention_bytes=16_000_000))
    for _ in range(70):
        store.write(*[store.message("a", payload=bytes([n]) * 40_000) for n in range(10)])
        store.settle()
        store.maintenance.tick()
    kept = store.read()
    assert 100 <= len(kept) < 500
    assert places(kept) == places(store.written[-len(kept) :])
    store.close()


def test_disk_space_is_free_when_a_generation_is_dropped_under_readers(tmp_path: Path) -> None:
    """A dropped family keeps its files until the last handle dies: readers are revoked first."""
    store = Store(tmp_path / "data")
    store.write(*[store.message("a", payload=bytes([n]) * 50_000) for n in range(100)])
    store.settle()
    store.rotate()
    store.publish("a")
    store.engine.flush()
    store.reopen()
    before = sum(path.stat().st_size for path in (tmp_path / "data" / "rocks").glob("*.sst"))
    readers = [store.replay(), store.replay("+"), store.replay(by_time=True)]
    for reader in readers:
        assert len(reader.next(10).messages) == 10
    gc.disable()
    try:
        store.drop_oldest()
        after = sum(path.stat().st_size for path in (tmp_path / "data" / "rocks").glob("*.sst"))
    finally:
        gc.enable()
    assert before > 20_000
    assert after < before / 2
    assert all(len(drain(reader)[0]) >= 1 for reader in readers)
    store.close()


def test_a_generation_that_was_half_dropped_goes_at_the_next_start(tmp_path: Path) -> None:
    """A crash between the families of one generation: what is left of it cannot be told from all of it."""
    store = Store(tmp_path / "data", default=Zone("default", shards=2))
    for n in range(8):
        store.publish("a", publisher=f"p{n}")
    store.rotate()
    store.publish("a")
    store.reader.revoke()
    store.engine.drop_family("log-00000-00000001")
    store.reopen()
    assert not [name for name in store.engine.families() if name.endswith("-00000001")]
    messages, lost = drain(store.replay("#", 2))
    assert places(messages) == places(store.written[-1:])
    assert sum(item.at_most for item in lost) == 8
    store.close()
