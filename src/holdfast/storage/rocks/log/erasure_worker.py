"""Erasures in a running broker: messages are hidden at once, retained messages are removed step by step.

1. No reader is served by the log before the erasures that are there at the start are known.
2. Each `look` does a bounded amount of work. A broker that is started again looks through all retained messages.
3. Messages of the log itself go with their generation: until then they are hidden.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from holdfast.durable.changes import Changes
from holdfast.durable.erasures import Erasure
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.erasure_file import ErasureFile
from holdfast.storage.rocks.retained.retained_store import RocksRetained

_log = structlog.get_logger()

#: Retained messages looked at in one go: a few milliseconds.
_LOOKED: Final = 500


class ErasureWorker:
    """Requires: `look` once a second."""

    def __init__(self, folder: Path, log: RocksLog, retained: RocksRetained, told: Callable[[Erasure], None]) -> None:
        """`told` is called for each erasure that is new. PermanentError if they cannot be read."""
        self._file: Final = ErasureFile(folder)
        self._log: Final = log
        self._retained: Final = retained
        self._told: Final = told
        self._known = self._file.current()
        self._unreadable = ""
        #: Where the retained messages are looked through next; None if there is nothing to look for.
        self._after: bytes | None = b"" if self._known.all else None
        self._removed = 0
        log.reader.hide(self._known)

    def look(self) -> None:
        """Read new erasures, and continue to remove retained messages."""
        try:
            found = self._file.current()
        except PermanentError as error:
            # What is known stays hidden.
            if str(error) != self._unreadable:
                _log.error("erasures cannot be read, and new ones wait", why=str(error))
            self._unreadable = str(error)
            return
        self._unreadable = ""
        if found is not self._known:
            before = {(erasure.what, erasure.made_us) for erasure in self._known.all}
            self._known = found
            self._log.reader.hide(found)
            self._after = b""
            for erasure in found.all:
                if (erasure.what, erasure.made_us) not in before:
                    _log.info("messages are erased", what=erasure.what, by=erasure.made_by)
                    self._told(erasure)
        if self._after is not None and self._log.idle():
            self._remove(self._after)

    def _remove(self, after: bytes) -> None:
        changes = Changes()
        removed, after = self._retained.erase(self._known, after, _LOOKED, changes)
        self._log.write_own(changes)
        self._removed += removed
        self._after = after or None
        if self._after is None and self._removed:
            _log.info("erased retained messages are removed", count=self._removed)
            self._removed = 0
