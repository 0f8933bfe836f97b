"""Scans of retained messages hold up nobody: slices are counted in keys and loop iterations, never in time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.retained.retained_store import RetainedScan
from holdfast.model.protocol import V5
from holdfast.storage.rocks.engine import scan
from holdfast.storage.rocks.retained import retained_scan
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connect, Pingreq, Pingresp, Publish, Suback, Subscribe, Subscription
from tests.disk_world import DiskWorld
from tests.slow_world import KEPT, kept
from tests.unit.storage.rocks.layouts.counting import CountingFamily
from tests.world import Peer, World

TOPICS = 3000
#: What all scans together may visit in one loop iteration.
MOST = 500
DEEP = "/".join(["+"] * 30)


class Keys:
    """Counts the keys that are visited."""

    def __init__(self) -> None:
        self.cells: list[CountingFamily] = []

    def open(self, cells: Any, hi: bytes) -> Any:
        self.cells.append(CountingFamily(cells))
        return scan.open_cursor(self.cells[-1], hi)

    def take(self) -> int:
        """Visited since the last call."""
        visited = sum(cells.moves for cells in self.cells)
        self.cells.clear()
        return visited


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    counted = Keys()
    monkeypatch.setattr(retained_scan, "open_cursor", counted.open)
    return counted


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DiskWorld]:
    with DiskWorld(tmp_path) as world:
        retain(world)
        yield world


def retain(world: DiskWorld) -> None:
    writer = world.connect("writer")
    writer.send(*(Publish(f"t{n:04}/x/v", b"r", retain=True) for n in range(TOPICS)))
    writer.drop()


def begin(world: World, peer: Peer, *filters: str, qos: int = 1) -> None:
    """Subscribe with the next iteration of the loop."""
    lines = tuple(Subscription(parse_filter(text.encode()), qos) for text in filters)
    data = encode(Subscribe(1, lines), V5)
    world.begin(lambda: world.broker.received(peer.channel, data))


def iterate(world: DiskWorld, times: int = 1) -> None:
    """Some iterations; what the first three of them wrote is synced for the next one."""
    for number in range(times):
        world.iterate()
        if number < 3:
            world.disk.engine.sync_now()


def scan_of(world: World, client_id: str) -> RetainedScan | None:
    walk = world.broker.sessions.clients[client_id].next_retained()
    return None if walk is None else walk.scan


@pytest.mark.parametrize("filters", [["+/+/nosuch"], [DEEP], ["#"], [f"+/+/nosuch{n}" for n in range(200)]])
def test_no_loop_iteration_visits_more_keys_than_the_budget(world: DiskWorld, keys: Keys, filters: list[str]) -> None:
    """M10: also while the SUBSCRIBE is handled, and for a session that is stored."""
    peer = kept(world, "c", receive_maximum=1000)
    begin(world, peer, *filters)
    visited = []
    for number in range(45):
        world.iterate()
        visited.append(keys.take())
        if number < 3:
            world.disk.engine.sync_now()
    assert max(visited) <= MOST
    assert sum(visited) > (TOPICS if len(filters) == 1 else MOST)
    peer.take(Suback)


def test_others_are_answered_while_a_scan_goes_on(world: DiskWorld, keys: Keys) -> None:
    """One SUBSCRIBE holds up nobody: an answer takes as many iterations as without it."""
    bystander = world.connect("bystander")
    peer = world.connect("c")
    begin(world, peer, *(f"{DEEP}/{n}" for n in range(20)))
    while scan_of(world, "c") is None:
        iterate(world)
    for _ping in range(5):
        keys.take()
        world.begin(lambda: world.broker.received(bystander.channel, encode(Pingreq(), V5)))
        iterations = 0
        while not bystander.inbox:
            iterate(world)
            iterations += 1
        bystander.take(Pingresp)
        assert iterations <= 2
        assert keys.take() <= 2 * MOST
    assert scan_of(world, "c") is not None, "it is not done yet"


def test_scans_of_many_clients_take_turns(world: DiskWorld, keys: Keys) -> None:
    """A client has one slice in an iteration, and nobody has two before everybody who waits had one."""
    greedy = [world.connect(f"c{n}") for n in range(12)]
    for peer in greedy:
        begin(world, peer, *(f"{DEEP}/{n}" for n in range(50)), qos=0)
    iterate(world, 20)
    far = []
    for n in range(len(greedy)):
        found = scan_of(world, f"c{n}")
        assert found is not None
        far.append(int(found.at()[1:5]))
    assert min(far) > 0
    assert max(far) - min(far) <= 150, far
    modest = world.connect("modest")
    begin(world, modest, "t2999/x/v", qos=0)
    iterate(world, 12)
    modest.take(Suback)
    assert [message.topic for message in modest.take_all(Publish)] == ["t2999/x/v"]


def test_a_scan_that_a_restart_cut_short_goes_on_in_slices_where_it_was(tmp_path: Path, keys: Keys) -> None:
    """Q7, L7: what a SUBACK promised comes, and no slice of it is longer than any other."""
    with DiskWorld(tmp_path) as world:
        retain(world)
        writer = world.connect("writer")
        writer.send(Publish("z/x/last", b"r", 1, 1, retain=True))
        peer = kept(world, "c")
        begin(world, peer, "+/+/last")
        iterate(world, 8)
        peer.take(Suback)
        assert peer.inbox == []
        peer.drop()
    with DiskWorld(tmp_path, start_us=1_700_000_001_000_000) as world:
        peer = world.peer()
        again = encode(Connect(V5, "c", clean_start=False, properties=KEPT), V5)
        world.begin(lambda: world.broker.received(peer.channel, again))
        visited = []
        keys.take()
        for number in range(60):
            world.iterate()
            visited.append(keys.take())
            if number < 3:
                world.disk.engine.sync_now()
        assert max(visited) <= MOST
        assert [message.topic for message in peer.inbox if isinstance(message, Publish)] == ["z/x/last"]


def test_a_broker_with_nothing_on_disk_scans_in_slices_too() -> None:
    with World() as world:
        writer = world.connect("writer")
        writer.send(*(Publish(f"t{n:04}/x/v", b"r", retain=True) for n in range(TOPICS)))
        peer = world.connect("c")
        begin(world, peer, "+/+/nosuch", "t2999/+/v")
        while not peer.inbox:
            world.iterate()
        iterations = 0
        while scan_of(world, "c") is not None:
            world.iterate()
            iterations += 1
        assert iterations >= 3 * TOPICS // MOST
        world.settle()
        assert [type(packet) for packet in peer.inbox] == [Suback, Publish]
