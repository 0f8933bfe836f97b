"""What the driver of a migration checks; the job of its tasks is done by a test, or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline.migrate import job as migrate_job
from holdfast.pipeline.migrate.task import MigrateJob, MigrateSums, list_clients
from holdfast.pipeline.spark.progress import no_progress
from holdfast.storage.folder_lock import FolderLock
from tests.unit.pipeline.migrate.test_task import fill

Tasks = Callable[..., MigrateSums]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MigrateJob:
    fill(tmp_path / "old", "a", "b")
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(migrate_job, "session", lambda *_given, **_more: None)
    return MigrateJob(f"journal:{tmp_path / 'old'}", f"journal:{tmp_path / 'new'}", SystemClock())


def run(job: MigrateJob, tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> MigrateSums:
    monkeypatch.setattr(migrate_job, "_copy_all", tasks)
    return migrate_job.run_migrate(job, None, no_progress)


def test_clients_that_were_not_copied_are_an_error(job: MigrateJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many, and others: somebody has used the queues."""
    others = MigrateSums()
    others.found("a")
    others.found("c")

    with pytest.raises(PermanentError, match="a broker uses them; stop it"):
        run(job, lambda *_given: others, monkeypatch)

    listed = asyncio.run(list_clients(job))
    assert run(job, lambda *_given: listed, monkeypatch) is listed


def test_a_journal_is_locked_while_it_is_read(job: MigrateJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def tasks(*_given: object) -> MigrateSums:
        with pytest.raises(SettingsError) as error:
            FolderLock.acquire(tmp_path / "old")
        refused.append(str(error.value))
        return asyncio.run(list_clients(job))

    run(job, tasks, monkeypatch)

    assert "is in use by" in refused[0]
    lock = FolderLock.acquire(tmp_path / "old")
    with pytest.raises(SettingsError, match="is in use by"):
        run(job, tasks, monkeypatch)
    lock.release()


def test_nothing_to_copy_needs_no_tasks(job: MigrateJob, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = MigrateJob(job.source, job.target, job.clock, "nobody-*")

    assert run(nobody, lambda *_given: pytest.fail("tasks were started"), monkeypatch).queues == 0


def test_sessions_are_chosen_by_the_pattern_of_their_queues(
    job: MigrateJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(migrate_job, "change_queue_backends", lambda *given: asked.extend(given))

    migrate_job.change_sessions(tmp_path, MigrateJob(job.source, "redis://h", job.clock, "device-*"))

    assert (asked[0], *asked[2:]) == (tmp_path, "journal", "redis")
    queues = asked[1]
    assert isinstance(queues, migrate_job._ClientFilter)
    assert ("device-7" in queues, "other" in queues, 7 in queues) == (True, False, False)
