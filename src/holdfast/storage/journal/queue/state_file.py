"""`queue.log`: the owner of a queue and its states as lines of text, the newest last; and dated copies of older files.

    queue.log                       one line for the owner, then a state for each change
    queue.20260301T101500123456.log a copy from before a compaction

    holdfast-queue version=1 id=4tDAhd… client=c2Vuc29yLTc check=9d2b8f04
    read_file=00000001 read_msg=2 read_byte=301 write_file=00000002 write_msg=7 write_byte=912 serial=17 number=1204
        given=9 commit=1790000000000012 full=0 expires=0 done=5-8,11 released=4 check=0c6fb7a2       (one line)

1. The last line that is whole and has the right checksum is the state.
2. `read_…` is the place of the first message that is not acknowledged; everything before it is gone. `write_…` is the
   end. `msg` counts from the start of a file, `byte` too. A `byte` of 0: the file is not there yet.
3. `serial` is the last one given out, `number` the last one taken, `commit` the last change that is in the line.
4. `done` are serials above the place of reading that are gone all the same, `released` those that PUBREC came for.
5. `given` is the last serial that was read; limits concern what lies above it. It may be behind after a crash.
6. `expires` is not above the expiry of any message; 0 if none has one.
7. A line is appended with one write. A torn line at the end is cut off before the next one.
8. Compacting leaves the owner and the last state. The new file is synced before it takes the old one's name.
9. Of the dated copies the newest stay, as many and as long as `StateBackups` says. The youngest of the older ones stays
   in any case, however often a queue rotates.
"""

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.files.folders import write_all
from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError
from holdfast.model.time import SECOND_US, datetime_of
from holdfast.storage.journal.queue.serials import Serials
from holdfast.storage.journal.queue_folders import queue_id

#: Never change.
_TITLE: Final = "holdfast-queue"
VERSION: Final = 1
_CHECK: Final = " check="
STATE_NAME: Final = "queue.log"
_BACKUP: Final = re.compile(r"queue\.(\d{8}T\d{12})\.log", re.ASCII)
_STAMP: Final = "%Y%m%dT%H%M%S%f"
#: Opening compacts a file with more states than this. Fewer are not worth a sync.
COMPACT_LINES: Final = 16
#: Bytes at which the file is compacted also while it is open, without a copy: about 300 states.
COMPACT_BYTES: Final = 1 << 16


class QueueState(NamedTuple):
    """See the rules above. The first state of a queue is `QueueState()`."""

    read_file: int = 1
    read_msg: int = 0
    read_byte: int = 0
    write_file: int = 1
    write_msg: int = 0
    write_byte: int = 0
    serial: int = 0
    number: int = 0
    given: int = 0
    commit: int = 0
    full: bool = False
    expires_us: int = 0
    done: str = "-"
    released: str = "-"


_STATE_KEYS: Final = tuple(name.removesuffix("_us") for name in QueueState._fields)


def encode_owner(name: str, client_id: str) -> bytes:
    client = urlsafe_b64encode(client_id.encode()).decode()
    return _checked(f"{_TITLE} version={VERSION} id={name} client={client}")


def decode_owner(line: bytes) -> tuple[str, str] | None:
    """The queue's id and its client; None if the line is not whole. PermanentError: of a version that is not known."""
    text = _unchecked(line)
    if text is None or not text.startswith(f"{_TITLE} "):
        return None
    fields = _fields(text[len(_TITLE) + 1 :])
    if fields.get("version") != str(VERSION):
        raise PermanentError(f"a queue has version {fields.get('version')}, this Holdfast reads version {VERSION}")
    try:
        return fields["id"], urlsafe_b64decode(fields["client"]).decode()
    except (KeyError, ValueError):
        return None


def encode_state(state: QueueState) -> bytes:
    files = f"read_file={state.read_file:08x} read_msg={state.read_msg} read_byte={state.read_byte}"
    files += f" write_file={state.write_file:08x} write_msg={state.write_msg} write_byte={state.write_byte}"
    last = f"serial={state.serial} number={state.number} given={state.given} commit={state.commit}"
    rest = f"full={int(state.full)} expires={state.expires_us} done={state.done} released={state.released}"
    return _checked(f"{files} {last} {rest}")


def decode_state(line: bytes) -> QueueState | None:
    """None if the line is torn or damaged."""
    text = _unchecked(line)
    if text is None:
        return None
    fields = _fields(text)
    if tuple(fields) != _STATE_KEYS:
        return None
    try:
        Serials.parse(fields["done"])
        Serials.parse(fields["released"])
        numbers = [int(fields[key], 16 if key.endswith("_file") else 10) for key in _STATE_KEYS[:12]]
    except (ValueError, PermanentError):
        return None
    first, full, expires_us = numbers[:10], bool(numbers[10]), numbers[11]
    return QueueState._make([*first, full, expires_us, fields["done"], fields["released"]])


def _checked(text: str) -> bytes:
    return f"{text}{_CHECK}{crc32(text.encode()):08x}\n".encode()


def _unchecked(line: bytes) -> str | None:
    """The text of a line without its checksum; None if it has no end or the wrong one."""
    if not line.endswith(b"\n"):
        return None
    try:
        text, found, check = line[:-1].decode("ascii").rpartition(_CHECK)
    except UnicodeDecodeError:
        return None
    return text if found and check == f"{crc32(text.encode()):08x}" else None


def _fields(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(" "))}


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

    def __init__(self, folder: Path, client_id: str, backups: StateBackups) -> None:
        self._folder: Final = folder
        self._path: Final = folder / STATE_NAME
        self._owner: Final = encode_owner(queue_id(client_id), client_id)
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
