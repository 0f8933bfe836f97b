"""Generations begin, end, inherit, and keep what they were made with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log import maintenance
from tests.learned_dump import dump
from tests.unit.storage.rocks.log.store import (
    HOUR_US,
    SECOND_US,
    OpenStore,
    Store,
    by_publisher_and_topic,
    drain,
    levels,
    places,
    zone,
)

LAYOUTS = ("timeline", "learned", "bitmask", "paged")


@pytest.fixture
def learned(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "learned", default=Zone("default", layout="learned"))
    yield store
    store.close()


def test_a_new_generation_inherits_what_was_learnt(learned: Store) -> None:
    """L11: the wildcard paths, and so the streams, are there before the first message is."""
    learned.publish(*[f"plant/{n}/temp" for n in range(300)])
    learnt = learned.zone_log().live[-1].by_shard[0].layout.learned()
    assert learnt is not None
    learned.rotate()
    inherited = learned.zone_log().live[-1].by_shard[0].layout.learned()
    assert inherited is not None
    assert 0 < inherited.stream_count < learnt.stream_count
    assert any("+" in pattern.text for pattern in inherited.patterns())


def test_what_was_inherited_is_there_after_a_restart(learned: Store) -> None:
    """L10, L11."""
    learned.publish(*[f"plant/{n}/temp" for n in range(300)])
    learned.rotate()
    learned.publish("plant/x/temp")
    before = learned.zone_log().live[-1].by_shard[0].layout.learned()
    learned.reopen()
    after = learned.zone_log().live[-1].by_shard[0].layout.learned()
    assert before is not None
    assert after is not None
    assert dump(after) == dump(before)


def test_what_was_inherited_is_there_after_a_restart_before_the_first_message(learned: Store) -> None:
    """L10, L11: it is stored with the generation, and not with the message that would need it first."""
    learned.publish(*[f"plant/{n}/temp" for n in range(300)])
    learned.rotate()
    before = learned.zone_log().live[-1].by_shard[0].layout.learned()
    learned.reopen()
    after = learned.zone_log().live[-1].by_shard[0].layout.learned()
    assert before is not None
    assert after is not None
    assert dump(before) == "plant\n  +\n    temp * 0"
    assert dump(after) == dump(before)


@pytest.mark.cluster_too
@pytest.mark.parametrize("other", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_old_generations_stay_readable_with_their_own_layout(open_store: OpenStore, layout: str, other: str) -> None:
    """L11: new settings take effect with the next generation."""
    store = open_store(default=Zone("default", layout=layout))
    store.publish("a/1", "b/1")
    store.reopen(default=Zone("default", layout=other))
    store.publish("a/2", "b/1")
    assert store.layouts() == ([layout, other] if layout != other else [layout])
    for text in ("#", "a/+", "b/1"):
        assert places(store.read(text)) == places(store.expected(text))
    store.index()
    store.reopen()
    for text in ("#", "a/+", "b/1"):
        assert places(store.read(text)) == places(store.expected(text))


def test_the_same_settings_go_on_with_the_same_generation(tmp_path: Path) -> None:
    settings = zone("z", "z/#", thresholds=(3, 2))
    store = Store(tmp_path / "data", settings, mounts=["m/"])
    store.publish("z/1", "a")
    store.reopen(zone("z", "z/#", thresholds=(3, 2)), mounts=["m/"])
    assert [len(zone_log.live) for zone_log in store.log.zone_logs.values()] == [1, 1]
    store.close()


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("by_time", [False, True], ids=["shard by shard", "by time"])
def test_a_publishers_order_is_kept_when_the_number_of_shards_changes(
    tmp_path: Path, before: int, after: int, *, by_time: bool
) -> None:
    """L1: generation g of all shards is read before g + 1, since a publisher may have moved to another shard."""
    store = Store(tmp_path / "data", default=Zone("default", shards=before))
    publishers = [f"p{n}" for n in range(12)]
    for _ in range(3):
        for publisher in publishers:
            store.publish("a/b", publisher=publisher)
    store.reopen(default=Zone("default", shards=after))
    for _ in range(3):
        for publisher in publishers:
            store.publish("a/b", publisher=publisher)
    for limit in (1, 3, 7, 500):
        found, lost = drain(store.replay(by_time=by_time), limit)
        assert not lost
        assert by_publisher_and_topic(found) == by_publisher_and_topic(store.written)
        assert list(map(places, by_publisher_and_topic(found).values())) == list(
            map(places, [by_publisher_and_topic(store.written)[key] for key in by_publisher_and_topic(found)])
        )
    store.close()


@pytest.mark.parametrize("by_time", [False, True], ids=["zone by zone", "by time"])
def test_a_publishers_order_is_kept_when_a_topic_moves_from_zone_to_zone(
    open_store: OpenStore, *, by_time: bool
) -> None:
    """L1, L17: into a zone that appears, and back into the default zone when it is gone."""
    store = open_store()
    store.publish("x/1", "x/1", "y")
    store.reopen(zone("x", "x/#"))
    store.publish("x/1", "x/1", "y")
    store.reopen(default=Zone("default"))
    store.publish("x/1", "x/1", "y")
    for limit in (1, 2, 500):
        found, _lost = drain(store.replay("x/#", by_time=by_time), limit)
        assert places(found) == places(store.expected("x/#"))


def test_a_zone_that_appears_takes_only_new_messages(open_store: OpenStore) -> None:
    """L17."""
    store = open_store()
    (old,) = store.publish("x/1")
    store.reopen(zone("x", "x/#"))
    (new,) = store.publish("x/1")
    assert old.shard != new.shard
    assert places(store.read("x/1")) == places([old, new])


def test_a_zone_that_is_removed_stays_readable(tmp_path: Path) -> None:
    """Its retention is the default one from then on; until then nothing is lost, also if it is young."""
    store = Store(tmp_path / "data", zone("x", "x/#"))
    store.publish("x/1", "y")
    store.reopen(default=Zone("default", retention_s=3600))
    store.maintenance.tick()
    store.publish("x/1")
    assert places(store.read("x/1")) == places(store.expected("x/1"))
    store.index()
    store.reopen()
    store.maintenance.tick()
    assert places(store.read("x/1")) == places(store.expected("x/1"))
    store.clock.advance(2 * HOUR_US)
    store.reopen()
    store.maintenance.tick()
    assert store.zone_log("x").live == []
    assert store.read("x/1") == []
    store.close()


def test_a_zone_that_comes_back_goes_on_with_what_it_had_learnt(tmp_path: Path) -> None:
    """L11, L17."""
    x = zone("x", "x/#", layout="learned")
    store = Store(tmp_path / "data", x)
    store.publish(*[f"x/{n}/t" for n in range(300)])
    store.reopen(default=Zone("default"))
    store.publish("x/1/t")
    store.reopen(x)
    inherited = store.zone_log("x").live[-1].by_shard[1].layout.learned()
    assert inherited is not None
    assert inherited.stream_count > 0
    assert all(entry.loaded for entry in store.zone_log("x").pending_indexes), "what is loaded twice is indexed twice"
    store.publish("x/1/t", "x/new/t")
    store.index()
    for text in ("x/#", "x/1/t", "x/+/t"):
        assert places(store.read(text)) == places(store.expected(text))
    store.close()


def test_a_zone_that_stores_no_longer_keeps_what_it_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", zone("x", "x/#"))
    store.publish("x/1")
    for _ in range(2):
        store.reopen(zone("x", "x/#", store=False))
        store.publish("x/1")
        store.maintenance.tick()
        assert len(store.zone_log("x").live) == 1
        assert len(store.read("x/1")) == 1
    store.close()


@pytest.mark.parametrize(
    ("filters", "mounts"), [(["y/#"], ["m/"]), (["x/#"], []), (["x/a"], ["m/", "n/"])], ids=["filter", "mount", "both"]
)
def test_what_a_zone_holds_is_found_though_its_filters_have_changed(
    open_store: OpenStore, filters: list[str], mounts: list[str]
) -> None:
    """L2: a message that was seen once is seen by later readers, whatever zone its topic would belong to now."""
    store = open_store(zone("z", "x/#"), mounts=["m/"])
    store.publish("x/1", "m/x/1")
    for _ in range(2):
        store.reopen(zone("z", *filters), mounts=mounts)
        store.publish("x/1", "m/x/1", "y/1")
        for text in ("x/1", "m/x/1", "y/+", "+/x/#", "#"):
            assert sorted(places(store.read(text))) == sorted(places(store.expected(text)))


def test_readers_do_not_look_into_zones_that_can_have_no_match(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", zone("x", "x/#"), zone("y", "y/#"))
    assert [shard.id for _zone_log, shard in store.reader.shards_of(levels("x/+"))] == [0, 1]
    assert [shard.id for _zone_log, shard in store.reader.shards_of(levels("a"))] == [0]
    store.close()


def test_impossible_settings_change_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.publish("a")
    made: list[str] = []
    monkeypatch.setattr(Engine, "create_family", lambda _engine, name: made.append(name))
    with pytest.raises(SettingsError, match="no layout 'nonsense'"):
        store.reopen(default=Zone("default", layout="nonsense"))
    assert made == []
    store._settings = ([], Zone("default"), [])
    store._open()
    assert places(store.read()) == places(store.written)


def test_a_generation_ends_when_it_is_old_enough_and_not_while_it_is_empty(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", generation_s=100))
    for _ in range(3):
        store.clock.advance(101 * SECOND_US)
        store.maintenance.tick()
    assert len(store.zone_log().live) == 1
    store.publish("a")
    store.maintenance.tick()
    assert len(store.zone_log().live) == 2
    store.reopen()
    store.clock.advance(101 * SECOND_US)
    store.maintenance.tick()
    assert len(store.zone_log().live) == 2, "the ceiling of before is no message"
    store.close()


def test_a_generation_ends_when_it_is_large(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", generation_bytes=200_000))
    store.publish("a")
    store.maintenance.tick()
    assert len(store.zone_log().live) == 1
    store.write(*[store.message("a", payload=bytes(10_000)) for _ in range(40)])
    store.settle()
    store.maintenance.tick()
    assert len(store.zone_log().live) == 2
    store.close()


def test_the_next_families_are_made_ahead_one_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", shards=3, generation_s=100))
    store.publish("a")
    store.clock.advance(91 * SECOND_US)
    counts = []
    for _ in range(4):
        store.maintenance.tick()
        counts.append(len([name for name in store.engine.families() if name.startswith("log-")]))
    assert counts == [4, 5, 6, 6]
    before = store.engine.families()
    store.engine.create_family("log-00001-00000001-17")
    store.reopen()
    # Dropped and made again under their names, they would end every process that reads beside the broker.
    assert store.engine.families() == before, "strays go, and what is made ahead stays"
    store.clock.advance(10 * SECOND_US)
    store.maintenance.tick()
    assert [generation.record.number for generation in store.zone_log().live] == [1, 2]
    assert store.engine.families() == before
    store.close()


def test_families_are_bounded_and_retention_works_with_any_number_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sealed generation there is nothing that retention could drop."""
    monkeypatch.setattr(maintenance, "MAX_FAMILIES", 6)
    store = Store(tmp_path / "data", default=Zone("default", shards=4, retention_s=600))
    (old,) = store.publish("a")
    for _ in range(4):
        store.clock.advance(601 * SECOND_US)
        store.publish("a")
        store.maintenance.tick()
        assert len(store.zone_log().live) <= 2
    assert old.position_us not in [message.position_us for message in store.read()]
    store.close()


