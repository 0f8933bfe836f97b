"""A damaged commit page under a broker: sessions are told what they lost, once, and get everything else (L21)."""

from pathlib import Path
from typing import Any

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.broker_backends import ThreeNodes
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


def test_a_session_gets_from_another_node_what_a_damaged_page_has_cost_one(tmp_path: Path) -> None:
    """L21: the node with the damage is never shorter in silence, and the others have it all."""
    open_cluster = ThreeNodes(tmp_path)
    world: Any = open_cluster.cluster()
    with world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        reader.drop()
        for number in range(5):
            publish(world, ("a", b"%d" % number))
        engine = world.nodes[0].storage.engine
        changes = Changes()
        key = [key for key, _value in scan_items(engine.family(SHARD), MESSAGES, POSTINGS)][2]
        changes.into(SHARD).put(key, b"\x01broken")
        engine.write(engine.written + 1, changes)
    world = open_cluster.cluster(start_us=1_700_000_060_000_000)
    with world:
        reader = back(world, "c")
        assert reader.closed, "it is told, and may come again"
        reader.drop()
        assert payloads(back(world, "c")) == [b"%d" % number for number in range(5)]
    assert [bool(verify_folder(folder).problems) for folder in open_cluster.folders()] == [True, False, False]
