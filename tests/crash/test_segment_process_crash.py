"""The process that builds segments, a broker whose disk is full, and retention that drops what is being built."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.node.processes.segment_supervisor import SegmentSupervisor
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.failures import DiskFullError
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_mark
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.segment_writer import Stretch
from tests.behaviour.disk.test_segment_process import SHARD, SMALL, Disk, Finished
from tests.crash.disks import SmallDisk

pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small", 700 * MB)
    yield disk
    disk.close()


@pytest.mark.parametrize("step", ["store_pages", "finish"])
def test_a_segment_is_made_once_a_full_disk_has_room(
    small: SmallDisk, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """L20: the disk is full before the first page, or before the last batch. Nothing that was acknowledged is lost, and
    what is published meanwhile follows.
    """
    monkeypatch.setattr("holdfast.storage.rocks.engine.disk_space._READING_S", 0.0)
    monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("holdfast.node.processes.segment_supervisor._LONGEST_PAUSE_S", 0.0)
    disk = Disk(small.folder / "data")
    ballast: list[Path] = []

    async def run() -> None:
        disk.write(500)
        acknowledged = list(disk.written)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        met_full = asyncio.Event()
        write = getattr(supervisor._segments, step)

        def on_a_full_disk(*segment: object) -> None:
            if not ballast:
                ballast.append(small.fill(leave_bytes=20 * MB))
            met_full.set()
            write(*segment)

        monkeypatch.setattr(supervisor._segments, step, on_a_full_disk)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await met_full.wait()
        await asyncio.sleep(0)
        log = disk.storage.log
        assert disk.mark_us() == NOTHING_INDEXED
        assert disk.read() == acknowledged
        if step == "finish":
            assert isinstance(log.obstacle, DiskFullError)
            assert log.waits_for(SHARD), "the last batch waits in its order"
        ballast[0].unlink()
        log.retry()
        await finished.wait(1)
        assert log.idle()
        assert disk.mark_us() == acknowledged[-1].position_us
        disk.write(500)
        await finished.wait(1)
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    try:
        asyncio.run(run())
    finally:
        disk.storage.close()
    assert verify_folder(small.folder / "data").problems == []


@pytest.mark.parametrize("step", ["store_pages", "finish"])
def test_what_is_built_for_a_generation_that_retention_drops_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The answer is on its way when the generation goes; the next segment is made as if nothing had been."""
    disk = Disk(tmp_path / "data")
    log = disk.storage.log
    maintenance = Maintenance(log)

    async def run() -> None:
        disk.write(500)
        maintenance.rotate(log.zone_logs["default"])
        disk.write(400)  # not enough for a segment: the sealed generation is the one
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        can_store = supervisor._segments.can_store
        asked: list[int] = []
        dropped = asyncio.Event()

        def dropped_meanwhile(stretch: Stretch) -> bool:
            asked.append(stretch.generation.record.number)
            if len(asked) == (1 if step == "store_pages" else 2):
                maintenance.drop_oldest(log.zone_logs["default"])
                dropped.set()
            return can_store(stretch)

        monkeypatch.setattr(supervisor._segments, "can_store", dropped_meanwhile)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await dropped.wait()
        assert set(asked) == {1}
        disk.write(100)
        await finished.wait(1)
        assert disk.storage.segment_counts.made == 1
        assert read_mark(disk.storage.engine.family("log-00000-00000002")) == disk.written[-1].position_us
        assert [name for name in disk.storage.engine.families() if name.endswith("1")] == []
        assert disk.read() == disk.written[500:]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    try:
        asyncio.run(run())
    finally:
        disk.storage.close()
    assert verify_folder(tmp_path / "data").problems == []


def test_a_damaged_page_is_set_aside_and_segments_are_made_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L21: the process finds the damage, the broker the page."""
    monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
    disk = Disk(tmp_path / "data")
    log = disk.storage.log

    async def run() -> None:
        disk.write(1_000)
        changes = Changes()
        key, value = list(scan_items(disk.storage.engine.family(SHARD), MESSAGES, POSTINGS))[3]
        changes.into(SHARD).put(key, value[:-1])
        log.write_own(changes)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(3)
        (lost,) = log.zone_logs["default"].live[0].record.lost_pages(0)
        assert (lost.first_serial, lost.messages) == (301, 100)
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written[:300] + disk.written[400:]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    try:
        asyncio.run(run())
    finally:
        disk.storage.close()
    (problem,) = verify_folder(tmp_path / "data").problems
    assert "messages 301 to 400 of shard 0 are lost" in problem.what