@pytest.mark.parametrize(("layout", "most"), [("learned", 3), ("paged", 2)], ids=["learned", "paged"])
def test_a_zone_does_not_make_more_generations_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, most: int
) -> None:
    """A generation has a family for each shard, and with `paged` one for segments."""
    monkeypatch.setattr(maintenance, "MAX_FAMILIES", 6)
    kept = Zone("default", shards=2, layout=layout, generation_s=60, retention_s=0)
    store = Store(tmp_path / "data", default=kept)
    for _ in range(5):
        store.publish("a")
        store.clock.advance(61 * SECOND_US)
        store.maintenance.tick()
    assert len(store.zone_log().live) == most
    assert places(store.read()) == places(store.written)
    store.close()


def test_the_open_generation_cannot_be_dropped(store: Store) -> None:
    with pytest.raises(MisuseError, match="still written to"):
        store.drop_oldest()


def test_after_writing_behind_a_sealed_generation_holds_no_memory_and_reads_the_same(store: Store) -> None:
    store.publish(*[f"plant/{n}/temp" for n in range(300)])
    writer = store.zone_log().live[0].by_shard[0].layout
    store.rotate()
    assert store.zone_log().live[0].by_shard[0].layout is writer
    replay = store.replay("plant/7/temp")
    store.index()
    assert store.zone_log().live[0].by_shard[0].layout is not writer
    for text in ("plant/7/temp", "plant/299/+", "#"):
        store.reader.pages.clear()
        assert places(store.read(text)) == places(store.expected(text))
    assert places(drain(replay)[0]) == places(store.expected("plant/7/temp"))
    store.reopen()
    store.index()
    assert places(store.read("plant/299/+")) == places(store.expected("plant/299/+"))
