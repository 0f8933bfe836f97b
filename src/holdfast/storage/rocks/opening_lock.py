"""Who opens a database, and who looks into it from beside, take turns.

RocksDB's recovery rewrites what its secondaries read. A reader was seen to crash, process and all, while it opened its
secondary beside a broker that was being started again and again. So the opening has a lock for itself, and looks share
it with each other.

The lock is the kernel's (`flock`), so it ends with its process, however that ends. A folder whose broker is older has
no such file, and its readers take no turns.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.model.errors import TransientError
from holdfast.storage.private_files import FILE_MODE

OPENING_NAME: Final = "opening.lock"
#: A reader that stands still must not keep a broker from starting.
_OPENER_PATIENCE_S: Final = 10.0
#: A recovery may have a long WAL to read.
_LOOK_PATIENCE_S: Final = 120.0
_STEP_S: Final = 0.005


@contextmanager
def opening(folder: Path) -> Iterator[None]:
    """No look begins meanwhile; those under way have ended, or had their time."""
    descriptor = os.open(folder / OPENING_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        _take(descriptor, fcntl.LOCK_EX, _OPENER_PATIENCE_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def looking(folder: Path) -> Iterator[None]:
    """The database is not opened meanwhile. TransientError if that takes too long."""
    try:
        descriptor = os.open(folder / OPENING_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        if not _take(descriptor, fcntl.LOCK_SH, _LOOK_PATIENCE_S):
            raise TransientError(
                f"the database of {folder} has been opening for {_LOOK_PATIENCE_S:.0f} s; try again later"
            )
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, kind: int, patience_s: float) -> bool:
    """Whether it was to be had in time."""
    until_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                return False
            time.sleep(_STEP_S)
        else:
            return True
