"""Backups: complete, incremental, verified, restored."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.files.block_file import FILE_NAME, Block, read_block_file, write_block_file
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.rocks.backup import MANIFEST_NAME, create_backup, read_backup, restore_backup, verify_backup
from holdfast.storage.rocks.engine.engine import Engine

LOG = "log-00001-00000001"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    engine.create_family(LOG)
    fill(engine, 100)
    yield engine
    engine.close()


def fill(engine: Engine, count: int) -> None:
    for number in range(engine.written + 1, engine.written + 1 + count):
        changes = Changes()
        changes.into(LOG).put(number.to_bytes(8, "big"), os.urandom(500))
        engine.write(number, changes)
    engine.sync_now()


def tables(folder: Path) -> set[Path]:
    return set((folder / "rocks").glob("*.sst"))


def test_a_restored_backup_has_what_the_node_had_then(engine: Engine, tmp_path: Path) -> None:
    backup = create_backup(engine, tmp_path / "b1")
    before = dict(engine.family(LOG).items())
    fill(engine, 50)
    assert backup.batch == 100
    assert verify_backup(tmp_path / "b1") == []
    assert restore_backup(tmp_path / "b1", tmp_path / "new") == read_backup(tmp_path / "b1")
    restored = Engine.open(tmp_path / "new", reserve_bytes=0)
    assert restored.damage == []
    assert restored.written == 100
    assert dict(restored.family(LOG).items()) == before
    fill(restored, 10)
    restored.close()
    assert verify_backup(tmp_path / "b1") == [], "the restored node shares no file with its backup"


def test_the_live_node_goes_on_without_touching_the_backup(engine: Engine, tmp_path: Path) -> None:
    create_backup(engine, tmp_path / "b1")
    fill(engine, 100)
    engine.flush()
    engine.family(LOG).compact_range(None, None)
    assert verify_backup(tmp_path / "b1") == []
    assert not (engine.folder / "checkpoint").exists()


def test_tables_of_the_previous_backup_are_linked_and_not_copied(engine: Engine, tmp_path: Path) -> None:
    create_backup(engine, tmp_path / "b1")
    fill(engine, 10)
    create_backup(engine, tmp_path / "b2", previous=tmp_path / "b1")
    shared = {path.name for path in tables(tmp_path / "b1")} & {path.name for path in tables(tmp_path / "b2")}
    assert shared
    for name in shared:
        assert (tmp_path / "b1" / "rocks" / name).samefile(tmp_path / "b2" / "rocks" / name)
    assert verify_backup(tmp_path / "b2") == []
    for path in (tmp_path / "b1" / "rocks").iterdir():
        path.unlink()
    restore_backup(tmp_path / "b2", tmp_path / "new")
    restored = Engine.open(tmp_path / "new", reserve_bytes=0)
    assert restored.written == 110
    restored.close()


def test_a_file_of_the_same_name_with_other_content_is_not_taken_over(engine: Engine, tmp_path: Path) -> None:
    """Numbers of files repeat after a restore."""
    create_backup(engine, tmp_path / "b1")
    path = max(tables(tmp_path / "b1"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    manifest = tmp_path / "b1" / MANIFEST_NAME
    manifest.write_text(manifest.read_text().replace(read_sha(tmp_path / "b1", path.name), "0" * 64))
    path.unlink()
    path.write_bytes(content[::-1])
    create_backup(engine, tmp_path / "b2", previous=tmp_path / "b1")
    assert (tmp_path / "b2" / "rocks" / path.name).read_bytes() == content


def read_sha(folder: Path, name: str) -> str:
    return next(file.sha256 for file in read_backup(folder).files if file.name == name)


def test_verify_names_each_file_that_changed(engine: Engine, tmp_path: Path) -> None:
    create_backup(engine, tmp_path / "b1")
    first, second, third, *_ = sorted(tables(tmp_path / "b1"))
    for path in (first, second):
        content = bytearray(path.read_bytes())
        path.unlink()
        content[len(content) // 2] ^= 1
        path.write_bytes(content if path == first else content[:-1])
    third.unlink()
    (tmp_path / "b1" / "rocks" / "stranger").touch()
    problems = verify_backup(tmp_path / "b1")
    assert [problem.split()[0] for problem in problems] == [first.name, second.name, third.name, "stranger"]
    with pytest.raises(PermanentError, match=f"{third.name} is missing"):
        restore_backup(tmp_path / "b1", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_with_content_is_refused_by_name(engine: Engine, tmp_path: Path) -> None:
    create_backup(engine, tmp_path / "b1")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "letter").touch()
    with pytest.raises(SettingsError, match=f"{tmp_path / 'used'} is not empty"):
        restore_backup(tmp_path / "b1", tmp_path / "used")
    with pytest.raises(SettingsError, match=f"{tmp_path / 'used'} is not empty"):
        create_backup(engine, tmp_path / "used")
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["letter"]


def test_half_a_backup_is_not_a_backup(engine: Engine, tmp_path: Path) -> None:
    create_backup(engine, tmp_path / "b1")
    (tmp_path / "b1" / MANIFEST_NAME).unlink()
    with pytest.raises(PermanentError, match="not a complete backup"):
        restore_backup(tmp_path / "b1", tmp_path / "new")


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2, "files": []}', '{"format": 1, "files": [{}]}'])
def test_an_unreadable_manifest_says_so(engine: Engine, tmp_path: Path, content: str) -> None:
    create_backup(engine, tmp_path / "b1")
    (tmp_path / "b1" / MANIFEST_NAME).write_text(content)
    with pytest.raises(PermanentError, match=MANIFEST_NAME):
        read_backup(tmp_path / "b1")


def test_blocks_go_with_a_backup_and_come_back(engine: Engine, tmp_path: Path) -> None:
    write_block_file(engine.folder / FILE_NAME, [Block("client", "a")])
    create_backup(engine, tmp_path / "b1")
    restore_backup(tmp_path / "b1", tmp_path / "new")
    assert read_block_file(tmp_path / "new" / FILE_NAME) == [Block("client", "a")]
