"""Folders made, removed and synced, many at a time."""

import os
from pathlib import Path

from holdfast.files.folders import make_folders, prune_above, remove_folder, sync_folders, write_all


def test_missing_folders_are_made_and_those_that_changed_are_named(tmp_path: Path) -> None:
    assert make_folders(tmp_path / "a" / "b") == [tmp_path / "a", tmp_path]
    assert (tmp_path / "a" / "b").is_dir()
    assert make_folders(tmp_path / "a" / "b") == []
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_folder_goes_with_the_empty_ones_above_it(tmp_path: Path) -> None:
    make_folders(tmp_path / "root" / "a" / "b" / "c")
    make_folders(tmp_path / "root" / "a" / "other")
    (tmp_path / "root" / "a" / "b" / "c" / "file").touch()

    assert remove_folder(tmp_path / "root" / "a" / "b" / "c", tmp_path / "root") == tmp_path / "root" / "a"
    assert sorted(path.name for path in (tmp_path / "root" / "a").iterdir()) == ["other"]
    assert prune_above(tmp_path / "root" / "a" / "other" / "none", tmp_path / "root") == tmp_path / "root"
    assert (tmp_path / "root").is_dir()


def test_syncing_bears_with_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    sync_folders([tmp_path, tmp_path / "gone"], tmp_path)
    sync_folders([tmp_path / str(number) for number in range(300)], tmp_path)

    assert (tmp_path / "file").exists()


def test_all_bytes_are_written_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    descriptor = os.open(path, os.O_RDWR)
    try:
        write_all(descriptor, b"abc", 4)
        write_all(descriptor, b"", 0)
    finally:
        os.close(descriptor)

    assert path.read_bytes() == b"0123abc789"
