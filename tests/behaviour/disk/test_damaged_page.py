"""A damaged commit page under a broker: sessions are told what they lost, once, and get everything else (L21)."""

from pathlib import Path

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import kept

SHARD = "log-00000-00000001"
PAGED = {"layout": "paged"}


def test_a_session_is_told_once_what_a_damaged_page_cost_it(tmp_path: Path) -> None:
    """Before the page is set aside nothing behind it comes; after that the rest comes, and the loss is counted."""
    with DiskWorld(tmp_path, storage=PAGED) as world:
        reader = kept(world, "c")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        for number in range(5):
            publish(world, ("a/b", b"%d" % number), ("a/c", b"%d" % number))
        changes = Changes()
        key = [key for key, _value in scan_items(world.disk.engine.family(SHARD), MESSAGES, POSTINGS)][2]
        changes.into(SHARD).put(key, b"\x01broken")
        world.disk.log.write_own(changes)
        world.settle()
    with DiskWorld(tmp_path, storage=PAGED) as world:
        other = world.connect("other")
        other.subscribe("x", qos=1)
        reader = back(world, "c")
        assert reader.closed, "it is told, and may come again"
        assert world.broker.exchange.counters.drops.get("damaged") is None
        publish(world, ("x", b"1"))
        assert payloads(other) == [b"1"], "nobody else is concerned"
        assert SegmentWriter(world.disk.log, SegmentSize()).write_all() == 2
        reader = back(world, "c")
        world.settle()
        assert payloads(reader) == [b"%d" % number for number in (0, 1, 3, 4) for _topic in "bc"]
        assert world.broker.exchange.counters.drops["damaged"] == 2
        world.tick(2)
    with DiskWorld(tmp_path, storage=PAGED) as world:
        reader = back(world, "c")
        publish(world, ("a/b", b"5"))
        world.settle()
        assert payloads(reader) == [b"5"]
        assert world.broker.exchange.counters.drops.get("damaged") is None, "it was told once"
