"""Lakes in a store of objects, over HTTP: exactly once, whatever fails; one writer; no credential in any text.

The archive runs its tasks in the process of the test, but where Spark itself is what is tested.
HOLDFAST_STORE_SEEDS=50 and HOLDFAST_STORE_KILLS=50 dig deeper. A failure names its seed.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import write_deltalake

from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.lake.upkeep import compact, remove_orphans, vacuum
from holdfast.pipeline.source.offsets import Offset
from holdfast.pipeline.source.read_options import parse_read_options
from tests.spark.s3_server import BUCKET, KEY, S3, SECRET, Faults, s3_server
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, here

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("HOLDFAST_STORE_SEEDS", "2"))
KILLS = int(os.environ.get("HOLDFAST_STORE_KILLS", "3"))
DEADLINE_S = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 30 * SEEDS + 20 * KILLS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    # A writer that was killed is not waited for as long as one that may live.
    monkeypatch.setattr(writer, "SILENCE_S", 1.0)
    monkeypatch.setattr(writer, "BEAT_S", 0.2)
    server.faults = Faults()
    yield server
    server.faults = Faults()


@pytest.fixture
def lake(s3: S3, tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}/lake"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    made.fill(200)
    yield made
    made.close()


def objects(lake: str) -> list[str]:
    """Parquet files in the store, whether the table has them or not."""
    return sorted(path for path in LakeStore.at(lake).list_paths() if path.startswith("day="))


def test_each_message_is_in_the_lake_once(log: Log, lake: str) -> None:
    archive(log.path, lake, batch_rows=60)
    log.fill(100)
    outcome = archive(log.path, lake)

    assert outcome.rows == 100
    assert archived(lake) == sorted(log.walk())
    assert len(objects(lake)) == len(Lake.open(lake).table.file_uris())


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_requests_that_fail_lose_and_repeat_nothing(log: Log, s3: S3, lake: str, seed: int) -> None:
    s3.faults = Faults(seed, refused=0.05, unanswered=0.05, delayed=0.1)
    archive(log.path, lake, batch_rows=70)
    log.fill(60)
    archive(log.path, lake, batch_rows=40)
    assert s3.faults.count > 100, f"seed {seed}"
    s3.faults = Faults()

    assert archived(lake) == sorted(log.walk()), f"seed {seed}"


def test_a_commit_whose_answer_is_lost_has_happened_once(log: Log, s3: S3, lake: str) -> None:
    archive(log.path, lake)
    opened = Lake.open(lake)
    version = opened.version
    end = {shard: Offset(offset.position_us + 1, offset.serial) for shard, offset in opened.offsets.items()}
    s3.faults = Faults(lost_commits=1)
    opened.commit(end, [], {})

    assert s3.faults.lost_commits == 0
    assert opened.offsets == end
    assert Lake.open(lake).version == version + 1


def archive_process(log: Log, lake: str, fault: str = "") -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "tests.spark.archive_process", log.path, lake, "50", "1.0"]
    environment = {**os.environ, "HOLDFAST_FAULT": fault}
    return subprocess.Popen(
        program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("fault", ["archive-begun", "archive-written", "archive-committed"])
def test_a_kill_between_upload_and_commit_is_as_good_as_none(log: Log, lake: str, fault: str) -> None:
    process = archive_process(log, lake, fault)
    _out, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -9, complaints
    left = objects(lake)
    done = sum(offset.serial for offset in Lake.open(lake).offsets.values())
    assert done == (50 if fault == "archive-committed" else 0)
    assert bool(left) is (fault != "archive-begun")
    log.fill(30)

    outcome = archive(log.path, lake)

    assert outcome.rows == 230 - done
    assert outcome.swept == (len(left) if fault == "archive-written" else 0)
    assert archived(lake) == sorted(log.walk())
    assert len(objects(lake)) == len(Lake.open(lake).table.file_uris()), "files are left"


def test_random_kills_lose_and_repeat_nothing(log: Log, s3: S3, lake: str) -> None:
    s3.faults = Faults(7, refused=0.03, unanswered=0.03, delayed=0.2)
    for kill in range(KILLS):
        process = archive_process(log, lake)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(0.3 * (kill + 1))
        except subprocess.TimeoutExpired:
            process.kill()
        _out, complaints = process.communicate()
        assert process.returncode in (0, -9), complaints
        log.fill(40)
    s3.faults = Faults()
    archive(log.path, lake)

    assert archived(lake) == sorted(log.walk())


def test_files_of_a_run_that_failed_are_removed_by_the_next_one(log: Log, lake: str) -> None:
    archive(log.path, lake)
    whole = objects(lake)
    log.fill(50)

    def lost(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        here(work, tasks)
        raise TransientError("lost a worker")

    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main")
    with pytest.raises(TransientError):
        run_archive(job, lambda: lost)
    left = len(objects(lake)) - len(whole)
    assert left > 0
    assert Lake.open(lake).claim % 2 == 0, "nobody has to wait"

    assert archive(log.path, lake).swept == left
    assert archived(lake) == sorted(log.walk())
    assert len(objects(lake)) == len(Lake.open(lake).table.file_uris())
    assert archive(log.path, lake).swept == 0
    assert [path for path in LakeStore.at(lake).list_paths() if path.endswith("/unfinished")] == []


def test_a_run_that_fails_in_a_store_that_takes_nothing_keeps_its_claim(log: Log, s3: S3, lake: str) -> None:
    archive(log.path, lake)
    store = LakeStore.at(lake)
    quick = store.options._replace(values=store.options.values | {"max_retries": "0", "retry_timeout": "1s"})
    broken = LakeStore(store.address, store.kind, store.place, quick)

    def fail() -> None:
        with writer.open_writer(broken, lambda: Lake.open(broken)):
            store.put("day=2026-01-01/hf-left.parquet", b"of a run that fails")
            s3.faults = Faults(refused=1.0)
            raise TransientError("lost a worker")

    with pytest.raises(TransientError, match="lost a worker"):
        fail()
    s3.faults = Faults()

    assert archive(log.path, lake).swept == 1


# ---- writers


def archive_slowly(log: Log, lake: str, first: threading.Event, goes_on: threading.Event) -> list[Any]:
    """Stops behind its first batch until it may go on; its error, if there was one."""
    failed: list[Any] = []
    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main", batch_rows=50, compacts=False)

    def progress(*_batch: object) -> None:
        first.set()
        goes_on.wait(DEADLINE_S)

    def run() -> None:
        try:
            run_archive(job, lambda: here, progress)
        except HoldfastError as error:
            failed.append(error)
        first.set()

    thread = threading.Thread(target=run)
    thread.start()
    return [thread, failed]


def test_a_second_writer_is_refused_while_the_first_one_lives(log: Log, lake: str) -> None:
    first, goes_on = threading.Event(), threading.Event()
    [thread, failed] = archive_slowly(log, lake, first, goes_on)
    assert first.wait(DEADLINE_S)

    with pytest.raises(SettingsError, match="another archive is writing to s3://"):
        archive(log.path, lake)
    goes_on.set()
    thread.join()

    assert failed == []
    assert archived(lake) == sorted(log.walk())


def test_a_writer_that_was_replaced_commits_nothing(log: Log, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, goes_on = threading.Event(), threading.Event()
    # It stands still, as a machine does that is out of memory, or cut off.
    monkeypatch.setattr(writer, "BEAT_S", 1_000.0)
    [thread, failed] = archive_slowly(log, lake, first, goes_on)
    assert first.wait(DEADLINE_S)
    archive(log.path, lake)
    whole = archived(lake)
    goes_on.set()
    thread.join()

    assert [str(error) for error in failed if isinstance(error, PermanentError)]
    assert archived(lake) == whole == sorted(log.walk())


def test_a_writer_that_was_replaced_changes_and_removes_nothing_also_when_it_knows_the_newest_version(
    log: Log, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(log.path, lake)
    store = LakeStore.at(lake)
    monkeypatch.setattr(writer, "BEAT_S", 1_000.0)
    with (
        writer.open_writer(store, lambda: Lake.open(store)) as (first, _left),
        writer.open_writer(store, lambda: Lake.open(store)) as (second, was_left),
    ):
        assert was_left
        with pytest.raises(PermanentError, match="another process wrote to the lake"):
            first.replace([], [], {})
        first.refresh()
        for use in (lambda: first.replace([], [], {}), first.fenced, lambda: remove_orphans(first)):
            with pytest.raises(PermanentError, match=r"has taken s3://.* over; this one stops"):
                use()
        second.replace([], [], {})

    assert archive(log.path, lake).swept == 0, "the second one has released it"


def test_of_transactions_of_one_number_one_happens(log: Log, s3: S3, lake: str) -> None:
    archive(log.path, lake)
    s3.faults = Faults(3, delayed=0.5)
    writers = [Lake.open(lake) for _writer in range(6)]
    offsets = writers[0].offsets
    outcomes: list[Any] = []
    begun = threading.Barrier(len(writers))

    def commit(number: int) -> None:
        begun.wait()
        end = {shard: Offset(offset.position_us + number, offset.serial) for shard, offset in offsets.items()}
        try:
            outcomes.append(writers[number - 1].commit(end, [], {}))
        except PermanentError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(1, len(writers) + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1, outcomes
    assert all("another process wrote to the lake" in str(text) for text in outcomes if not isinstance(text, int))


def test_a_store_without_conditional_puts_is_refused_and_nothing_is_written(log: Log, s3: S3, lake: str) -> None:
    s3.faults = Faults(unconditional=True)

    with pytest.raises(SettingsError, match=r"cannot be committed safely: .* set AWS_S3_LOCKING_PROVIDER=dynamodb"):
        archive(log.path, lake)
    assert LakeStore.at(lake).list_paths() == []


# ---- what is refused


def test_a_bucket_that_is_not_there_is_named(log: Log, s3: S3) -> None:
    for use in (lambda lake: archive(log.path, lake), Lake.open):
        with pytest.raises(SettingsError, match="no nowhere in the store; make it first"):
            use("s3://nowhere/lake")


def test_wrong_credentials_are_said_and_not_shown(log: Log, s3: S3, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(log.path, lake)
    s3.faults = Faults(key="AKIAANOTHER")
    for use in (lambda: archive(log.path, lake), lambda: Lake.open(lake)):
        with pytest.raises(SettingsError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as error:
            use()
        assert KEY not in str(error.value)
        assert SECRET not in str(error.value)


def test_a_lake_of_another_broker_is_refused(log: Log, lake: str, tmp_path: Path) -> None:
    archive(log.path, lake)
    before = LakeStore.at(lake).list_paths("day=")
    other = Log(tmp_path / "other")
    other.node.clock.advance(77)
    other.fill(500)
    try:
        with pytest.raises(PermanentError, match="belongs to another broker"):
            archive(other.path, lake)
    finally:
        other.close()
    assert LakeStore.at(lake).list_paths("day=") == before
    assert archived(lake) == sorted(log.walk())


def test_a_table_with_other_columns_is_refused(log: Log, lake: str) -> None:
    store = LakeStore.at(lake)
    table = pa.table({"ts": pa.array([], pa.string())})
    write_deltalake(store.address, table, name="main", storage_options=store.delta_options)
    version = store.table().version()

    with pytest.raises(PermanentError, match="has a column ts of type"):
        archive(log.path, lake)
    assert store.table().version() == version


def test_a_table_that_somebody_else_changed_is_refused_until_that_is_undone(log: Log, lake: str) -> None:
    archive(log.path, lake)
    store = LakeStore.at(lake)
    own = store.table().version()
    store.table().delete("shard = 0")
    log.fill(20)

    with pytest.raises(PermanentError, match=f"was changed by something else: .* DELETE .*; restore version {own}"):
        archive(log.path, lake)
    store.table().restore(own)
    archive(log.path, lake)

    assert archived(lake) == sorted(log.walk())


def test_a_place_with_something_else_in_it_is_no_lake(log: Log, lake: str) -> None:
    LakeStore.at(lake).put("letter.txt", b"dear")
    with pytest.raises(SettingsError, match=r"is no lake, and it is not empty \(letter.txt\)"):
        archive(log.path, lake)


# ---- upkeep


def test_compacted_files_are_read_and_old_ones_go(log: Log, lake: str) -> None:
    for run in range(6):
        log.publish(*[f"plant/{number}/temp" for number in range(40)])
        if run == 0:
            log.rotate()
        archive(log.path, lake)
        if run == 2:
            # As earlier versions of Holdfast did: names that have to be quoted.
            LakeStore.at(lake).table().optimize.compact()
            assert any("pattern=plant%2F" in path for path in _table_paths(lake))
    with writer.open_writer(LakeStore.at(lake), lambda: Lake.open(lake)) as (opened, was_left):
        assert not was_left
        before = len(opened.table.file_uris())
        replaced = set(objects(lake))
        assert compact(opened, here, today=datetime.now(UTC) + timedelta(days=30_000)) > 0
        opened.store.put("day=2026-01-01/left.parquet", b"of a killed run")
        assert vacuum(opened) == 0
        assert vacuum(opened, datetime.now(UTC) + timedelta(days=8)) == 1, "replaced today, whatever time it is"
        assert replaced < set(objects(lake))
        assert "day=2026-01-01/left.parquet" not in objects(lake)
    store, paths = LakeStore.at(lake), _table_paths(lake)

    assert archived(lake) == sorted(log.walk())
    assert len(paths) < before
    assert not any("pattern=plant%2F" in path for path in paths)
    assert sum(store.parquet(path).metadata.num_rows for path in paths) == 440
    log.fill(10)
    archive(log.path, lake)
    assert archived(lake) == sorted(log.walk())


def test_compaction_that_is_killed_or_gets_no_answer_loses_and_repeats_nothing(log: Log, s3: S3, lake: str) -> None:
    for _run in range(4):
        archive(log.path, lake)
        log.fill(30)
    before = objects(lake)
    program = [sys.executable, "-m", "tests.spark.compaction_process", lake, "1.0"]
    environment = {**os.environ, "HOLDFAST_FAULT": "compaction-written"}
    died = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=DEADLINE_S)
    assert died.returncode == -9, died.stderr
    written = set(objects(lake)) - set(before)
    assert written
    s3.faults = Faults(lost_commits=2)  # the claim is one

    outcome = run_retain(RetainJob(lake, compacts=True), lambda: here)

    assert s3.faults.lost_commits == 0
    assert outcome.swept == len(written)
    assert outcome.compacted > 0
    archive(log.path, lake)
    assert archived(lake) == sorted(log.walk())
    assert set(_table_paths(lake)) <= set(objects(lake))
    assert set(before) <= set(objects(lake)), "readers may be at what was replaced"


def test_a_compaction_that_fails_leaves_no_object_and_lets_no_earlier_transaction_in(log: Log, lake: str) -> None:
    """One without an answer could still come, with files that are gone: not when another one has its number."""
    for _run in range(4):
        archive(log.path, lake)
        log.fill(30)
    before = objects(lake)

    def failing(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        here(work, tasks)
        assert set(objects(lake)) > set(before)
        raise TransientError("Spark failed: an executor was lost")

    with writer.open_writer(LakeStore.at(lake), lambda: Lake.open(lake)) as (opened, _was_left):
        for _try in range(2):
            version = opened.version
            with pytest.raises(TransientError, match="an executor was lost"):
                compact(opened, failing, today=datetime.now(UTC) + timedelta(days=30_000))
            assert objects(lake) == before
            assert Lake.open(lake).version == version + 1
    assert archive(log.path, lake).rows == 30
    assert archived(lake) == sorted(log.walk())


def _table_paths(lake: str) -> list[str]:
    from holdfast.pipeline.lake.lake_reader import files_for

    return files_for(Lake.open(lake), (), 0, 2**62)


def test_an_erased_client_is_in_no_object(log: Log, lake: str) -> None:
    log.publish(*[f"home/{number}/temp" for number in range(20)], client_id="secret-meter")
    archive(log.path, lake, batch_rows=60)
    job = RetainJob(lake, Path(log.path), client="secret-meter", by="me")
    assert run_retain(job, lambda: here).erased_rows == 20

    store = LakeStore.at(lake)
    found = [name for path in objects(lake) for name in store.parquet(path).read()["client_id"].to_pylist()]
    assert len(found) == 200
    assert "secret-meter" not in found
    log.fill(10)
    assert archive(log.path, lake).rows == 10


# ---- credentials


def test_no_credential_is_in_a_text_a_log_or_a_pickled_name(
    log: Log, s3: S3, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    archive(log.path, lake)
    texts = [repr(LakeStore.at(lake)), str(Lake.open(lake).store)]
    s3.faults = Faults(refused=1.0)
    store = LakeStore.at(lake)
    quick = store.options._replace(values=store.options.values | {"max_retries": "0", "retry_timeout": "1s"})
    broken = pickle.loads(pickle.dumps(LakeStore(store.address, store.kind, store.place, quick)))
    for use in (lambda: Lake.open(broken), lambda: archive(log.path, broken)):
        with pytest.raises(HoldfastError) as error:
            use()
        texts += [str(error.value), repr(error.value), repr(error.value.__cause__)]
    texts += [record.getMessage() for record in caplog.records]

    assert not [text for text in texts if SECRET in text or KEY in text]
