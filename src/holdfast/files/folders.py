"""Folders made, removed and synced, many at a time; and a `pwrite` that writes all it was given."""

import ctypes
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import sync_path

#: With more files than this, the whole file system is synced: one call instead of thousands.
_MANY: Final = 256


def write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write all bytes: one `pwrite` may write less, on a nearly full disk and above 2 GiB."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view = view[written:]
        at += written


def sync_folders(folders: Collection[Path], root: Path) -> None:
    """Sync folders and the files directly in them. Requires: all are on the file system of `root`."""
    if len(folders) > _MANY and _sync_file_system(root):
        return
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(folder):
                if entry.is_file(follow_symlinks=False):
                    sync_path(Path(entry.path), missing_ok=True)
        sync_path(folder, missing_ok=True)


def _sync_file_system(root: Path) -> bool:
    """False if the system has no `syncfs`."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if call(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
    return True


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents. Returns the folders whose entries have changed, to be synced."""
    missing: list[Path] = []
    above = folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    for one in reversed(missing):
        one.mkdir(FOLDER_MODE, exist_ok=True)
    return [one.parent for one in missing]


def remove_folder(folder: Path, root: Path) -> Path:
    """Remove a folder, and its parents below `root` that become empty. Returns the first parent left, to be synced."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    return prune_above(folder, root)


def prune_above(folder: Path, root: Path) -> Path:
    """Remove empty parents of `folder` below `root`; returns the first that is left."""
    above = folder.parent
    while above != root and above.is_relative_to(root):
        try:
            above.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            break
        above = above.parent
    return above
