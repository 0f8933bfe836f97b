"""A compaction that fails changes no row and leaves no file, and what fails holds up no more than it has to."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.compaction.plan import partition_of
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.delta_log import add_action
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import lock_folder
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.lake.test_upkeep import LATER, data_files
from tests.unit.pipeline.local_archive import archive, archived, here, rows


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_nothing_is_replaced_if_a_row_is_missing(log: Log, lake: Path) -> None:
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    files, before = data_files(lake), sorted(map(str, rows(lake)))

    def careless(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [file._replace(rows=file.rows - 1) for file in here(work, tasks)]

    with lock_folder(lake), pytest.raises(PermanentError, match=r"was not compacted: 4 files in .* have"):
        compact(Lake.open(lake), careless, today=LATER)
    assert data_files(lake) == files
    assert sorted(map(str, rows(lake))) == before


def test_large_files_that_only_workers_see_replace_nothing(log: Log, lake: Path) -> None:
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    there, before, version = data_files(lake), sorted(map(str, rows(lake))), Lake.open(lake).version

    def elsewhere(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        done = here(work, tasks)
        (lake / done[-1].path).unlink()
        return done

    with lock_folder(lake), pytest.raises(PermanentError, match="that driver and executors share"):
        compact(Lake.open(lake), elsewhere, today=LATER)
    assert Lake.open(lake).version == version
    assert data_files(lake) == there, "large files that are in no table"
    assert sorted(map(str, rows(lake))) == before


def two_days(log: Log, lake: Path) -> None:
    for _day in range(2):
        for _run in range(4):
            log.fill(50)
            archive(log.path, lake)
        log.node.clock.advance(86_400_000_000)


def test_a_compaction_that_fails_again_and_again_leaves_no_files(log: Log, lake: Path) -> None:
    """A task fails, such as for a full disk, and what the others have written is not known by its name."""
    two_days(log, lake)
    there, before = data_files(lake), archived(lake)
    written: list[set[str]] = []

    def failing(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        here(work, tasks)
        written.append(data_files(lake) - there)
        raise TransientError("Spark failed: no space left on device")

    with lock_folder(lake):
        opened = Lake.open(lake)
        for _try in range(3):
            with pytest.raises(TransientError, match="no space left"):
                compact(opened, failing, today=LATER)
            assert data_files(lake) == there
        assert all(len(files) > 1 for files in written)
        assert compact(opened, here, today=LATER) > 0
    assert archived(lake) == before


def test_transactions_that_fail_again_and_again_leave_no_files(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_days(log, lake)
    there = data_files(lake)

    def full(*_given: Any, **_named: Any) -> None:
        raise TransientError("the table cannot be written: no space left on device")

    monkeypatch.setattr(Lake, "append", full)
    with lock_folder(lake):
        opened = Lake.open(lake)
        for _try in range(3):
            with pytest.raises(TransientError, match="no space left"):
                compact(opened, here, today=LATER)
            assert data_files(lake) == there


def test_a_file_that_is_gone_holds_up_its_own_day_alone(log: Log, lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    two_days(log, lake)
    table = Lake.open(lake)
    [first, *_rest] = sorted(table.list_files(), key=lambda file: file["min.offset"])
    (lake / first["path"]).unlink()
    partitions = {partition_of(table, file) for file in table.list_files()}
    held = {f["path"] for f in table.list_files() if partition_of(table, f) == partition_of(table, first)}

    with lock_folder(lake):
        opened = Lake.open(lake)
        count = len(opened.list_files())
        done = [compact(opened, here, today=LATER) for _try in range(3)]
        left = {file["path"] for file in opened.list_files()}
        assert remove_orphans(opened) == 0

    assert done[0] > 0
    assert done[-1] == 0
    assert held <= left
    assert len(left) < count - sum(done) + len(partitions), "others were replaced"
    assert [record.getMessage() for record in caplog.records if first["path"] in record.getMessage()]


def test_files_without_rows_are_taken_out(log: Log, lake: Path) -> None:
    log.fill(50)
    archive(log.path, lake)
    opened = Lake.open(lake)
    schema = opened.file_schema
    place: dict[str, str | None] = {"day": "2020-01-01", "pattern": "#"}
    empty = []
    for number in range(4):
        path = lake / "day=2020-01-01" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(schema.empty_table(), path)
        name, stats = str(path.relative_to(lake)), '{"numRecords": 0}'
        empty.append(add_action(DataFile(name, place, path.stat().st_size, 1, 0, stats)))
    with lock_folder(lake):
        opened.append(empty, opened.partitions, {}, {})
        assert compact(opened, here, today=LATER) == 4
        assert remove_orphans(opened) == 0
    assert archived(lake) == sorted(log.walk())
