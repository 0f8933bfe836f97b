"""What those who watch clients are sent: a snapshot in slices, then changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.control.frames import MAX_FRAME_BYTES, encode_body
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.control.words import CLIENT_CHANGES, CLIENTS, CLIENTS_AGAIN, ClientChanges, ClientRow, ClientRows
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.client_feed import MAX_CHANGES, SLICE, ClientFeed, ClientScan, ClientTotals
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.slice_times import SliceTimes
from holdfast.wire.packets import Ack, Disconnect, Publish
from tests.disk_world import DiskWorld, payloads, publish, replay
from tests.world import Peer, World


class Watching:
    """Keeps the list of clients as the console does."""

    def __init__(self) -> None:
        self.clients: dict[str, ClientRow] = {}
        self.topics: list[str] = []
        self.sizes: list[int] = []
        self.waiting = 0

    def push(self, topic: str, body: msgspec.Struct) -> None:
        self.topics.append(topic)
        assert len(encode_body(body)) < MAX_FRAME_BYTES
        if isinstance(body, ClientRows):
            self.sizes.append(len(body.rows))
            self.clients |= {row.session_id: row for row in body.rows}
        elif isinstance(body, ClientChanges):
            self.clients |= {row.session_id: row for row in body.rows}
            for session_id in body.gone:
                self.clients.pop(session_id, None)
        else:
            assert topic == CLIENTS_AGAIN
            self.clients.clear()

    def waiting_bytes(self) -> int:
        return self.waiting


class FeedWorld(World):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        slices = SliceTimes(HistogramCounts(()))
        self.feed = ClientFeed(self.broker, ClientRowBuilder(self.broker, None), slices)
        self.scan = ClientScan(self.broker, self.feed, slices)

    def watch(self) -> Watching:
        """Somebody who watches; slices are sent by `steps` alone."""
        watching = Watching()

        def begin() -> None:
            self.feed.watch(watching)
            assert self.feed._task is not None
            self.feed._task.cancel()

        self.do(begin)
        return watching

    def steps(self, watching: Watching) -> int:
        """Send all there is; the number of slices."""
        count = 1
        while self.feed.step(watching):
            count += 1
        return count

    def look(self) -> None:
        self.scan.begin()
        while self.scan.step():
            pass


@pytest.fixture
def world() -> Iterator[FeedWorld]:
    with FeedWorld() as made:
        yield made


def held(client: Peer) -> None:
    """Publish to a client that does not acknowledge until it is behind."""
    for number in range(3):
        client.send(Publish("t", b"", 1, packet_id=number + 1))


def test_a_snapshot_has_every_client_in_slices(world: FeedWorld) -> None:
    for number in range(SLICE + 3):
        world.connect(f"c{number}")
    watching = world.watch()
    world.steps(watching)
    assert watching.clients.keys() == {f"c{number}" for number in range(SLICE + 3)}
    assert watching.sizes == [SLICE, 3]
    assert watching.topics == [CLIENTS, CLIENTS]


def test_an_empty_broker_has_a_snapshot_as_well(world: FeedWorld) -> None:
    watching = world.watch()
    world.steps(watching)
    assert watching.topics == [CLIENTS]
    assert watching.clients == {}


def test_a_row_says_what_is_known_of_a_connection(world: FeedWorld) -> None:
    world.clock.advance(5_000_000)
    opened_us = world.clock.wall_us()
    peer = world.connect("a", keep_alive_s=60)
    peer.subscribe("t/#", "u")
    world.clock.advance(2_000_000)
    watching = world.watch()
    world.steps(watching)
    row = watching.clients["a"]
    assert (row.client_id, row.user, row.address, row.port) == ("a", "", "127.0.0.1", 1)
    assert (row.listener, row.transport, row.version) == ("test", "tcp", 5)
    assert (row.since_us, row.keep_alive_s, row.expiry_s) == (opened_us, 60, 0)
    assert (row.subscriptions, row.inflight, row.behind, row.owed) == (2, 0, False, 0)


def test_who_comes_and_goes_is_told_behind_the_snapshot(world: FeedWorld) -> None:
    for number in range(SLICE + 1):
        world.connect(f"c{number}")
    first = world.connect("first")
    watching = world.watch()
    assert world.feed.step(watching)
    first.send(Disconnect())
    world.connect("later")
    assert watching.topics == [CLIENTS]
    world.steps(watching)
    assert watching.topics == [CLIENTS, CLIENTS, CLIENT_CHANGES]
    assert "first" not in watching.clients
    assert "later" in watching.clients


def test_a_takeover_leaves_the_client_in_the_list(world: FeedWorld) -> None:
    world.connect("a", keep_alive_s=10)
    watching = world.watch()
    world.steps(watching)
    world.connect("a", keep_alive_s=20)
    world.steps(watching)
    assert watching.clients["a"].keep_alive_s == 20


def test_too_many_changes_begin_again(world: FeedWorld) -> None:
    world.connect("a")
    watching = world.watch()
    world.steps(watching)
    for number in range(MAX_CHANGES + 1):
        world.feed.changed(f"gone-{number}")
    world.steps(watching)
    assert watching.topics == [CLIENTS, CLIENTS_AGAIN, CLIENTS]
    assert watching.clients.keys() == {"a"}


def test_a_watcher_that_does_not_read_is_sent_nothing_more(world: FeedWorld) -> None:
    watching = world.watch()
    watching.waiting = 1 << 20
    assert world.feed.step(watching)
    assert watching.topics == []
    watching.waiting = 0
    world.steps(watching)
    assert watching.topics == [CLIENTS]


def test_names_of_any_length_fit_into_frames(world: FeedWorld) -> None:
    for number in range(20):
        world.connect(f"{number}" + "\U0001f600" * 16_000)
    watching = world.watch()
    assert world.steps(watching) > 1
    assert len(watching.clients) == 20


def test_the_scan_finds_who_has_subscribed_or_is_behind(world: FeedWorld) -> None:
    slow = world.connect("slow", properties=receive_maximum(1))
    watching = world.watch()
    world.steps(watching)
    world.look()
    assert not world.feed.step(watching), "nothing has changed"
    slow.subscribe("t", qos=1)
    world.look()
    world.steps(watching)
    assert watching.clients["slow"].subscriptions == 1
    publisher = world.connect("publisher")
    held(publisher)
    world.look()
    world.steps(watching)
    assert watching.clients["slow"].behind
    assert watching.clients["slow"].owed >= 2
    assert world.scan.totals == ClientTotals(behind=1, inflight=1, shared=0)
    for _message in range(3):
        slow.send(Ack(4, slow.take(Publish).packet_id))
    world.look()
    world.steps(watching)
    assert not watching.clients["slow"].behind
    assert world.scan.totals == ClientTotals()


def test_replays_count_until_they_have_reached_the_present(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as disk:
        slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
        scan = ClientScan(disk.broker, ClientFeed(disk.broker, ClientRowBuilder(disk.broker, None), slices), slices)

        def running() -> int:
            totals = scan.latest()
            assert totals is not None
            return totals.replays

        publish(disk, ("a", b"1"))
        disk.advance(10)
        publish(disk, ("a", b"2"))
        reader = disk.connect("c")
        assert running() == 0
        replay(reader, "a", qos=1, replay_from="earliest", replay_speed="2")
        assert payloads(reader) == [b"1"]
        assert running() == 1
        disk.advance(100)
        assert payloads(reader) == [b"2"]
        assert running() == 0


def test_each_of_several_watchers_learns_of_a_change(world: FeedWorld) -> None:
    peer = world.connect("a")
    one, other = world.watch(), world.watch()
    peer.subscribe("t")
    world.look()
    for watching in (one, other):
        world.steps(watching)
        assert watching.clients["a"].subscriptions == 1


def test_while_nobody_watches_the_broker_tells_nothing(world: FeedWorld) -> None:
    assert world.broker.connections.watch is None
    watching = world.watch()
    assert world.broker.connections.watch is world.feed
    world.feed.unwatch(watching)
    assert world.broker.connections.watch is None
    assert not world.feed.step(watching)


def receive_maximum(count: int) -> Any:
    from holdfast.wire.properties import Properties

    return Properties(receive_maximum=count)
