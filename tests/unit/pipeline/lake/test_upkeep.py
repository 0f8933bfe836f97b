"""A lake has one writer, no orphaned files, and few small ones."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from holdfast.model.errors import SettingsError
from holdfast.pipeline.lake import upkeep
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.store import LakeStore, ListedFile
from holdfast.pipeline.lake.upkeep import compact, remove_orphans, vacuum
from holdfast.pipeline.lake.writer import lock_folder
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, here, rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: When all days are over.
LATER = EPOCH + timedelta(days=30_000)
WEEK_S = 7 * 86_400


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_sweeping_spares_what_readers_may_be_at(log: Log, lake: Path) -> None:
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    reader = DeltaTable(str(lake)).to_pyarrow_dataset()
    with lock_folder(lake):
        opened = Lake.open(lake)
        assert compact(opened, here, today=LATER) > 0
        assert remove_orphans(opened) == 0

    assert reader.count_rows() == 200


def test_two_writers_are_one_too_many(log: Log, lake: Path) -> None:
    log.fill(10)
    with lock_folder(lake), pytest.raises(SettingsError, match="another archive is writing to"):
        archive(log.path, lake)


def test_compaction_keeps_every_row_and_how_far_it_is(log: Log, lake: Path) -> None:
    for _run in range(5):
        log.fill(40)
        archive(log.path, lake)
    before, offsets = sorted(map(str, rows(lake))), Lake.open(lake).offsets
    count = len(DeltaTable(str(lake)).file_uris())

    outcome = archive(log.path, lake, compacts=True)

    assert outcome.compacted > 0
    assert len(DeltaTable(str(lake)).file_uris()) < count
    assert sorted(map(str, rows(lake))) == before
    assert Lake.open(lake).offsets == offsets
    log.fill(40)
    archive(log.path, lake)
    assert archived(lake) == sorted(log.walk())


def data_files(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.glob("day=*/**/*.parquet")}


def test_who_deletes_goes_before_compaction(log: Log, lake: Path) -> None:
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    left: list[str] = []

    def beside(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Somebody deletes rows of every partition while workers write."""
        done = here(work, tasks)
        DeltaTable(str(lake)).delete("shard = 0")
        left.extend(sorted(map(str, rows(lake))))
        return done

    with lock_folder(lake):
        opened = Lake.open(lake)
        compact(opened, beside, today=LATER)
        assert sorted(map(str, rows(lake))) == left
        assert {row["shard"] for row in rows(lake)} == {1}
        assert remove_orphans(opened) == 0, "large files that are in no table"
        compact(opened, here, today=LATER)
        assert sorted(map(str, rows(lake))) == left


def test_what_another_program_is_about_to_commit_stays(log: Log, lake: Path) -> None:
    """One that compacts the lake, too: its files are in no table yet."""
    log.fill(10)
    archive(log.path, lake)
    theirs, ours = (lake / "day=2020-01-01" / name for name in ("part-00000.parquet", "hf-left.parquet"))
    theirs.parent.mkdir()
    theirs.touch()
    ours.touch()
    with lock_folder(lake):
        opened = Lake.open(lake)
        assert remove_orphans(opened) == 1
        assert (theirs.exists(), ours.exists()) == (True, False)
        assert vacuum(opened, datetime.now(UTC) + timedelta(days=8)) == 1
    assert archived(lake) == sorted(log.walk())


