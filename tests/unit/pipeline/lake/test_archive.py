"""The archive has every message once, and says how far it is, through rotations, retention, deaths and repetition."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake import archive as archive_module
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.records.messages import StoredMessage
from holdfast.storage.rocks.log.leases import read_leases
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, guarded, here, rows, served


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def files(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("day=*/**/*.parquet")}


def right(stored: StoredMessage, shard: int) -> tuple[Any, ...]:
    """The columns that everybody looks at, from the log itself."""
    message = stored.message
    return (shard, stored.serial, stored.position_us, message.topic.decode(), message.payload, message.qos)


def test_each_message_is_archived_once_with_what_it_says(log: Log, lake: Path) -> None:
    log.fill(2_000)
    log.rotate()
    log.fill(500)

    outcome = archive(log.path, lake, batch_rows=700)

    found = [(r["shard"], r["serial"], r["offset"], r["topic"], r["payload"], r["qos"]) for r in rows(lake)]
    assert sorted(found) == sorted(right(stored, shard) for (shard, _serial), stored in log.walk().items())
    assert (outcome.rows, outcome.batches, outcome.lost) == (2_500, 4, 0)


def test_a_run_goes_on_where_the_last_one_ended(log: Log, lake: Path) -> None:
    log.fill(300)
    archive(log.path, lake)
    assert archive(log.path, lake).batches == 0
    log.fill(300)
    log.rotate()
    log.fill(40)

    assert archive(log.path, lake).rows == 340
    assert archived(lake) == sorted(log.walk())


def test_a_batch_and_how_far_it_reaches_are_one_transaction(log: Log, lake: Path) -> None:
    """Every version of the table: its rows are exactly those up to its offsets."""
    log.fill(1_000)
    archive(log.path, lake, batch_rows=300)

    for version in range(1, DeltaTable(str(lake)).version() + 1):
        table = DeltaTable(str(lake), version=version)
        offsets = Lake(LakeStore.at(lake), table).offsets
        found = sorted((r["shard"], r["serial"]) for r in table.to_pyarrow_table().to_pylist())
        assert found == [(shard, serial) for shard in sorted(offsets) for serial in range(1, offsets[shard].serial + 1)]


@pytest.mark.parametrize("reach", [nullcontext, served], ids=["path", "endpoint"])
def test_days_and_learned_patterns_are_partitions(
    log: Log, lake: Path, reach: Callable[[str], AbstractContextManager[str]]
) -> None:
    for day in range(2):
        for number in range(40):
            log.publish(f"plant/{number}/temp", f"hall/{number}/a/b", "rare/thing" if number == 7 else "plant/1/temp")
        log.node.clock.advance(86_400_000_000)
        if day == 0:
            log.rotate()
    with reach(log.path) as where:
        archive(where, lake)

    found = rows(lake)
    assert all(row["day"] == row["ts"].date() for row in found)
    assert {row["day"] for row in found} == {date(2023, 11, 14), date(2023, 11, 15)}
    assert {"plant/+/temp", "hall/+/a/b", "#"} <= {row["pattern"] for row in found}
    assert {row["pattern"] for row in found if row["topic"] == "plant/33/temp"} == {"plant/+/temp"}
    assert {row["pattern"] for row in found if row["topic"] == "rare/thing"} == {"#"}


def test_an_endpoint_with_tls_and_tokens_is_archived_and_gets_the_lease(log: Log, lake: Path, tmp_path: Path) -> None:
    log.fill(300)
    with guarded(log.path, tmp_path) as where:
        outcome = archive(where["endpoint"], lake, tokenFile=where["tokenFile"], ca=where["ca"])

    assert (outcome.rows, archived(lake)) == (300, sorted(log.walk()))
    [lease] = read_leases(Path(log.path))
    assert lease.name == "archive-main"
    assert lease.positions == {shard: done.position_us for shard, done in Lake.open(lake).offsets.items()}


def test_statistics_exclude_no_row(log: Log, lake: Path) -> None:
    log.fill(500)
    archive(log.path, lake)

    for file in Lake.open(lake).list_files():
        held = pq.ParquetFile(lake / file["path"]).read().to_pylist()
        assert file["num_records"] == len(held)
        for name in ("ts", "shard", "offset", "serial"):
            values = [row[name] for row in held]
            assert file[f"min.{name}"] <= min(values), name
            assert file[f"max.{name}"] >= max(values), name


@pytest.mark.parametrize("left", [None, b"half"], ids=["none", "a part"])
def test_files_that_only_workers_see_are_not_committed(log: Log, lake: Path, left: bytes | None) -> None:
    """A folder of that name is on each machine: workers write to theirs, and the driver's has nothing of it."""
    log.fill(100)
    archive(log.path, lake)
    log.fill(100)
    version, there = Lake.open(lake).version, files(lake)
    [lease] = read_leases(Path(log.path))
    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main")

    def elsewhere(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        done = here(work, tasks)
        for path in files(lake) - there:
            (lake / path).unlink()
            if left is not None:
                (lake / path).write_bytes(left)
        return done

    with pytest.raises(PermanentError, match=r"lake/day=.*\.parquet .*that driver and executors share"):
        run_archive(job, lambda: elsewhere)

    assert Lake.open(lake).version == version
    assert [one.positions for one in read_leases(Path(log.path))] == [lease.positions]
    assert archive(log.path, lake).rows == 100
    assert archived(lake) == sorted(log.walk())


@pytest.mark.parametrize("times", [0, 2])
def test_a_batch_with_too_few_or_too_many_rows_is_not_committed(log: Log, lake: Path, times: int) -> None:
    """Whatever Spark does with its tasks."""
    log.fill(100)
    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main")

    with pytest.raises(PermanentError, match=r"gave \d+ messages, and by their serials"):
        run_archive(job, lambda: lambda work, tasks: here(work, tasks) * times)

    assert rows(lake) == []
    assert Lake.open(lake).offsets == {}


# ---- deaths


class Died(BaseException):
    """As a kill would: nothing behind it runs."""


def test_files_of_a_batch_that_died_are_not_in_the_table_and_go(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(600)

    def die(name: str) -> None:
        if name == "archive-written":
            raise Died

    monkeypatch.setattr(archive_module, "fault", die)
    with pytest.raises(Died):
        archive(log.path, lake)
    left = files(lake)
    assert left
    assert rows(lake) == []
    monkeypatch.undo()

    assert archive(log.path, lake).swept == len(left)
    assert archived(lake) == sorted(log.walk())
    assert not left & files(lake)


def test_a_death_behind_the_transaction_repeats_nothing(log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.fill(600)

    def die(name: str) -> None:
        if name == "archive-committed":
            raise Died

    monkeypatch.setattr(archive_module, "fault", die)
    with pytest.raises(Died):
        archive(log.path, lake, batch_rows=400)
    monkeypatch.undo()
    assert [lease.positions for lease in read_leases(Path(log.path))] == [{0: 0, 1: 0}], "retention still waits"

    outcome = archive(log.path, lake, batch_rows=400)

    assert (outcome.rows, outcome.swept) == (200, 0)
    assert archived(lake) == sorted(log.walk())


def test_a_task_that_fails_leaves_no_file(log: Log, lake: Path) -> None:
    log.fill(100)

    def twice(work: Any, tasks: Any) -> list[Any]:
        for task in tasks:
            work(task)
        raise TransientError("lost a worker")

    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main")
    with pytest.raises(TransientError):
        run_archive(job, lambda: twice)
    archive(log.path, lake)

    assert archived(lake) == sorted(log.walk())
    assert len(files(lake)) == len(DeltaTable(str(lake)).file_uris())


# ---- retention


def test_the_lease_follows_what_is_in_the_lake(log: Log, lake: Path) -> None:
    log.fill(100)
    archive(log.path, lake, "nightly")

    [lease] = read_leases(Path(log.path))
    assert lease.name == "archive-nightly"
    assert lease.positions == {shard: offset.position_us for shard, offset in Lake.open(lake).offsets.items()}


def test_what_was_dropped_when_it_was_archived_is_not_missed(log: Log, lake: Path) -> None:
    log.fill(200)
    log.rotate()
    everything = log.walk()
    archive(log.path, lake)
    log.drop_oldest()
    log.fill(100)
    archive(log.path, lake)

    assert archived(lake) == sorted(everything | log.walk())


def test_an_archive_begins_at_what_is_still_there(log: Log, lake: Path) -> None:
    log.fill(200)
    log.rotate()
    log.fill(100)
    log.drop_oldest()

    assert archive(log.path, lake).lost == 0
    assert archived(lake) == sorted(log.walk())


def test_what_was_dropped_before_it_was_archived_is_an_error_or_a_gap(log: Log, lake: Path) -> None:
    log.fill(100)
    archive(log.path, lake)
    log.fill(200)
    log.rotate()
    log.fill(50)
    everything = log.walk()
    log.drop_oldest()

    with pytest.raises(PermanentError, match="retention dropped up to"):
        archive(log.path, lake)
    before = archived(lake)
    outcome = archive(log.path, lake, failOnDataLoss="false")

    assert (outcome.rows, outcome.lost) == (50, 200)
    assert len(archived(lake)) == len(before) + 50
    assert set(archived(lake)) < set(everything)


def test_other_data_are_not_mixed_in(log: Log, lake: Path, tmp_path: Path) -> None:
    log.fill(100)
    archive(log.path, lake)
    (tmp_path / "other").mkdir()
    other = Log(tmp_path / "other")
    try:
        other.fill(20)
        with pytest.raises(PermanentError, match="these are not the data that were archived there"):
            archive(other.path, lake)
    finally:
        other.close()


# ---- the table
