"""`queue.log`: the owner of a queue and its states, the newest last; and dated copies of older files.

    queue.log                       one line for the owner, then a state for each change
    queue.20260301T101500123456.log a copy from before a compaction

1. A line is appended with one write. A torn line at the end is cut off before the next one.
2. Compacting leaves the owner and the last state. The new file is synced before it takes the old one's name.
3. Of the dated copies the newest stay, as many and as long as `StateBackups` says. The youngest of the older ones stays
   in any case, however often a queue rotates.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.folders import write_all
from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError
from holdfast.model.time import SECOND_US, datetime_of
from holdfast.storage.journal.queue.queue_state import (
    QueueState,
    decode_owner,
    decode_state,
    encode_owner,
    encode_state,
)

STATE_NAME: Final = "queue.log"
_BACKUP: Final = re.compile(r"queue\.(\d{8}T\d{12})\.log", re.ASCII)
_STAMP: Final = "%Y%m%dT%H%M%S%f"
#: Opening compacts a file with more states than this. Fewer are not worth a sync.
COMPACT_LINES: Final = 16
#: Bytes at which the file is compacted also while it is open, without a copy: about 300 states.
COMPACT_BYTES: Final = 1 << 16


class StateBackups(NamedTuple):
    """The most dated copies of a state file that are kept, and their greatest age; one older copy is always kept."""

    files: int = 16
    age_s: int = 24 * 3600


class LoadedState(NamedTuple):
    """The content of a state file."""

    queue_id: str
    client_id: str
    #: Complete states, the newest first. Most readers need the first one only.
    states: Iterator[QueueState]
    lines: int
    #: The end of the last complete line; what follows is torn.
    whole_bytes: int
    size_bytes: int


def load_state_file(folder: Path) -> LoadedState:
    """PermanentError if it names no owner. FileNotFoundError if there is no such file."""
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
    return LoadedState(*owner, (state for state in found if state is not None), whole - 1, whole_bytes, len(data))


def load_owner(folder: Path) -> str:
    """The owner of the queue in a folder; errors as above."""
    with (folder / STATE_NAME).open("rb") as file:
        owner = decode_owner(file.readline())
    if owner is None:
        raise PermanentError(f"{folder / STATE_NAME}: its first line does not say whose queue this is")
    return owner[1]


class StateFile:
    """The writing side. Requires: one at a time for each folder."""

    def __init__(self, folder: Path, queue_id: str, client_id: str, backups: StateBackups) -> None:
        self._folder: Final = folder
        self._path: Final = folder / STATE_NAME
        self._owner: Final = encode_owner(queue_id, client_id)
        self._backups: Final = backups
        self._descriptor = -1
        self._size_bytes = 0

    def create(self, state: QueueState) -> None:
        """Requires: the folder is there. Survives: a killed process."""
        self._replace(state, sync=False)

    def resume(self, loaded: LoadedState, state: QueueState, now_us: int) -> None:
        """Continue a file that was read, after cutting off a torn line."""
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
            # Readers ignore half a line, and the next one overwrites it.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size_bytes)
            raise
        self._size_bytes += len(line)

    def compact(self, state: QueueState, now_us: int) -> None:
        """Keep a dated copy, and begin again with one state."""
        stamp = datetime_of(now_us).strftime(_STAMP)
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
        oldest = datetime_of(now_us - self._backups.age_s * SECOND_US)
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
