"""Retention and erasure in a lake, without Spark: tasks run here, one after the other."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake import retention as retain_module
from holdfast.pipeline.lake.erasures import erasures_of
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.retention import RetainJob, RetainOutcome, first_day, run_retain
from holdfast.pipeline.lake.serial_ranges import merge_ranges, ranges_of, span_ranges
from holdfast.pipeline.lake.upkeep import compact
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import spark_schema
from holdfast.pipeline.source.stream_reader import StreamReader
from tests.unit.pipeline.filled_log import Log, keys
from tests.unit.pipeline.filled_log import rows as read_rows
from tests.unit.pipeline.local_archive import archive, archived, here, rows

SECRET = "secret-meter"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    made.fill(200)
    made.publish(*[f"home/{number}/temp" for number in range(20)], client_id=SECRET)
    made.fill(200)
    yield made
    made.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def retain(log: Log, lake: Path, **wanted: Any) -> RetainOutcome:
    return run_retain(RetainJob(lake, Path(log.path), by="me@here", **wanted), lambda: here)


def stored(lake: Path) -> list[dict[str, Any]]:
    """What is in the files, whichever they are."""
    return [row for path in lake.glob("**/*.parquet") if "day=" in str(path) for row in pq.read_table(path).to_pylist()]


def by_serial(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["shard"], row["serial"]))


def test_an_erased_client_is_in_no_file_and_in_no_version(log: Log, lake: Path) -> None:
    archive(log.path, lake, batch_rows=100)
    for number in range(4):  # several small files, which compaction replaces
        log.publish("home/1/temp", f"home/{number}/temp", client_id=SECRET)
        archive(log.path, lake)
    with lock_folder(lake):
        assert compact(Lake.open(lake), here, today=datetime(2100, 1, 1, tzinfo=UTC)) > 0
    before = rows(lake)
    assert sum(row["client_id"] == SECRET for row in before) == 28
    assert SECRET in {row["client_id"] for row in stored(lake)}

    outcome = retain(log, lake, client=SECRET)

    assert outcome.erased_rows == 28
    assert by_serial(rows(lake)) == by_serial([row for row in before if row["client_id"] != SECRET])
    assert {row["client_id"] for row in stored(lake)} == {row["client_id"] for row in before} - {SECRET}
    files = {str(path) for path in lake.glob("day=*/**/*.parquet")}
    assert files == {str(path) for path in map(Path, DeltaTable(str(lake)).file_uris())}, "no old file remains"
    with pytest.raises(Exception, match=r"[Nn]ot found|No such file"):
        DeltaTable(str(lake), version=1).to_pyarrow_table()
    delta_log = b"".join(path.read_bytes() for path in (lake / "_delta_log").glob("*.json"))
    assert SECRET.encode() not in delta_log


def test_what_was_erased_does_not_come_back(log: Log, lake: Path) -> None:
    """Neither by reading the log, nor by archiving what was not archived yet, nor into another lake."""
    archive(log.path, lake)
    log.publish("home/1/temp", "home/2/temp", client_id=SECRET)
    retain(log, lake, client=SECRET)
    with HistoryReader.open(Path(log.path)) as reader:
        shown = [batch.column("client_id").to_pylist() for part in reader.parts() for batch in reader.batches(part)]
    assert SECRET not in {client for clients in shown for client in clients}
    log.publish("home/3/temp", client_id=SECRET)
    log.fill(50)

    outcome = archive(log.path, lake)
    archive(log.path, lake.with_name("another"))

    assert (outcome.rows, outcome.lost) == (51, 0)
    for one in (lake, lake.with_name("another")):
        assert [row["topic"] for row in rows(one) if row["client_id"] == SECRET] == ["home/3/temp"]


def test_a_stream_goes_on_over_what_was_erased_and_misses_nothing(log: Log, lake: Path) -> None:
    """What is left out on purpose is no short read."""
    archive(log.path, lake)
    everything = log.walk()
    retain(log, lake, client=SECRET)
    reader = StreamReader(spark_schema(COLUMNS), parse_read_options({"path": log.path, "rowsPerPartition": "50"}))
    start = reader.initialOffset()
    planned = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    found = keys(read_rows(reader, planned))
    reader.stop()

    assert found == sorted(key for key, stored in everything.items() if stored.message.publisher != SECRET)


def test_an_erasure_is_recorded_with_the_serials_that_went(log: Log, lake: Path) -> None:
    archive(log.path, lake)
    gone = sorted((row["shard"], row["serial"]) for row in rows(lake) if row["client_id"] == SECRET)
    log.publish("home/1/temp", client_id=SECRET)
    retain(log, lake, topic="home/+/temp")
    archive(log.path, lake)

    found = erasures_of(lake).to_pylist()

    [erased, unarchived] = sorted(found, key=lambda row: row["kind"])
    assert (erased["what"], erased["by"], erased["rows"]) == ("topics home/+/temp", "me@here", 20)
    serials = [serial for one in erased["serials"] for serial in range(one["first"], one["last"] + 1)]
    assert [(erased["shard"], serial) for serial in serials] == gone
    assert (unarchived["kind"], unarchived["rows"], unarchived["by"]) == ("unarchived", 1, "archive main")
    missing = {
        (row["shard"], serial)
        for row in found
        for one in row["serials"]
        for serial in range(one["first"], one["last"] + 1)
    }
    heads = {shard: offset.serial for shard, offset in Lake.open(lake).offsets.items()}
    everything = {(shard, serial) for shard, last in heads.items() for serial in range(1, last + 1)}
    assert set(archived(lake)) == everything - missing


@pytest.mark.parametrize("fault", ["retain-hidden", "retain-written", "retain-committed"])
def test_a_death_at_any_moment_is_made_good_by_running_it_again(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    archive(log.path, lake, batch_rows=100)
    right = archived(lake)
    keep = sorted((row["shard"], row["serial"]) for row in rows(lake) if row["client_id"] != SECRET)

    class Died(BaseException):
        """As a kill would."""

    def die(name: str) -> None:
        if name == fault:
            raise Died

    monkeypatch.setattr(retain_module, "fault", die)
    with pytest.raises(Died):
        retain(log, lake, client=SECRET)
    monkeypatch.undo()
    assert archived(lake) == (keep if fault == "retain-committed" else right)

    retain(log, lake, client=SECRET)

    assert archived(lake) == keep
    assert SECRET not in {row["client_id"] for row in stored(lake)}
    assert len(list(lake.glob("day=*/**/*.parquet"))) == len(DeltaTable(str(lake)).file_uris())


def test_a_dry_run_changes_nothing_and_says_what_would_go(log: Log, lake: Path) -> None:
    archive(log.path, lake)
    before = (Lake.open(lake).version, archived(lake), sorted(lake.glob("**/*")), sorted(Path(log.path).glob("*")))

    outcome = retain(log, lake, client=SECRET, keep_from=date(2100, 1, 1), compacts=True, dry_run=True)

    assert (outcome.erased_rows, outcome.expired_rows, outcome.expired_days) == (20, 420, ["2023-11-14"])
    assert (
        Lake.open(lake).version,
        archived(lake),
        sorted(lake.glob("**/*")),
        sorted(Path(log.path).glob("*")),
    ) == before


def test_old_days_go_as_a_whole(log: Log, lake: Path) -> None:
    log.node.clock.advance(3 * 86_400_000_000)
    log.fill(100)
    archive(log.path, lake)
    new = sorted((row["shard"], row["serial"]) for row in rows(lake) if row["day"] > date(2023, 11, 14))
    assert len(new) == 100

    outcome = retain(log, lake, keep_from=date(2023, 11, 17))

    assert (outcome.expired_rows, outcome.expired_days) == (420, ["2023-11-14"])
    assert archived(lake) == new
    recorded = erasures_of(lake).to_pylist()
    assert {row["kind"] for row in recorded} == {"expired"}
    assert sum(row["rows"] for row in recorded) == 420
    assert archive(log.path, lake).rows == 0, "and are not archived again"


def test_an_archive_that_runs_is_not_disturbed(log: Log, lake: Path) -> None:
    archive(log.path, lake)
    with lock_folder(lake), pytest.raises(SettingsError, match="another archive is writing"):
        retain(log, lake, client=SECRET)


def test_a_damaged_file_stops_it_before_anything_is_committed(log: Log, lake: Path) -> None:
    archive(log.path, lake)
    path, *_others = map(Path, DeltaTable(str(lake)).file_uris())
    path.write_bytes(b"PAR1 no more")
    version = Lake.open(lake).version
    with pytest.raises(PermanentError, match="cannot be read"):
        retain(log, lake, client=SECRET)
    assert Lake.open(lake).version == version


def test_rewritten_files_that_only_workers_see_replace_nothing(log: Log, lake: Path) -> None:
    """The files that were there before would be removed next."""
    log.publish("home/1/temp", "home/2/temp")
    archive(log.path, lake)
    before, version = rows(lake), Lake.open(lake).version

    def elsewhere(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        there = set(lake.rglob("day=*/**/*.parquet"))
        done = here(work, tasks)
        for path in set(lake.rglob("day=*/**/*.parquet")) - there:
            path.unlink()
        return done

    job = RetainJob(lake, Path(log.path), client=SECRET, by="test")
    with pytest.raises(PermanentError, match="that driver and executors share"):
        run_retain(job, lambda: elsewhere)

    assert Lake.open(lake).version == version
    assert rows(lake) == before
    assert retain(log, lake, client=SECRET).erased_rows > 0
    assert SECRET not in {row["client_id"] for row in rows(lake)}


def test_serials_become_ranges() -> None:
    assert ranges_of(3, [5, 1, 2, 3, 9, 10, 5]) == (3, 6, ((1, 3), (5, 5), (9, 10)))
    assert ranges_of(3, []) == (3, 0, ())
    found = [ranges_of(1, [1, 2, 9]), ranges_of(0, [7]), ranges_of(1, [3, 4])]
    assert merge_ranges(found) == [(0, 1, ((7, 7),)), (1, 5, ((1, 4), (9, 9)))]
    assert span_ranges(found) == [(0, 1, ((7, 7),)), (1, 5, ((1, 9),))]


def test_ninety_days_are_ninety_days_and_today() -> None:
    now = datetime(2026, 7, 10, 13, tzinfo=UTC)
    assert first_day(9, now) == (now - timedelta(days=9)).date() == date(2026, 7, 1)


def test_topics_and_publishers_are_not_in_the_log_of_delta(log: Log, lake: Path) -> None:
    """It cannot be rewritten."""
    archive(log.path, lake, batch_rows=60)
    with lock_folder(lake):
        compact(Lake.open(lake), here, today=datetime(2100, 1, 1, tzinfo=UTC))
    for path in (lake / "_delta_log").glob("*.json"):
        for line in path.read_text().splitlines():
            stats = json.loads(json.loads(line).get("add", {}).get("stats") or "{}")
            assert set(stats.get("minValues", {})) <= {"ts", "shard", "offset", "serial"}