def test_what_was_replaced_stays_for_a_week_and_what_nothing_knows_as_long(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_LISTED", 3)
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    old = data_files(lake)
    for path in (lake / path for path in old):
        os.utime(path, (time.time() - 2 * WEEK_S,) * 2)
    with lock_folder(lake):
        opened = Lake.open(lake)
        assert compact(opened, here, today=LATER) > 0
        assert data_files(lake) >= old, "replaced today, however old they are"
        kept = data_files(lake)
        folder = lake / "day=2020-01-01"
        folder.mkdir()
        for name, days in {"left.parquet": 8, "replaced.parquet": 8, "young.parquet": 6, "letter.txt": 8}.items():
            (folder / name).touch()
            os.utime(folder / name, (time.time() - days * 86_400,) * 2)
        replaced_ms = int((time.time() - WEEK_S - 3_600) * 1_000)
        gone = RemoveAction(
            path="day=2020-01-01/replaced.parquet",
            data_change=False,
            deletion_timestamp=replaced_ms,
            size=0,
            partition_values={"day": "2020-01-01", "pattern": "#"},
        )
        opened.append([gone], opened.partitions, {}, {})

        assert vacuum(opened) == 2

    assert data_files(lake) == kept | {"day=2020-01-01/young.parquet"}
    assert (folder / "letter.txt").exists()
    assert archived(lake) == sorted(log.walk())


def age(lake: Path, days: int) -> None:
    """Have all data files lie there for so long."""
    for path in data_files(lake):
        os.utime(lake / path, (time.time() - days * 86_400,) * 2)


@pytest.mark.parametrize("sweep", [vacuum, remove_orphans])
def test_files_that_are_replaced_while_the_lake_is_listed_stay(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch, sweep: Callable[[Lake], int]
) -> None:
    log.fill(100)
    archive(log.path, lake)
    age(lake, 8)
    before, version = archived(lake), Lake.open(lake).version
    listing = LakeStore.iter_data_files

    def beside(store: LakeStore) -> Iterator[ListedFile]:
        """Another program deletes all rows between the listing and the look at the table."""
        DeltaTable(str(lake)).delete()
        return listing(store)

    with lock_folder(lake):
        opened = Lake.open(lake)
        monkeypatch.setattr(LakeStore, "iter_data_files", beside)
        assert sweep(opened) == 0

    assert archived(lake) == []
    DeltaTable(str(lake)).restore(version)
    assert archived(lake) == before


def take_out(lake: Lake, at: datetime) -> Path:
    """Have a file that was replaced at some time, by another machine's clock."""
    path = Path(lake.store.address) / "day=2020-01-01" / "replaced.parquet"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    age(Path(lake.store.address), 40)
    gone = RemoveAction(
        path="day=2020-01-01/replaced.parquet",
        data_change=False,
        deletion_timestamp=int(at.timestamp() * 1_000),
        size=0,
        partition_values={"day": "2020-01-01", "pattern": "#"},
    )
    lake.append([gone], lake.partitions, {}, {})
    return path


@pytest.mark.parametrize(("days", "stays"), [(8, True), (31, False)])
def test_what_was_replaced_stays_for_as_long_as_the_table_says(log: Log, lake: Path, days: int, stays: bool) -> None:
    log.fill(10)
    archive(log.path, lake)
    with lock_folder(lake):
        opened = Lake.open(lake)
        opened.table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
        opened.refresh()
        path = take_out(opened, datetime.now(UTC) - timedelta(days=days))
        assert remove_orphans(opened) == 0
        vacuum(opened)
    assert path.exists() == stays


def test_a_table_may_not_say_that_what_was_replaced_goes_within_a_week(log: Log, lake: Path) -> None:
    log.fill(10)
    archive(log.path, lake)
    with lock_folder(lake):
        opened = Lake.open(lake)
        opened.table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 day"})
        opened.refresh()
        path = take_out(opened, datetime.now(UTC) - timedelta(days=6))
        assert vacuum(opened) == 0
    assert path.exists()


@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(days=365)])
@pytest.mark.parametrize("sweep", [vacuum, remove_orphans])
def test_what_was_replaced_by_a_clock_that_is_ahead_stays(
    log: Log, lake: Path, sweep: Callable[[Lake], int], ahead: timedelta
) -> None:
    log.fill(10)
    archive(log.path, lake)
    with lock_folder(lake):
        opened = Lake.open(lake)
        path = take_out(opened, datetime.now(UTC) + ahead)
        assert sweep(opened) == 0
        assert path.exists()
        assert remove_orphans(opened, replaced=True) == 1
