"""The engine on a disk that fills up: it says so, keeps what it has, and goes on when there is room."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import DiskFullError, StalledError
from tests.crash.batches import FAMILY, batch, open_with_family, stored
from tests.crash.disks import SmallDisk

pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small", 48 * MB)
    yield disk
    disk.close()


def write_until_full(engine: Engine) -> int:
    """The first number that did not fit."""
    number = engine.written
    for number in range(engine.written + 1, engine.written + 10_000):
        try:
            engine.write(number, batch(number, 4_000))
        except DiskFullError:
            return number
    pytest.fail("the disk did not fill up")


def test_a_write_into_the_reserve_is_refused_before_rocksdb_sees_it(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.rocks.engine.disk_space._READING_S", 0.0)
    engine = open_with_family(disk.folder / "data", reserve_bytes=8 * MB)
    ballast = disk.fill(leave_bytes=4 * MB)
    with pytest.raises(DiskFullError, match="in reserve"):
        engine.write(1, batch(1))
    ballast.unlink()
    engine.write(1, batch(1))
    engine.sync_now()
    assert stored(engine) == [1]
    engine.close()


def test_an_append_that_finds_no_room_writes_nothing_and_heals(disk: SmallDisk) -> None:
    """Another program took the reserve: RocksDB itself meets the full disk, and refuses until it is reopened."""
    engine = open_with_family(disk.folder / "data")
    engine.write(1, batch(1))
    engine.sync_now()
    ballast = disk.fill(leave_bytes=MB // 2)
    refused = write_until_full(engine)
    for _ in range(3):
        with pytest.raises(DiskFullError):
            engine.write(refused, batch(refused, 4_000))
    assert engine.poison is None
    assert engine.family(FAMILY).get((1).to_bytes(8, "big") + b"\0") is not None, "reading goes on"

    reopened: list[int] = []
    engine.on_reopened(lambda: reopened.append(engine.written))
    ballast.unlink()
    engine.write(refused, batch(refused, 4_000))
    engine.sync_now()
    assert reopened == [refused - 1]
    assert stored(engine) == list(range(1, refused + 1))
    assert engine.synced == refused
    engine.close()

    engine = Engine.open(disk.folder / "data")
    assert stored(engine) == list(range(1, refused + 1))
    assert engine.damage == []
    engine.close()


def test_receipts_owed_before_the_disk_was_full_come_after_it(disk: SmallDisk) -> None:
    """What was written and not yet synced is not given up, and is not acknowledged either until it is on disk."""
    engine = open_with_family(disk.folder / "data")
    got: list[int] = []
    engine.on_synced(got.append)
    ballast = disk.fill(leave_bytes=MB // 2)
    refused = write_until_full(engine)
    with pytest.raises(DiskFullError):
        engine.sync_now()
    assert got == []
    assert engine.poison is None
    ballast.unlink()
    engine.write(refused, batch(refused, 4_000))
    engine.sync_now()
    assert got[-1] == refused
    assert stored(engine) == list(range(1, refused + 1))
    engine.close()


def test_a_reader_in_the_middle_of_its_work_delays_healing_and_does_not_prevent_it(disk: SmallDisk) -> None:
    engine = open_with_family(disk.folder / "data")
    engine.write(1, batch(1))
    ballast = disk.fill(leave_bytes=MB // 2)
    refused = write_until_full(engine)
    reader = engine.family(FAMILY).iter()
    reader.seek_to_first()
    ballast.unlink()
    with pytest.raises(StalledError, match="iterators"):
        engine.write(refused, batch(refused))
    assert reader.valid()
    del reader
    engine.write(refused, batch(refused))
    engine.sync_now()
    assert stored(engine) == list(range(1, refused + 1))
    engine.close()


def test_a_flush_that_finds_no_room_heals(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, not the WAL, meet the full disk. RocksDB would come back by itself in some seconds; here it gets none."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.engine._OWN_RECOVERY_S", -1.0)
    engine = open_with_family(disk.folder / "data")
    for number in range(1, 1_001):
        engine.write(number, batch(number, 1_000))
    engine.sync_now()
    ballast = disk.fill(leave_bytes=MB)
    with pytest.raises(Exception, match="No space left"):
        engine.flush()
    write_until_full(engine)
    assert engine.poison is None
    ballast.unlink()
    engine.write(engine.written + 1, batch(engine.written + 1))
    engine.sync_now()
    assert stored(engine) == list(range(1, engine.written + 1))
    engine.close()


def test_opening_on_a_full_disk_says_how_much_room_it_needs(disk: SmallDisk) -> None:
    engine = open_with_family(disk.folder / "data")
    for number in range(1, 1_001):
        engine.write(number, batch(number, 1_000))
    engine.sync_now()
    copy = disk.folder / "copy"

    shutil.copytree(disk.folder / "data", copy)
    engine.close()
    ballast = disk.fill()
    with pytest.raises(DiskFullError, match="Free about"):
        Engine.open(copy)
    ballast.unlink()
    engine = Engine.open(copy)
    assert stored(engine) == list(range(1, 1_001))
    assert engine.damage == []
    engine.close()


def test_a_family_that_found_no_room_can_be_created_later_and_dropping_needs_none(disk: SmallDisk) -> None:
    engine = open_with_family(disk.folder / "data")
    engine.create_family("log-00001-00000000")
    ballast = disk.fill()
    with pytest.raises(DiskFullError):
        engine.create_family("log-00001-00000002")
    engine.drop_family("log-00001-00000000")
    ballast.unlink()
    engine.create_family("log-00001-00000002")
    assert engine.families() == [FAMILY, "log-00001-00000002", "meta", "retained", "sessions"]
    assert list(engine.family("log-00001-00000002").keys()) == []
    engine.write(1, batch(1))
    engine.sync_now()
    assert stored(engine) == [1]
    engine.close()
