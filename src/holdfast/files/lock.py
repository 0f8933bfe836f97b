"""A lock of the kernel (`flock`) on a file or a folder. It ends with its process, however the process ends.

The file stays when the lock is released: removing it would let two processes lock two files of the same name.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from holdfast.files.private import FILE_MODE

#: Seconds between two attempts while a wait lasts.
_RETRY_S: Final = 0.005


class FileLock:
    """Open, not yet held. `acquire` takes the lock; `release`, or the end of a `with` block, gives it back."""

    def __init__(self, path: Path, *, mode: int = FILE_MODE, create: bool = True) -> None:
        """OSError if the file cannot be opened. Without `create` it must exist, and may be a folder."""
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, mode)

    def acquire(self, *, shared: bool = False, wait_s: float | None = None) -> bool:
        """Whether the lock is held now. `wait_s`: None waits until it is, 0 does not wait."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if wait_s is None:
            fcntl.flock(self.descriptor, kind)
            return True
        until_s = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    return False
                time.sleep(_RETRY_S)
            else:
                return True

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()
