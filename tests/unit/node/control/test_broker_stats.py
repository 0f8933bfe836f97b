"""The broker's numbers against what its clients did."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.control.metrics import BROKER_METRICS, DURATION_BOUNDS
from holdfast.control.words import Stats
from holdfast.durable.commit import SegmentCounts
from holdfast.exchange.drops import MAX_KINDS
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import SLICE, ClientFeed, ClientScan
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.node_state import NodeState
from holdfast.node.reload import ReloadOutcome
from holdfast.node.settings.tree import Settings, Storage
from holdfast.wire.packets import Publish
from tests.slow_world import kept
from tests.world import World


class StatsWorld(World):
    def __init__(self) -> None:
        super().__init__()
        slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
        feed = ClientFeed(self.broker, ClientRowBuilder(self.broker, None), slices)
        self.scan = ClientScan(self.broker, feed, slices)
        self.state = NodeState(Settings(storage=Storage(durability="memory")), self.broker)
        self.stats = BrokerStats(self.broker, self.state, self.scan, slices, LoopLag(), None)

    def gather(self) -> Stats:
        return self.stats.gather()


@pytest.fixture
def world() -> Iterator[StatsWorld]:
    with StatsWorld() as made:
        yield made


def test_messages_and_bytes_are_counted(world: StatsWorld) -> None:
    peer = world.connect("a")
    peer.subscribe("t")
    peer.send(Publish("t", b"12345", 0), Publish("t", b"", 1, 1))
    numbers = world.gather().numbers
    assert numbers["messages_received_total"] == numbers["messages_sent_total"] == 2
    assert numbers["packets_received_total"] == 4
    assert numbers["connects_total"] == 1
    assert numbers["bytes_received_total"] > 5
    assert numbers["bytes_sent_total"] > 5
    assert world.gather().labelled["process_cpu_seconds_total"]["broker"] > 0


def test_sessions_and_subscriptions_are_counted_by_what_they_are(world: StatsWorld) -> None:
    world.connect("a").subscribe("t", "u")
    world.connect("b").subscribe("$share/g/t")
    kept(world, "offline").drop()
    labelled = world.gather().labelled
    assert labelled["sessions"] == {"connected": 2, "offline": 1}
    assert labelled["subscriptions"] == {"ordinary": 2, "shared": 1}


def test_a_connection_that_ends_before_its_connect_is_no_client(world: StatsWorld) -> None:
    world.peer().drop()
    world.connect("a").drop()
    world.connect("b")
    world.connect("b")  # takes over
    assert world.gather().labelled["sessions"] == {"connected": 1, "offline": 0}


def test_refusals_have_the_names_of_their_reasons(world: StatsWorld) -> None:
    peer = world.connect("a")
    peer.send_bytes(b"\x00\x00")
    assert world.gather().labelled["refusals_total"] == {"malformed_packet": 1}


def test_events_are_counted_by_reason_and_what_repeats_within_a_second_is_one(world: StatsWorld) -> None:
    drops, now_us = world.broker.exchange.drops, world.clock.wall_us()
    for _time in range(5):
        drops.lose("queue_full", "a", 3, now_us)
    drops.note("takeover", "b", b"", now_us)
    labelled = world.gather().labelled
    assert labelled["drops_total"]["queue_full"] == 15
    assert labelled["events_total"] == {"queue_full": 1, "takeover": 1}
    drops.lose("queue_full", "a", 3, now_us + 2_000_000)
    assert world.gather().labelled["events_total"]["queue_full"] == 2


def test_more_events_than_are_kept_of_a_second_count_as_one_more(world: StatsWorld) -> None:
    drops, now_us = world.broker.exchange.drops, world.clock.wall_us()
    for number in range(MAX_KINDS + 50):
        drops.lose("queue_full", f"c{number}", 1, now_us)
    assert world.gather().labelled["events_total"] == {"queue_full": MAX_KINDS + 1}


def test_processes_that_work_for_the_broker_are_told_by_name(world: StatsWorld) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        world.state.children = lambda: {"segments": child.pid}
        found = world.gather().labelled
        assert set(found["process_resident_memory_bytes"]) == {"broker", "segments"}
        assert set(found["process_cpu_seconds_total"]) == {"broker", "segments"}
    assert set(world.gather().labelled["process_cpu_seconds_total"]) == {"broker"}, "it has ended"


def test_what_needs_a_scan_of_many_clients_is_left_out_while_nobody_watches(world: StatsWorld) -> None:
    for number in range(SLICE):
        world.connect(f"c{number}")
    stats = world.gather()
    assert "clients_behind" not in stats.numbers
    assert "subscriptions" not in stats.labelled
    world.scan.begin()
    assert world.scan.step()
    assert not world.scan.step()
    assert world.gather().numbers["clients_behind"] == 0


def test_reloads_are_counted(world: StatsWorld) -> None:
    assert world.gather().numbers["reload_last_success_timestamp_seconds"] == 0
    world.state.reloads.note(ReloadOutcome(), 5_000_000)
    world.state.reloads.note(ReloadOutcome(errors={"access": "wrong"}), 6_000_000)
    numbers = world.gather().numbers
    assert numbers["reload_last_success_timestamp_seconds"] == 5
    assert numbers["reload_failures_total"] == 1


def test_every_number_is_in_the_table_and_what_is_known_to_be_empty_is_told_as_empty(world: StatsWorld) -> None:
    stats = world.gather()
    known = {metric.name for metric in BROKER_METRICS}
    assert {*stats.numbers, *stats.labelled, *stats.histograms} <= known
    assert stats.labelled["queue_backend_away"] == {}
    assert stats.labelled["segment_backlog_messages"] == {}
    assert "certificate_expiry_timestamp_seconds" not in stats.labelled, "there are no listeners yet"
    assert stats.numbers["commit_waiting"] == 0
    assert "sync_seconds" not in stats.histograms
    assert stats.state == "starting"


def test_messages_in_no_segment_are_left_out_until_they_are_counted(
    world: StatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = SegmentCounts()
    monkeypatch.setattr(world.broker, "segment_counts", counts)
    assert "segment_backlog_messages" not in world.gather().labelled
    counts.by_zone = {"default": 3}
    assert world.gather().labelled["segment_backlog_messages"] == {"default": 3.0}


def test_a_loop_that_stands_still_lags() -> None:
    async def stall() -> HistogramCounts:
        lag = LoopLag()
        due_s = asyncio.get_running_loop().time() - 0.3
        lag._measure(due_s)
        lag.stop()
        return lag.histogram

    histogram = asyncio.run(stall())
    assert sum(histogram.counts) == 1
    assert histogram.sum >= 0.3
