"""Errors of RocksDB, translated into the families of `model/errors.py`.

rocksdict raises a plain `Exception` with RocksDB's text, so the text is all there is to tell by.
"""

import errno
import re
from enum import Enum
from typing import Final

from holdfast.model.errors import PermanentError, SettingsError, TransientError


class DiskFullError(TransientError):
    """There is no room. Nothing was written; the same changes may be written when room is back."""


class StalledError(TransientError):
    """RocksDB is behind with its own work. Nothing was written; the same changes may be written in a moment."""


class FolderHeldError(SettingsError):
    """Another process works on the data folder."""


class UnreadableError(PermanentError):
    """The data cannot be opened, not even after a repair. The message says why and what can be done."""


#: How RocksDB names the call that failed. A path may hold any word, so "sync" alone proves nothing.
_IN_A_SYNC: Final = re.compile(r"While (f|fdata)?sync", re.ASCII)


class Failure(Enum):
    """What a failed write or sync means."""

    STALLED = "RocksDB refused, to catch up"
    FULL = "an append found no room; the disk's contents are as they were"
    BROKEN = "an earlier append failed, so the WAL's writer refuses; what it holds is good"
    LOST = "anything else: what is on disk is not known"


def classify(error: Exception) -> Failure:
    """A full disk is only harmless when the append met it. The same error from a sync means that pages may be gone."""
    text = str(error)
    if text.startswith(("Result incomplete", "Operation failed. Try again")):
        return Failure.STALLED
    if "Writer has previous error" in text:
        return Failure.BROKEN
    if "No space left" in text and not _IN_A_SYNC.search(text):
        return Failure.FULL
    return Failure.LOST


def is_no_room(error: Exception) -> bool:
    return "No space left" in str(error) or (isinstance(error, OSError) and error.errno == errno.ENOSPC)
