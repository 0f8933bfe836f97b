"""Which folders are tightened, and which are not ours to change."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.files.private import give_to_owner, make_private_folder, make_trusted_folder


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


# ---- folders that programs are run from


def test_a_trusted_folder_is_made_for_its_owner_alone_with_all_above_it(tmp_path: Path) -> None:
    make_trusted_folder(tmp_path / "a" / "b")
    make_trusted_folder(tmp_path / "a" / "b")

    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize("permissions", [0o757, 0o777, 0o775])
def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path: Path, permissions: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(permissions)

    with pytest.raises(
        PermissionError, match=rf"may write to {folder} \(mode {permissions:04o}\).*chmod go-w {folder}"
    ):
        make_trusted_folder(folder)


def test_a_folder_that_others_may_replace_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "open" / "mine").mkdir(0o700, parents=True)
    (tmp_path / "open").chmod(0o777)

    with pytest.raises(PermissionError, match=f"may write to {tmp_path / 'open'} "):
        make_trusted_folder(tmp_path / "open" / "mine")
    (tmp_path / "open").chmod(0o1777)  # as /tmp: each user may rename only what is theirs
    make_trusted_folder(tmp_path / "open" / "mine")


def test_a_folder_itself_is_not_for_all_even_where_each_may_rename_only_what_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)

    with pytest.raises(PermissionError, match="mode 1777"):
        make_trusted_folder(tmp_path / "open")


@pytest.mark.parametrize("name", ["theirs", "theirs/mine", "link/mine"])
def test_what_belongs_to_another_user_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "theirs" / "mine").mkdir(parents=True)
    (tmp_path / "link").symlink_to("theirs")
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 54321, 54321)
        os.chown(tmp_path / "link", 54321, 54321, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)

    with pytest.raises(PermissionError, match=r"belongs to user .*, who may change it; right would be a"):
        make_trusted_folder(tmp_path / name)


def test_a_link_of_this_user_may_lie_above_a_trusted_folder_and_not_be_it(tmp_path: Path) -> None:
    (tmp_path / "real" / "caches").mkdir(parents=True)
    (tmp_path / "above").symlink_to("real/../real")
    (tmp_path / "real" / "link").symlink_to(tmp_path / "real" / "caches")

    make_trusted_folder(tmp_path / "above" / "link" / "cache")

    assert (tmp_path / "real" / "caches" / "cache").is_dir()
    with pytest.raises(PermissionError, match=f"{tmp_path / 'real' / 'link'} is a link; right would be the folder"):
        make_trusted_folder(tmp_path / "above" / "link")


def test_links_in_a_circle_end_somewhere(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    with pytest.raises(PermissionError, match="is a link"):
        make_trusted_folder(tmp_path / "one" / "cache")


def test_a_file_is_no_trusted_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)

    for name in ("file", "file/cache"):
        with pytest.raises(NotADirectoryError, match=f"{tmp_path / 'file'} is not a folder"):
            make_trusted_folder(tmp_path / name)
