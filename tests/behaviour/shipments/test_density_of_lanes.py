"""Density of what was loaded, and of generations that were written again: as if the broker had stored it."""

from pathlib import Path

import pytest

from holdfast.history.past.density import Density, DensityQuery
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.topics.filters import parse_filter
from tests.behaviour.shipments.test_relayout_editions import filled, relaid, tasks
from tests.disk_world import DiskWorld, publish
from tests.unit.pipeline.bulk_load.test_lane_plan import NOW_US, rows, take_all
from tests.unit.pipeline.local_load import shipped, stored

pytestmark = pytest.mark.slow


def check(folder: Path, text: str) -> int:
    """The exact answer is what is stored; how many there are."""
    topic_filter = parse_filter(text.encode())
    with HistoryReader.open(folder) as reader:
        heads_us = [head.position_us for head in reader.heads().values()]
        query = DensityQuery(topic_filter.levels, 0, max(heads_us) + 1, 40, NOW_US)
        line = [line for line in Density(reader, query, lambda: 0.0).lines() if line is not None][-1]
    counts = [0] * 40
    from_us, step_us = line["from_us"], line["step_us"]
    assert isinstance(from_us, int)
    assert isinstance(step_us, int)
    for position_us, _serial, topic, _payload in stored(folder):
        if topic_filter.matches(topic.encode()):
            counts[(position_us - from_us) // step_us] += 1
    assert (line["counts"], line["exact"], line["done"]) == (counts, True, True)
    return sum(counts)


@pytest.mark.parametrize("layout", ["paged", "learned", "timeline", "bitmask"])
def test_what_was_loaded_is_counted_at_its_own_times(tmp_path: Path, layout: str) -> None:
    with DiskWorld(tmp_path, start_us=NOW_US) as world:
        world.tick(61)
        publish(world, ("plant/1/temp", b""), ("plant/2/temp", b""))
        world.settle()
        shipped(rows(), tmp_path, "a", NOW_US, layout=layout)
        take_all(world)
        world.tick(61)
    assert check(tmp_path, "#") == 52
    assert 0 < check(tmp_path, "+/1/#") < 52
    assert not list((tmp_path / "marks").glob("[1-9]*"))


@pytest.mark.parametrize("layout", ["learned", "bitmask", "paged"])
def test_another_edition_is_counted_as_the_first_one(tmp_path: Path, layout: str) -> None:
    filled(tmp_path)
    texts = ("#", "plant/+/temp", "plant/3/temp")
    before = [check(tmp_path, text) for text in texts]
    with DiskWorld(tmp_path, start_us=NOW_US + 40_000_000) as world:
        (task,) = [one for one in tasks(RelayoutJob(tmp_path, layout)) if one.old.number == 1]
        relaid(tmp_path, task)
        take_all(world)
        assert [check(tmp_path, text) for text in texts] == before
