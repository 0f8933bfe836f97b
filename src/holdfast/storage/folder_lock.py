"""One process per data folder.

The content of the lock's file is for people: it names the holder. The file of a dead process holds no lock and is no
obstacle.
"""

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import holdfast
from holdfast.files.lock import FileLock
from holdfast.storage.rocks.engine.failures import FolderHeldError

LOCK_NAME: Final = "holdfast.lock"


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
        text = json.dumps(
            {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "version": holdfast.__version__,
            }
        )
        try:
            os.ftruncate(lock.descriptor, 0)
            os.pwrite(lock.descriptor, text.encode() + b"\n", 0)
        except OSError:
            # On a full disk the text does not fit. The lock holds nevertheless.
            pass
        return cls(lock, path)

    def release(self) -> None:
        self._lock.release()


def _describe(content: bytes) -> str:
    try:
        fields = json.loads(content)
        return f"pid {fields['pid']} on {fields['host']}, holdfast {fields['version']}, started {fields['started']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has not said who it is"
