"""A lock between the process that opens a database and the processes that open a secondary of it.

RocksDB's recovery rewrites what its secondaries read. A reader was seen to crash, process and all, while it opened its
secondary beside a broker that was being started again and again. So opening takes the lock alone, and secondaries share
it.

A folder of an older broker has no such file, and its readers take no lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.files.lock import FileLock
from holdfast.model.errors import TransientError

OPENING_NAME: Final = "lock_to_open.lock"
#: A reader that stands still must not keep a broker from starting.
_OPENER_PATIENCE_S: Final = 10.0
#: A recovery may have a long WAL to read.
_LOOK_PATIENCE_S: Final = 120.0


@contextmanager
def lock_to_open(folder: Path) -> Iterator[None]:
    """No secondary is opened meanwhile; those that are being opened have ended, or had their time."""
    with FileLock(folder / OPENING_NAME) as lock:
        lock.acquire(wait_s=_OPENER_PATIENCE_S)
        yield


@contextmanager
def lock_to_look(folder: Path) -> Iterator[None]:
    """The database is not opened meanwhile. TransientError if that takes too long."""
    try:
        lock = FileLock(folder / OPENING_NAME, create=False)
    except FileNotFoundError:
        yield
        return
    with lock:
        if not lock.acquire(shared=True, wait_s=_LOOK_PATIENCE_S):
            raise TransientError(
                f"the database of {folder} has been opening for {_LOOK_PATIENCE_S:.0f} s; try again later"
            )
        yield
