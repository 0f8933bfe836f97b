"""Damaged files are kept, reports are on disk, false alarms leave nothing."""

import errno
import json
from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.quarantine import Damage, Quarantine


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "rocks"
    folder.mkdir()
    for name in ("000001.log", "000002.sst", "MANIFEST-000003", "CURRENT"):
        (folder / name).write_text(name)
    return folder


def test_wal_manifest_and_current_are_kept_once(database: Path, tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    assert not quarantine.folder.exists()
    quarantine.keep(database)
    (database / "000001.log").write_text("changed since")
    quarantine.keep(database)
    kept = {path.name: path.read_text() for path in quarantine.folder.iterdir()}
    assert kept == {name: name for name in ("000001.log", "MANIFEST-000003", "CURRENT")}


def test_without_room_a_second_name_keeps_the_file(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(source: Path, target: Path) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copy2", no_room)
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.keep(database)
    assert (quarantine.folder / "000001.log").samefile(database / "000001.log")


def test_a_false_alarm_leaves_nothing(database: Path, tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.keep(database)
    quarantine.discard()
    assert not quarantine.folder.exists()


def test_the_report_is_data(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.report([Damage("lost records", "000001.log", "checksum mismatch", (5, 9))])
    assert json.loads((quarantine.folder / "report.json").read_text()) == [
        {"kind": "lost records", "file": "000001.log", "detail": "checksum mismatch", "lost_range": [5, 9]}
    ]


def test_damage_reads_as_a_sentence() -> None:
    assert str(Damage("lost records", "000001.log", "checksum mismatch", (5, 9))) == (
        "lost records in 000001.log: checksum mismatch; batches 5 to 8 are lost"
    )


def test_two_starts_in_one_second_do_not_share_a_folder(database: Path, tmp_path: Path) -> None:
    first = Quarantine(tmp_path, "now")
    first.keep(database)
    assert Quarantine(tmp_path, "now").folder != first.folder


def test_tables_that_a_repair_gave_up_are_moved_here(database: Path, tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.keep(database)
    (database / "lost").mkdir()
    (database / "000002.sst").rename(database / "lost" / "000002.sst")
    (database / "000001.log").rename(database / "lost" / "000001.log")
    assert quarantine.take_lost(database) == ["000002.sst"]
    assert (quarantine.folder / "000002.sst").exists()
    assert not (database / "lost").exists()
