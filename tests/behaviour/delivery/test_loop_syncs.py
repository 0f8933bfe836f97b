"""Small commits that are synced on the event loop: acknowledged and delivered at once, and never before the sync."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.broker.sys_topics import SysTopics
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.model.histogram import HistogramCounts
from holdfast.model.protocol import PUBACK
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import ClientFeed, ClientScan
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.node_state import NodeState
from holdfast.node.settings.tree import Settings, Storage
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import kept, subscribe


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine's disk is; and the commit thread never holds the lock to settle the mark."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.loop_sync.SLOW_S", 1e9)
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 1e6)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DiskWorld]:
    with DiskWorld(tmp_path, storage={"sync_on_loop": "auto"}) as world:
        yield world


def test_a_small_commit_needs_no_commit_thread(world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = world.connect("r")
    reader.send(subscribe("a"))
    writer = world.connect("w")
    monkeypatch.setattr(world.disk.engine, "request_sync", lambda: pytest.fail("the commit thread was asked"))
    writer.send(Publish("a", b"1", 1, 7))
    assert [ack.packet_id for ack in writer.take_all(Ack)] == [7]
    assert payloads(reader) == [b"1"]
    assert world.disk.engine.synced == world.disk.engine.written


def test_the_acknowledgement_leaves_after_the_sync(world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """L20: nothing has left when the sync begins."""
    writer = world.connect("w")
    engine = world.disk.engine
    sent_before_sync: list[int] = []
    sync = Engine._sync_wal

    def watched(self: Engine, database: object) -> bool:
        sent_before_sync.append(len(writer.inbox))
        return sync(self, database)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "_sync_wal", watched)
    writer.send(Publish("a", b"1", 1, 7))
    assert sent_before_sync[0] == 0
    assert writer.take(Ack).kind == PUBACK
    assert engine.sync_counts.on_loop > 0


def test_a_sync_on_the_loop_that_fails_acknowledges_nothing(world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = world.connect("w")

    def fails(_self: Engine, _database: object) -> bool:
        raise OSError("the disk has gone")

    monkeypatch.setattr(Engine, "_sync_wal", fails)
    monkeypatch.setattr(Engine, "sync_now", lambda _self: None)
    writer.send(Publish("a", b"1", 1, 7))
    assert writer.take_all(Ack) == []
    assert str(world.disk.engine.poison) == "the disk has gone"


def test_sessions_find_everything_after_a_crash(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path, storage={"sync_on_loop": "auto"})
    reader = kept(world, "r")
    reader.send(subscribe("a", 2))
    reader.drop()
    for number in range(5):
        publish(world, ("a", b"%d" % number))
    assert world.disk.engine.sync_counts.on_loop > 0
    world.crash()
    with DiskWorld(tmp_path, storage={"sync_on_loop": "auto"}) as world:
        assert payloads(back(world, "r")) == [b"%d" % number for number in range(5)]


def test_sys_topics_count_syncs_of_both_kinds(world: DiskWorld) -> None:
    writer = world.connect("w")
    writer.send(Publish("a", b"1", 1, 7))
    writer.send(*(Publish("a", b"x", 1, 100 + number) for number in range(40)))
    values = SysTopics(world.broker, "test", 0).values()
    counts = world.disk.engine.sync_counts
    assert int(values["storage/syncs/loop"]) == counts.on_loop > 0
    assert int(values["storage/syncs/thread"]) == counts.on_thread > 0
    assert int(values["storage/syncs/longest_on_loop_us"]) == counts.longest_on_loop_us > 0


def test_metrics_count_syncs_of_both_kinds(world: DiskWorld) -> None:
    writer = world.connect("w")
    writer.send(Publish("a", b"1", 1, 7))
    writer.send(*(Publish("a", b"x", 1, 100 + number) for number in range(40)))
    slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
    feed = ClientFeed(world.broker, ClientRowBuilder(world.broker, None), slices)
    scan = ClientScan(world.broker, feed, slices)
    stats = BrokerStats(world.broker, NodeState(Settings(), world.broker), scan, slices, LoopLag(), None).gather()
    counts = world.disk.engine.sync_counts
    assert stats.labelled["syncs_total"] == {"loop": counts.on_loop, "thread": counts.on_thread}
    assert min(counts.on_loop, counts.on_thread) > 0
    assert sum(stats.histograms["sync_seconds"].counts) == counts.on_loop + counts.on_thread


def test_a_node_that_is_told_so_never_syncs_on_the_loop(tmp_path: Path) -> None:
    assert Storage(data=tmp_path).sync_on_loop == "auto", "small commits are, unless it is told otherwise"
    with DiskWorld(tmp_path, storage={"sync_on_loop": "never"}) as world:
        writer = world.connect("w")
        writer.send(Publish("a", b"1", 1, 7))
        world.settle()
        assert [ack.packet_id for ack in writer.take_all(Ack)] == [7]
        counts = world.disk.engine.sync_counts
        assert counts.on_loop == 0 < counts.on_thread
