"""`queue.log`: whose queue it is, and its states, the newest last; and the dated copies of what it was before.

    queue.log                       one line for the owner, then a state for each change
    queue.20260301T101500123456.log what it was when it was compacted

1. A line is appended with one write. What is torn behind the last whole line is cut off before the next one.
2. Compacting leaves the owner and the last state. The new file is synced before it takes the old one's name.
3. Of the dated copies the newest ones stay, as many as `Backups` says and as long as they are young. One that is older
   stays in any case, however often a queue rotates: the youngest of those; and the one that takes its place some day.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.files import replace_file, write_all
from holdfast.storage.journal.queue_state import QueueState, decode_owner, decode_state, encode_owner, encode_state

STATE_NAME: Final = "queue.log"
_BACKUP: Final = re.compile(r"queue\.(\d{8}T\d{12})\.log", re.ASCII)
_STAMP: Final = "%Y%m%dT%H%M%S%f"
#: States after which opening compacts. Less is not worth a sync.
COMPACT_LINES: Final = 16
#: Bytes at which the file is compacted also while it is open, without a copy: about 300 states.
COMPACT_BYTES: Final = 1 << 16


class Backups(NamedTuple):
    """How many dated copies of a state file stay at most, and up to which age; an older one stays in any case."""

    files: int = 16
    age_s: int = 24 * 3600


class Loaded(NamedTuple):
    """What a state file says."""

    queue_id: str
    client_id: str
    #: States that are whole, the newest first. Most readers want the first one only.
    states: Iterator[QueueState]
    lines: int
    #: Where the last whole line ends: what follows is torn.
    whole_bytes: int
    size_bytes: int


def load_state_file(folder: Path) -> Loaded:
    """PermanentError if nobody's queue can be read from it. FileNotFoundError if there is none."""
    data = (folder / STATE_NAME).read_bytes()
    lines = data.splitlines(keepends=True)
    owner = decode_owner(lines[0]) if lines else None
    if owner is None:
        raise PermanentError(f"{folder / STATE_NAME}: its first line does not say whose queue this is")
    whole = len(lines)
    while whole > 1 and decode_state(lines[whole - 1]) is None:
        whole -= 1
    if whole == 1:
        raise PermanentError(f"{folder / STATE_NAME}: no state in it is whole")
    whole_bytes = sum(map(len, lines[:whole]))
    found = (decode_state(line) for line in reversed(lines[1:whole]))
    return Loaded(*owner, (state for state in found if state is not None), whole - 1, whole_bytes, len(data))


def load_owner(folder: Path) -> str:
    """The client whose queue a folder is; errors as above."""
    with (folder / STATE_NAME).open("rb") as file:
        owner = decode_owner(file.readline())
    if owner is None:
        raise PermanentError(f"{folder / STATE_NAME}: its first line does not say whose queue this is")
    return owner[1]


class StateFile:
    """The writing side. Requires: one at a time for each folder."""

    def __init__(self, folder: Path, queue_id: str, client_id: str, backups: Backups) -> None:
        self._folder: Final = folder
        self._path: Final = folder / STATE_NAME
        self._owner: Final = encode_owner(queue_id, client_id)
        self._backups: Final = backups
        self._descriptor = -1
        self._size_bytes = 0

    def create(self, state: QueueState) -> None:
        """Requires: the folder is there. Survives: a killed process."""
        self._replace(state, sync=False)

    def resume(self, loaded: Loaded, state: QueueState, now_us: int) -> None:
        """Go on with a file that was read, after cutting off what is torn."""
        self._size_bytes = loaded.whole_bytes
        if loaded.size_bytes > loaded.whole_bytes:
            os.truncate(self._path, loaded.whole_bytes)
        if loaded.lines > COMPACT_LINES:
            self.compact(state, now_us)

    def append(self, state: QueueState) -> None:
        """Survives: a killed process."""
        line = encode_state(state)
        if self._size_bytes + len(line) > COMPACT_BYTES and self._size_bytes > 2 * len(line) + len(self._owner):
            self._replace(state, sync=True)
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_all(self._descriptor, line, self._size_bytes)
        except OSError:
            # Half a line is no obstacle for readers; the next one is written over it.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size_bytes)
            raise
        self._size_bytes += len(line)

    def compact(self, state: QueueState, now_us: int) -> None:
        """Keep a dated copy, and begin again with one state."""
        stamp = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us)).strftime(_STAMP)
        with suppress(FileExistsError):
            os.link(self._path, self._folder / f"queue.{stamp}.log")
        self._replace(state, sync=True)
        self._prune(now_us)

    def _replace(self, state: QueueState, *, sync: bool) -> None:
        data = self._owner + encode_state(state)
        self.close()
        replace_file(self._path, data, sync=sync)
        self._size_bytes = len(data)

    def _prune(self, now_us: int) -> None:
        oldest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us, seconds=-self._backups.age_s)
        found = sorted((match[1] for match in map(_BACKUP.fullmatch, os.listdir(self._folder)) if match), reverse=True)
        young = [stamp for stamp in found if stamp >= oldest.strftime(_STAMP)]
        kept = {*young[: self._backups.files], *young[-1:], *found[len(young) :][:1]}
        for stamp in found:
            if stamp not in kept:
                (self._folder / f"queue.{stamp}.log").unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
