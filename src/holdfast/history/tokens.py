"""Tokens: who may read the history (`files.token_file` has the form of the file).

1. A token reads the history if its role is reader or more, it has not expired, and it is not restricted to topics:
   these servers serve whole zones. Restricted tokens are for the console. An audit needs the role admin.
2. A check takes the same time for every token, right or wrong.
3. The file is read again when it has changed. If it cannot be read any more, every token is refused.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.stamp import file_stamp
from holdfast.files.token_file import TokenEntry, find_token, read_token_file
from holdfast.model.errors import SettingsError
from holdfast.model.roles import ADMIN, READER, includes

_log = structlog.get_logger()

#: Without a token file: who reaches the port may read all.
_ANY_CLIENT: Final = TokenEntry("anybody", "", ADMIN)


class Tokens:
    """The tokens of a file, as servers check them. May be used from any thread."""

    def __init__(self, path: Path | None, now_s: Callable[[], float] = time.time) -> None:
        """Without a file every client may read. SettingsError if the file is wrong."""
        self._path: Final = path
        self._now_s: Final = now_s
        self._lock: Final = threading.Lock()
        self._stamp = None if path is None else file_stamp(path)
        self._entries = {} if path is None else read_token_file(path)

    def entry_of(self, authorization: str) -> TokenEntry | None:
        """The token in a header `Bearer TOKEN`; None if it is unknown or may not read."""
        if self._path is None:
            return _ANY_CLIENT
        scheme, _blank, token = authorization.partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else ""
        entry = find_token(self._current(self._path), shown)
        if entry is None or entry.has_expired(self._now_s()) or entry.filters or not includes(entry.role, READER):
            return None
        return entry

    def name_of(self, authorization: str) -> str | None:
        """The same, by its name."""
        entry = self.entry_of(authorization)
        return None if entry is None else entry.name

    def _current(self, path: Path) -> dict[str, TokenEntry]:
        with self._lock:
            stamp = file_stamp(path)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._entries = read_token_file(path)
                except SettingsError as error:
                    self._entries = {}
                    _log.error("token file is wrong, all reads are refused", why=str(error))
                else:
                    _log.info("the token file was read again", tokens=len(self._entries))
            return self._entries
