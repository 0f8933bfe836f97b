"""Density of a node in a cluster: each shard has generations of its own, and some are gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.history.past.density import Density, DensityQuery
from holdfast.history.reader.reader import HistoryReader
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.topics.filters import parse_filter
from tests.unit.history.cluster_folder import NodeFolder, fill
from tests.unit.storage.rocks.vnodes.vnode_world import opened

BUCKETS = 30


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.mark.parametrize("layout", ["paged", "timeline", "bitmask"])
def test_the_messages_of_all_shards_are_counted(engine: Engine, layout: str) -> None:
    world = NodeFolder(engine, layout)
    if layout == "paged":
        fill(world)
    else:
        world.fill()
        world.rotate(0, 2)
        world.fill()
        world.publish()
    world.drop(0, 1)
    world.publish()
    try:
        with HistoryReader.open(engine.folder) as reader:
            first_us = {
                shard: min(part.lo_us for part in reader.shard_parts(shard, 0, 2**62)) for shard in reader.heads()
            }
            kept = [row for row in world.rows if row[1] >= first_us[row[0]]]
            to_us = max(head.position_us for head in reader.heads().values()) + 1
            assert 0 < len(kept) < len(world.rows)
            for text in ("#", "a/#", "+/3", "b/2", "audit/+", "none"):
                topic_filter = parse_filter(text.encode())
                query = DensityQuery(topic_filter.levels, 0, to_us, BUCKETS, to_us)
                line = [line for line in Density(reader, query, lambda: 0.0).lines() if line is not None][-1]
                from_us, step_us, found = line["from_us"], line["step_us"], line["counts"]
                assert isinstance(from_us, int)
                assert isinstance(step_us, int)
                assert isinstance(found, list)
                counts = [0] * len(found)
                for _shard, position_us, _serial, topic, _payload in kept:
                    counts[(position_us - from_us) // step_us] += topic_filter.matches(topic.encode())
                assert (found, line["exact"], line["done"], line["gaps"]) == (counts, True, True, [])
                assert line["lost_at_most"] == len(world.rows) - len(kept)
    finally:
        world.close()


def test_a_segment_of_small_ones_is_counted_as_they_were(engine: Engine) -> None:
    world = NodeFolder(engine)
    try:
        for _time in range(9):
            world.fill(3)
            world.node.stores.segments.writer(SegmentSize(messages=5)).write_all()
        world.publish()
        with HistoryReader.open(engine.folder) as reader:
            to_us = max(head.position_us for head in reader.heads().values()) + 1
            query = DensityQuery((b"a", b"#"), 0, to_us, BUCKETS, to_us)
            line = [line for line in Density(reader, query, lambda: 0.0).lines() if line is not None][-1]
            assert line["total"] == len([row for row in world.rows if row[3].startswith("a/")])
    finally:
        world.close()
