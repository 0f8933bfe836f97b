"""One process per data folder.

The content of the lock's file names the holder, and where it can be asked (`files/socket_path.py`). The file of a dead
process holds no lock and is no obstacle.
"""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import holdfast
from holdfast.files.lock import FileLock
from holdfast.files.socket_path import LOCK_NAME, parse_holder, write_holder
from holdfast.storage.rocks.engine.failures import FolderHeldError


class FolderLock:
    """Requires: the folder exists. Ensures: while this is held, no other `acquire` of the folder succeeds."""

    def __init__(self, lock: FileLock, path: Path) -> None:
        self._lock: Final = lock
        self.path: Final = path

    @classmethod
    def acquire(cls, folder: Path) -> "FolderLock":
        path = folder / LOCK_NAME
        lock = FileLock(path)
        if not lock.acquire(wait_s=0):
            holder = _describe(os.read(lock.descriptor, 4096))
            lock.release()
            raise FolderHeldError(
                f"the data folder {folder} is in use by {holder}; stop that process or choose another folder"
            )
        write_holder(
            lock.descriptor,
            {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "version": holdfast.__version__,
            },
        )
        return cls(lock, path)

    def release(self) -> None:
        self._lock.release()


def _describe(content: bytes) -> str:
    fields = parse_holder(content)
    try:
        return f"pid {fields['pid']} on {fields['host']}, holdfast {fields['version']}, started {fields['started']}"
    except KeyError:
        return "a process that has not said who it is"
