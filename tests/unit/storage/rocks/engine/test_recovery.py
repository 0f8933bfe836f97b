"""What an open says when the mark cannot help. The damage itself is in tests/crash."""

import os
import shutil
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import FolderHeldError, UnreadableError
from holdfast.storage.rocks.engine.quarantine import Quarantine
from holdfast.storage.rocks.engine.recovery import open_database
from holdfast.storage.rocks.engine.synced_mark import MARK_NAME
from holdfast.storage.rocks.engine.wal_scan import wal_files


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """Ten batches, the last one torn and not synced."""
    engine = Engine.open(tmp_path / "live", reserve_bytes=0)
    for number in range(1, 11):
        changes = Changes()
        changes.into("meta").put(b"%d" % number, bytes(500))
        engine.write(number, changes)
        if number == 9:
            engine.sync_now()
    shutil.copytree(tmp_path / "live", tmp_path / "torn")
    engine.close()
    [*_, path] = wal_files(tmp_path / "torn" / "rocks")
    os.truncate(path, path.stat().st_size - 10)
    return tmp_path / "torn"


def test_a_torn_tail_of_this_boot_is_judged_for_certain(torn: Path) -> None:
    engine = Engine.open(torn)
    assert engine.written == 9
    assert engine.damage == []
    assert engine.torn_tail is not None
    assert "restarted" not in engine.torn_tail
    engine.close()


def test_a_torn_tail_of_another_boot_says_what_it_cannot_know(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.rocks.engine.synced_mark.boot_id", lambda: b"another boot id.")
    engine = Engine.open(torn)
    assert engine.damage == []
    assert engine.torn_tail is not None
    assert "the last second before it cannot be judged" in engine.torn_tail
    engine.close()


def test_a_torn_tail_without_a_mark_is_reported(torn: Path) -> None:
    """L21: nobody can say whether receipts are lost, so somebody has to look."""
    (torn / MARK_NAME).unlink()
    engine = Engine.open(torn)
    assert engine.written == 9
    assert [damage.kind for damage in engine.damage] == ["unknown tail"]
    assert list((torn / "quarantine").glob("*/*.log"))
    engine.close()


def test_a_sound_folder_without_a_mark_is_no_damage(torn: Path) -> None:
    """As a restored backup is."""
    Engine.open(torn).close()
    (torn / MARK_NAME).unlink()
    engine = Engine.open(torn)
    assert (engine.damage, engine.torn_tail, engine.written) == ([], None, 9)
    engine.close()


def test_a_database_that_is_open_elsewhere_is_not_repaired(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "data")
    with pytest.raises(FolderHeldError, match="open already"):
        open_database(engine.path, Quarantine(tmp_path / "quarantine"), None, mark_is_exact=False)
    engine.close()


def test_what_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "rocks").write_text("a letter")
    with pytest.raises(UnreadableError, match="rocks"):
        Engine.open(tmp_path)
    assert (tmp_path / "rocks").read_text() == "a letter"
