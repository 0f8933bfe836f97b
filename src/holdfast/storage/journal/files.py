"""Writing and syncing files, the few ways the journal does it. Nothing here knows what the bytes mean."""

import ctypes
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.storage.private_files import FOLDER_MODE

#: From so many files on, the whole file system is synced at once: that is one call instead of thousands.
_MANY: Final = 256


def write_all(descriptor: int, data: bytes, at: int) -> None:
    """`pwrite` may write less than it was given: near the end of a disk, and above 2 GiB."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view = view[written:]
        at += written


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Ensures: whoever opens `path` finds the old content or the new one, whole."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
    if sync:
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """A file or a folder. What is gone meanwhile need not be synced."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(folders: Collection[Path], root: Path) -> None:
    """Requires: all of it is on the file system of `root`. Survives: a power loss, with all files directly inside."""
    if len(folders) > _MANY and _sync_file_system(root):
        return
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(folder):
                if entry.is_file(follow_symlinks=False):
                    sync_path(Path(entry.path))
        sync_path(folder)


def _sync_file_system(root: Path) -> bool:
    """False where the system has no such call."""
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
    """The folder with all above it. Those whose list of names has changed by that, to be synced."""
    missing: list[Path] = []
    above = folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    for one in reversed(missing):
        one.mkdir(FOLDER_MODE, exist_ok=True)
    return [one.parent for one in missing]


def remove_folder(folder: Path, root: Path) -> Path:
    """The folder, and those above it that are empty then, below `root`. The one that is left, to be synced."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    return prune_above(folder, root)


def prune_above(folder: Path, root: Path) -> Path:
    """Remove empty folders above `folder`, below `root`; the first that stays."""
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
