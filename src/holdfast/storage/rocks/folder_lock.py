"""One process per data folder.

The lock is the kernel's (`flock`), so it ends with its process, however that ends. What the file says is for
people: it names the holder. A file left behind by a dead process holds no lock and is no obstacle.
"""

import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import holdfast
from holdfast.storage.private_files import FILE_MODE
from holdfast.storage.rocks.failures import FolderHeldError

LOCK_NAME: Final = "holdfast.lock"


class FolderLock:
    """Requires: the folder exists. Ensures: while this is held, no other `acquire` of the folder succeeds."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path: Final = path

    @classmethod
    def acquire(cls, folder: Path) -> "FolderLock":
        path = folder / LOCK_NAME
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _describe(os.read(descriptor, 4096))
            os.close(descriptor)
            raise FolderHeldError(
                f"the data folder {folder} is in use by {holder}; stop that process or choose another folder"
            ) from None
        text = json.dumps(
            {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "version": holdfast.__version__,
            }
        )
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode() + b"\n", 0)
        except OSError:
            # On a full disk the words do not fit. The lock holds all the same.
            pass
        return cls(descriptor, path)

    def release(self) -> None:
        """The file stays: removing it would let two processes lock two different files of the same name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _describe(content: bytes) -> str:
    try:
        fields = json.loads(content)
        return f"pid {fields['pid']} on {fields['host']}, holdfast {fields['version']}, started {fields['started']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has not said who it is"
