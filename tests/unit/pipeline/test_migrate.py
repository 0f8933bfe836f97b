"""What the driver of a migration checks; the work of its tasks is done by a test, or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline import migrate
from holdfast.pipeline.migrate_task import Migration, Sums, list_clients
from holdfast.storage.rocks.folder_lock import FolderLock
from tests.unit.pipeline.test_migrate_task import fill

Tasks = Callable[..., Sums]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migration:
    fill(tmp_path / "old", "a", "b")
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(migrate, "session", lambda *_given, **_more: None)
    return Migration(f"journal:{tmp_path / 'old'}", f"journal:{tmp_path / 'new'}", SystemClock())


def run(work: Migration, tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> Sums:
    monkeypatch.setattr(migrate, "_copied", tasks)
    return migrate.run_migrate(work, None, lambda _words: None, lambda _share, _words: None)


def test_clients_that_were_not_copied_are_an_error(work: Migration, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many, and others: somebody has used the queues."""
    others = Sums()
    others.found("a")
    others.found("c")

    with pytest.raises(PermanentError, match="a broker uses them; stop it"):
        run(work, lambda *_given: others, monkeypatch)

    listed = asyncio.run(list_clients(work))
    assert run(work, lambda *_given: listed, monkeypatch) is listed


def test_a_journal_is_locked_while_it_is_read(work: Migration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def tasks(*_given: object) -> Sums:
        with pytest.raises(SettingsError) as error:
            FolderLock.acquire(tmp_path / "old")
        refused.append(str(error.value))
        return asyncio.run(list_clients(work))

    run(work, tasks, monkeypatch)

    assert "is in use by" in refused[0]
    lock = FolderLock.acquire(tmp_path / "old")
    with pytest.raises(SettingsError, match="is in use by"):
        run(work, tasks, monkeypatch)
    lock.release()


def test_nothing_to_copy_needs_no_tasks(work: Migration, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Migration(work.source, work.target, work.clock, "nobody-*")

    assert run(nobody, lambda *_given: pytest.fail("tasks were started"), monkeypatch).queues == 0


def test_sessions_are_chosen_by_the_pattern_of_their_queues(
    work: Migration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(migrate, "change_homes", lambda *given: asked.extend(given))

    migrate.change_sessions(tmp_path, Migration(work.source, "redis://h", work.clock, "device-*"))

    assert (asked[0], *asked[2:]) == (tmp_path, "journal", "redis")
    queues = asked[1]
    assert isinstance(queues, migrate._Wanted)
    assert ("device-7" in queues, "other" in queues, 7 in queues) == (True, False, False)
