"""Density against brute force: every filter, layout, zone and shard, before and after the cache is filled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.history.past.counts_cache import FOLDER
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.storage.rocks.log.published_heads import read_heads
from tests.unit.history.past.density_world import EXACT, FILTERS, HASTY, SAMPLED, DensityWorld, Line
from tests.unit.storage.rocks.log.store import zone
from tests.unit.storage.rocks.log.test_damaged_pages import damage

LAYOUTS = ("paged", "learned", "bitmask", "timeline")


def check(world: DensityWorld, text: str, lines: list[Line]) -> Line:
    """The last line is exact and right, no line is further off than it says, and exact buckets stay as they are."""
    last = lines[-1]
    right = world.counts(text, last)
    assert (last["counts"], last["exact"], last["done"]) == (right, True, True), text
    assert last["total"] == sum(right)
    assert not any(line["done"] for line in lines[:-1])
    settled: dict[int, int] = {}
    for line in lines:
        for bucket, (count, error) in enumerate(zip(line["counts"], line["errors"], strict=True)):
            assert settled.get(bucket, count) == count
            if not error:
                settled[bucket] = count
        assert line["exact"] == (not any(line["errors"]))
    return last


class Filled:
    """A folder with three generations: in segments, in segments and commit pages, and open."""

    def __init__(self, folder: Path, layout: str) -> None:
        audit = zone("audit", "site/#", layout=layout)
        self.world = DensityWorld(folder, audit, default=Zone("default", shards=2, layout=layout))
        world = self.world
        world.fill(1)
        world.make_segments(10_000 if layout != "paged" else 60)
        world.rotate()
        world.fill(2)
        world.store.index()
        world.rotate()
        world.fill(3)
        world.make_segments(100)
        world.fill(4, commits=9)


@pytest.fixture(scope="module", params=LAYOUTS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    found = Filled(tmp_path_factory.mktemp("density") / "data", request.param)
    yield found
    found.world.close()


@pytest.mark.parametrize("text", FILTERS)
def test_the_last_line_is_what_was_published(filled: Filled, text: str) -> None:
    """Again and again: what was counted for the first answer is in the cache for the others."""
    world = filled.world
    for pace_s in (SAMPLED, EXACT, SAMPLED):
        check(world, text, world.ask(world.query(text, buckets=20), pace_s))


@pytest.mark.parametrize("buckets", [1, 7, 600])
@pytest.mark.parametrize("text", ["#", "plant/+/temp", "plant/3/temp"])
def test_any_range_is_counted_whatever_its_borders_are(filled: Filled, text: str, buckets: int) -> None:
    world = filled.world
    first_us, last_us = world.kept[0].position_us, world.kept[-1].position_us
    third_us = (last_us - first_us) // 3
    for from_us, to_us in (
        (first_us, last_us + 1),
        (first_us + third_us, last_us - third_us),
        (first_us - 10**9, first_us + 5),
        (last_us, last_us + 10**9),
        (world.kept[50].position_us, world.kept[50].position_us + 1),
    ):
        # A line of 600 buckets after each of 600 borders would be the same, and take a minute.
        pace_s = EXACT if buckets == 600 else HASTY
        check(world, text, world.ask(world.query(text, from_us=from_us, to_us=to_us, buckets=buckets), pace_s))


@pytest.mark.parametrize("text", ["#", "+/+/flow", "$events/#"])
@pytest.mark.parametrize("name", ["default", "audit"])
def test_a_zone_alone_is_counted(filled: Filled, text: str, name: str) -> None:
    world = filled.world
    line = world.ask(world.query(text, zone=name))[-1]
    assert line["counts"] == world.counts(text, line, tuple(world.store.zone_log(name).shards))
    assert sum(line["counts"]) or text == "$events/#"


def test_everything_begins_with_the_first_message(filled: Filled) -> None:
    world = filled.world
    line = world.ask(world.query("#"))[0]
    assert line["from_us"] == min(message.position_us for message in world.kept)


def test_generations_are_told(filled: Filled) -> None:
    world = filled.world
    line = world.ask(world.query("#"))[0]
    starts = {live.record.start_us for name in ("default", "audit") for live in world.store.zone_log(name).live}
    assert line["generations_us"] == sorted(start for start in starts if start > line["from_us"])


def test_a_zone_that_is_not_there_is_an_error(filled: Filled) -> None:
    with pytest.raises(PermanentError, match="there is no zone 'x'"):
        filled.world.ask(filled.world.query(zone="x"))


# ---- what costs no scan


class TestCost:
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[DensityWorld]:
        world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
        for seed in range(3):
            world.fill(seed, commits=60)
        world.make_segments(300)
        yield world
        world.close()

    def test_the_first_line_is_exact_if_there_is_time_for_it(self, world: DensityWorld) -> None:
        for text in FILTERS:
            (line,) = world.ask(world.query(text))
            assert (line["exact"], line["done"], line["looked_at"]) == (True, True, 0)

    def test_a_client_that_is_gone_stops_the_counting(self, world: DensityWorld) -> None:
        asked: list[int] = []

        def gone() -> bool:
            asked.append(1)
            return len(asked) > 5

        lines = world.ask(world.query("plant/+/temp"), HASTY, gone)
        assert not any(line["done"] for line in lines)
        assert (len(asked), world.pool.busy()) == (6, 0)

    def test_lines_are_at_least_250_ms_apart(self, world: DensityWorld) -> None:
        slow = world.ask(world.query("plant/+/temp"), 0.3)
        quick = world.ask(world.query("plant/+/temp"), 0.01)
        assert len(slow) > len(quick) > 1
        assert slow[0]["errors"] != slow[-1]["errors"]

    def test_newest_buckets_are_exact_first(self, world: DensityWorld) -> None:
        lines = world.ask(world.query("plant/+/temp", buckets=30), 0.3)
        halfway = next(line for line in lines if 0 < sum(map(bool, line["errors"])) < 25)
        first = next(bucket for bucket, error in enumerate(halfway["errors"]) if error)
        exact = [bucket for bucket, error in enumerate(halfway["errors"]) if not error and halfway["counts"][bucket]]
        assert first < min(exact)


# ---- edges


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_retention_took_is_told_and_not_counted(tmp_path: Path, layout: str) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", shards=2, layout=layout))
    try:
        first_us = world.store.clock.wall_us()
        for seed in range(3):
            world.fill(seed, commits=20)
            world.rotate()
        world.fill(9, commits=10)
        before = world.ask(world.query("#", from_us=first_us), HASTY)[-1]
        assert (before["lost_at_most"], before["lost_before_us"]) == (0, None)
        gone = world.drop_oldest()
        for text in ("#", "plant/+/temp", "status"):
            line = check(world, text, world.ask(world.query(text, from_us=first_us), SAMPLED))
            assert line["lost_at_most"] == gone
            assert first_us < line["lost_before_us"] <= min(message.position_us for message in world.kept)
    finally:
        world.close()


def test_a_generation_that_is_dropped_while_it_is_counted_is_counted_to_its_end(tmp_path: Path) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
    try:
        world.fill(1)
        world.make_segments(100)
        world.rotate()
        world.fill(2)
        right = len([message for message in world.kept if message.topic.startswith(b"plant")])
        dropped: list[int] = []

        def gone() -> bool:
            if not dropped:
                dropped.append(world.drop_oldest())
            return False

        line = world.ask(world.query("plant/#"), HASTY, gone)[-1]
        assert (line["total"], line["done"], bool(dropped[0])) == (right, True, True)
    finally:
        world.close()


@pytest.mark.parametrize("number", [0, 7, 19])
def test_what_is_lost_by_damage_is_told_and_not_counted(tmp_path: Path, number: int) -> None:
    """A commit page that cannot be read: its serials are in no part."""
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
    try:
        world.fill(1, commits=20)
        damage(world.store, number)
        first_us = min(message.position_us for message in world.kept)
        world.store.zone_log().live[0].by_shard[0].suspect()
        world.make_segments(1)
        world.fill(2, commits=5)
        (lost,) = world.store.zone_log().live[0].record.lost_pages(0)
        world.kept = [one for one in world.kept if not lost.first_us <= one.position_us <= lost.last_us]
        for text in ("#", "plant/+/temp"):
            for pace_s in (SAMPLED, EXACT):
                line = check(world, text, world.ask(world.query(text, from_us=first_us), pace_s))
                assert (line["lost_at_most"], line["lost_before_us"]) == (lost.messages, None)
    finally:
        world.close()


def test_erased_messages_are_counted_and_named(tmp_path: Path) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
    try:
        world.fill(1)
        heads = {shard: head.position_us for shard, head in read_heads(world.folder).items()}
        made_us = max(heads.values()) + 1
        erase(world.folder, client="c3", up_to=heads, now_us=made_us, made_by="me")
        erase(world.folder, topic="plant/7/#", up_to=heads, now_us=made_us + 1, made_by="me")
        erase(world.folder, topic="office/#", up_to=heads, now_us=made_us + 2, made_by="me")
        by_client = [message for message in world.kept if message.publisher == "c3"]
        by_topic = [message for message in world.kept if message.topic.startswith(b"plant/7/")]
        world.make_segments(120)
        world.fill(2)
        for text in ("#", "plant/+/temp"):
            lines = world.ask(world.query(text), HASTY)
            line = check(world, text, lines)
            assert line["erased_at_most"] == min(len(by_client) + len(by_topic), line["total"])
            assert lines[0]["erased_at_most"] >= line["erased_at_most"]
            of_topics = [made_us + 1, made_us + 2] if text == "#" else [made_us + 1]
            assert [one["erasures_us"] for one in lines] == [[made_us, *of_topics]] * len(lines)
        (line,) = world.ask(world.query("#", from_us=made_us + 2))
        assert (line["erased_at_most"], line["erasures_us"]) == (0, [made_us + 2])
    finally:
        world.close()


@pytest.mark.parametrize("layout", ["paged", "learned"])
def test_a_time_without_a_broker_is_a_gap(tmp_path: Path, layout: str) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout=layout))
    try:
        world.fill(1)
        before_us = world.store.clock.wall_us()
        world.restart()
        after_us = world.store.clock.wall_us()
        world.fill(2)
        for text in ("#", "plant/3/temp"):
            line = check(world, text, world.ask(world.query(text), HASTY))
            ((begin_us, end_us),) = line["gaps"]
            assert (begin_us, end_us) == (before_us, after_us)
        (line,) = world.ask(world.query("#", from_us=before_us + 5, to_us=after_us - 5))
        assert line["gaps"] == [[before_us + 5, after_us - 5]]
    finally:
        world.close()


def test_a_broker_that_was_killed_ran_until_its_last_message(tmp_path: Path) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
    try:
        world.fill(1)
        world.store.clock.advance(40_000_000)
        world.write(world.store.message("status"))
        last_us = world.kept[-1].position_us
        (line,) = world.ask(world.query("#", to_us=last_us + 10**9)._replace(now_us=last_us + 10**9))
        assert line["gaps"] == [[last_us + 1, last_us + 10**9]]
        (line,) = world.ask(world.query("#")._replace(now_us=last_us + 10_000_000))
        assert line["gaps"] == []
    finally:
        world.close()


# ---- the cache


def test_what_was_counted_in_sealed_generations_is_not_read_again(tmp_path: Path) -> None:
    world = DensityWorld(tmp_path / "data", default=Zone("default", layout="paged"))
    try:
        world.fill(1)
        world.make_segments(50)
        world.rotate()
        query = world.query("+/+/flow")
        first = world.ask(query, HASTY)
        assert len(list((world.folder / FOLDER).iterdir())) == 1
        again = world.ask(query, HASTY)
        other = world.ask(query._replace(buckets=13, from_us=world.kept[100].position_us), HASTY)
        check(world, "+/+/flow", again)
        check(world, "+/+/flow", other)
        assert len(again) < len(first)
        for path in (world.folder / FOLDER).iterdir():
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        check(world, "+/+/flow", world.ask(query, HASTY))
    finally:
        world.close()
