"""Readers for many: bounded, refreshed where that is needed, taken away from those who do not read."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.history.reader.reader import ScanRequest
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import Part
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from tests.unit.storage.rocks.log_node import Node


class World:
    def __init__(self, folder: Path) -> None:
        self.node = Node(folder, ManualClock(wall_us=1_700_000_000_000_000), shards=1)
        self.node.fill()
        self.now_s = 1000.0
        self.pool = ReaderPool(folder, 2, stall_s=300, idle_s=60, wait_s=0, clock=lambda: self.now_s)

    def part(self) -> Part:
        return self.pool.view().parts(0, 2**62, None)[-1]

    def count(self, part: Part) -> int:
        return sum(batch.num_rows for batch in self.pool.scan(ScanRequest(part, (), ("topic",))))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "data")
    yield world
    world.pool.close()
    world.node.log.close()


def test_there_are_no_more_readers_than_that(world: World) -> None:
    scans = [world.pool.scan(ScanRequest(world.part(), (), ("topic",), rows=10)) for _index in range(3)]
    assert [next(scan).num_rows for scan in scans[:2]] == [10, 10]
    with pytest.raises(TransientError, match="all 2 readers are busy"):
        next(scans[2])
    assert 10 + sum(batch.num_rows for batch in scans[0]) == 600
    again = world.pool.scan(ScanRequest(world.part(), (), ("topic",), rows=10))
    assert next(again).num_rows == 10
    again.close()  # type: ignore[attr-defined]
    scans[1].close()  # type: ignore[attr-defined]
    assert world.pool.busy() == 0


def test_a_reader_sees_what_it_is_asked_for(world: World) -> None:
    """L20"""
    assert world.count(world.part()) == 600
    world.node.fill(1)
    assert world.count(world.part()) == 620
    world.node.clock.advance(1_000_000)
    world.node.maintenance.rotate(world.node.zone)
    world.node.fill(2)
    assert world.count(world.part()) == 40


def test_whoever_does_not_go_on_loses_the_reader(world: World) -> None:
    slow = world.pool.scan(ScanRequest(world.part(), (), ("topic",), rows=10))
    quick = world.pool.scan(ScanRequest(world.part(), (), ("topic",), rows=10))
    next(slow)
    world.now_s += 200
    next(quick)
    world.now_s += 150
    world.pool.maintain()
    assert world.pool.busy() == 1
    assert world.count(world.part()) == 600
    with pytest.raises(TransientError, match="nothing was taken for a while"):
        next(slow)
    assert 10 + sum(batch.num_rows for batch in quick) == 600
    assert world.pool.busy() == 0


def test_readers_that_take_nothing_make_way_for_a_scan_that_waits(world: World) -> None:
    """Slow clients with all readers keep nobody out for longer than a scan waits."""
    pool = ReaderPool(world.node.folder, 2, wait_s=60, clock=lambda: world.now_s)
    try:
        slow = [pool.scan(ScanRequest(world.part(), (), ("topic",), rows=10)) for _index in range(2)]
        assert [next(scan).num_rows for scan in slow] == [10, 10]
        world.now_s += 31
        pool.maintain()
        assert pool.busy() == 2  # nobody waits
        with ThreadPoolExecutor() as others:
            request = ScanRequest(world.part(), (), ("topic",))
            waiting = others.submit(lambda: sum(batch.num_rows for batch in pool.scan(request)))
            while not pool._waiting:
                pass
            pool.maintain()
            assert waiting.result(60) == 600
        with pytest.raises(TransientError, match="others have the reader now; read again"):
            next(slow[0])
    finally:
        pool.close()


def test_what_nobody_needs_is_closed_and_opened_again(world: World) -> None:
    assert world.count(world.part()) == 600
    world.now_s += 61
    world.pool.maintain()
    assert world.pool._free == []
    assert world.pool._own is None
    assert world.count(world.part()) == 600


def test_a_scan_that_nobody_waits_for_ends(world: World) -> None:
    asked: list[bool] = []

    def gone() -> bool:
        asked.append(True)
        return len(asked) == 3

    assert list(world.pool.scan(ScanRequest(world.part(), (b"nowhere",), ("topic",)), gone)) == []
    assert len(asked) == 3
    assert world.pool.busy() == 0


def test_what_is_refused_costs_no_reader(world: World) -> None:
    part = world.part()
    for wrong in (part._replace(shard=9), part._replace(hi_us=2**61), part._replace(generation=5)) * 2:
        with pytest.raises(PermanentError):
            world.count(wrong)
    assert world.pool.busy() == 0
    assert world.count(part) == 600
