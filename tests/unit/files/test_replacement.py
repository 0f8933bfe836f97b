"""A replaced file has the old content or the new one, and the disk has it before the name."""

import os
from pathlib import Path

import pytest

from holdfast.files.replacement import is_temporary, open_replacement, read_json, replace_file, replace_json, sync_path
from holdfast.model.errors import PermanentError


def test_the_old_content_is_read_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_replacement(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail_half_way() -> None:
        with open_replacement(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail_half_way()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("sync", "expected"), [(True, ["sync file", "rename", "sync folder"]), (False, ["rename"])], ids=["sync", "no sync"]
)
def test_the_content_is_synced_before_the_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool, expected: list[str]
) -> None:
    acts: list[str] = []
    really_sync, really_replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        is_folder = Path(f"/proc/self/fd/{descriptor}").readlink() == tmp_path
        acts.append("sync folder" if is_folder else "sync file")
        really_sync(descriptor)

    def noted_replace(old: Path, new: Path) -> None:
        acts.append("rename")
        really_replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    replace_file(tmp_path / "file", b"x", sync=sync)
    assert acts == expected


def test_a_mode_holds_against_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "open", b"", mode=0o644)
        replace_file(tmp_path / "as the umask says", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "as the umask says").stat().st_mode & 0o777 == 0o600


def test_a_temporary_file_does_not_look_like_its_target(tmp_path: Path) -> None:
    with open_replacement(tmp_path / "000012.log"):
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        assert not list(tmp_path.glob("[!.]*"))
        assert all(map(is_temporary, tmp_path.iterdir()))
    assert not any(map(is_temporary, tmp_path.iterdir()))


def test_json_of_the_known_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    replace_json(path, {"version": 1, "name": "Zürich"})
    assert read_json(path, 1) == {"version": 1, "name": "Zürich"}
    assert "Zürich" in path.read_text(encoding="utf-8")


def test_json_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    replace_json(path, {"version": 2})
    with pytest.raises(PermanentError, match=r"file\.json has version 2, and this Holdfast knows 1"):
        read_json(path, 1)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_what_is_no_versioned_json_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 the text is that of the JSON reader
        read_json(path, 1)


def test_syncing_what_is_gone_is_an_error_unless_allowed(tmp_path: Path) -> None:
    sync_path(tmp_path / "gone", missing_ok=True)
    with pytest.raises(FileNotFoundError):
        sync_path(tmp_path / "gone")
