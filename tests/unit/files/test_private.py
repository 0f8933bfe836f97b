"""Which folders are tightened, and which are not ours to change."""

import stat
from pathlib import Path

import pytest

from holdfast.files.private import give_to_owner, make_private_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize(("content", "expected"), [("", 0o700), ("lock", 0o700), ("somebody's", 0o755)])
def test_a_folder_is_tightened_unless_it_holds_something_else(tmp_path: Path, content: str, expected: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    if content:
        (folder / content).touch()
    make_private_folder(folder, "lock")
    assert mode(folder) == expected


def test_a_file_is_for_the_owner_of_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(0o644)
    with file.open("rb") as opened:
        give_to_owner(opened.fileno(), tmp_path)
    assert mode(file) == 0o600
