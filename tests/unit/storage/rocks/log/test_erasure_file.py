"""Erasures in a file: kept, merged, and never overlooked."""

from pathlib import Path

import pytest

from holdfast.durable.erasures import Erasure
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.backup import create_backup, restore_backup
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.erasure_file import FILE_NAME, ErasureFile, erase, read_erasures


def make(folder: Path, positions: dict[int, int], **what: str) -> Erasure:
    return erase(folder, up_to=positions, now_us=77, made_by="me@here", **what)


def test_erasures_are_read_as_they_were_made(tmp_path: Path) -> None:
    make(tmp_path, {0: 5, 3: 9}, client="mätér")
    make(tmp_path, {0: 6}, topic="plant/+/#")
    first, second = read_erasures(tmp_path)
    assert (first.client, first.levels, first.up_to, first.made_us, first.made_by) == (
        "mätér",
        (),
        {0: 5, 3: 9},
        77,
        "me@here",
    )
    assert (second.client, second.levels, second.what) == ("", (b"plant", b"+", b"#"), "topics plant/+/#")


def test_one_that_is_made_again_covers_more_and_never_less(tmp_path: Path) -> None:
    make(tmp_path, {0: 5, 1: 9}, client="a")
    make(tmp_path, {0: 7, 1: 3, 2: 1}, client="a")
    [found] = read_erasures(tmp_path)
    assert found.up_to == {0: 7, 1: 9, 2: 1}


def test_who_looks_again_sees_what_is_new(tmp_path: Path) -> None:
    file = ErasureFile(tmp_path)
    nothing = file.current()
    assert nothing.all == []
    assert file.current() is nothing
    make(tmp_path, {0: 5}, client="a")
    one = file.current()
    assert one.hides(0, 5, b"t", "a")
    assert file.current() is one
    make(tmp_path, {0: 5}, client="b")
    assert len(file.current().all) == 2


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"version": 2, "erasures": []}', b'{"version": 1, "erasures": [{"topic": "a/#/b"}]}']
)
def test_a_file_that_cannot_be_read_is_an_error_and_not_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(PermanentError, match=FILE_NAME):
        ErasureFile(tmp_path).current()


def test_a_backup_has_the_erasures(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    make(tmp_path / "data", {0: 5}, client="a")
    create_backup(engine, tmp_path / "backup")
    engine.close()
    restore_backup(tmp_path / "backup", tmp_path / "new")
    assert [erasure.client for erasure in read_erasures(tmp_path / "new")] == ["a"]
