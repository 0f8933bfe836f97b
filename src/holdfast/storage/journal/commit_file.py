"""`commit.<number>.log`: the changes of all queues, in the order in which they were made. One sync makes a turn safe.

    header    0  magic      4 bytes  HFJC                                   never change
              4  version    u8       1
              5  synced     u8       1: every append waited for a sync, 0: none did
              6  boot       16 bytes the kernel's boot id
             22  check      u32      CRC-32 of all before it

    turn      0  magic      4 bytes  HFJT                                   never change
              4  length     u32      bytes of the changes
              8  commit     u64      its number: increasing over files and restarts
             16  check      u32      CRC-32 of length, commit and changes
             20  changes             as `changes.py` has them

1. What is behind the last whole turn is a torn tail: nobody was promised it. But if a whole turn follows later, then
   what is in between was damaged after it had been written, and that is reported.
2. A file goes when all queues that it has changes of are synced in their own files.
"""

import os
import re
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.changes import Change, decode_changes
from holdfast.storage.journal.files import sync_path, write_all
from holdfast.storage.private_files import FILE_MODE
from holdfast.storage.rocks.synced_mark import boot_id

#: Never change.
MAGIC: Final = b"HFJC"
TURN_MAGIC: Final = b"HFJT"
VERSION: Final = 1

_HEADER: Final = Struct("<4sBB16s")
_CHECK: Final = Struct("<I")
_TURN: Final = Struct("<4sIQI")
_NUMBERS: Final = Struct("<IQ")
HEADER_BYTES: Final = _HEADER.size + _CHECK.size
_NAME: Final = re.compile(r"commit\.(\d{20})\.log", re.ASCII)


class Turn(NamedTuple):
    """Changes that were committed together."""

    commit: int
    changes: list[Change]


class CommitLog(NamedTuple):
    """What a commit file holds."""

    turns: list[Turn]
    #: Whether appends waited for a sync of it, and whether the machine ran on since it was begun.
    synced: bool
    same_boot: bool
    #: What is wrong with it; empty if nothing is.
    damage: str


def commit_files(root: Path) -> list[Path]:
    """The oldest first."""
    return sorted(path for path in root.glob("commit.*.log") if _NAME.fullmatch(path.name))


def first_commit(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


class CommitFile:
    """The one that is being written."""

    def __init__(self, root: Path, next_commit: int, *, synced: bool) -> None:
        """Survives: a power loss, as a file without turns."""
        self.path: Final = root / f"commit.{next_commit:020}.log"
        self._next: int = next_commit
        header = _HEADER.pack(MAGIC, VERSION, synced, boot_id())
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        write_all(self._descriptor, header + _CHECK.pack(crc32(header)), 0)
        os.fsync(self._descriptor)
        sync_path(root)
        self.size_bytes = HEADER_BYTES
        self._synced_bytes = HEADER_BYTES

    def advance(self, next_commit: int) -> None:
        """The next turn has at least this number."""
        self._next = max(self._next, next_commit)

    @property
    def is_synced(self) -> bool:
        return self._synced_bytes == self.size_bytes

    def write(self, changes: list[Change]) -> int:
        """The number of the commit. OSError: nothing of it is there. Survives: a killed process."""
        data = b"".join(change.encode() for change in changes)
        numbers = _NUMBERS.pack(len(data), self._next)
        turn = _TURN.pack(TURN_MAGIC, len(data), self._next, crc32(data, crc32(numbers)))
        try:
            write_all(self._descriptor, turn + data, self.size_bytes)
        except OSError:
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += len(turn) + len(data)
        self._next += 1
        return self._next - 1

    def sync(self) -> None:
        """Survives: a power loss. After an OSError nothing is known any more."""
        if not self.is_synced:
            os.fdatasync(self._descriptor)
            self._synced_bytes = self.size_bytes

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_commit_file(path: Path) -> CommitLog:
    """All turns that are whole; PermanentError for a version that is not known."""
    data = path.read_bytes()
    header = data[: _HEADER.size]
    if len(data) < HEADER_BYTES or _CHECK.unpack_from(data, _HEADER.size)[0] != crc32(header):
        # It was cut while it was made, and then nothing is in it; or it was damaged, and then turns are.
        turns, gaps = _turns(data, 0)
        return CommitLog(turns, synced=True, same_boot=False, damage="its header" if turns or gaps else "")
    _magic, version, synced, boot = _HEADER.unpack(header)
    if version != VERSION:
        raise PermanentError(f"{path} has version {version}, this Holdfast reads version {VERSION}")
    turns, gaps = _turns(data, HEADER_BYTES)
    damage = f"{gaps} places between turns that were written later" if gaps else ""
    return CommitLog(turns, bool(synced), boot == boot_id() and any(boot), damage)


def _turns(data: bytes, at: int) -> tuple[list[Turn], int]:
    """With the number of places where something that had been written is not readable any more."""
    turns: list[Turn] = []
    gaps = 0
    while at < len(data):
        turn, end = _turn(data, at)
        if turn is None:
            later = data.find(TURN_MAGIC, at + 1)
            while later >= 0 and _turn(data, later)[0] is None:
                later = data.find(TURN_MAGIC, later + 1)
            if later < 0:
                break
            gaps += 1
            end = later
        else:
            turns.append(turn)
        at = end
    return turns, gaps


def _turn(data: bytes, at: int) -> tuple[Turn | None, int]:
    if len(data) < at + _TURN.size:
        return None, at
    magic, length, commit, check = _TURN.unpack_from(data, at)
    begin = at + _TURN.size
    body = data[begin : begin + length]
    if magic != TURN_MAGIC or len(body) < length or crc32(body, crc32(_NUMBERS.pack(length, commit))) != check:
        return None, at
    return Turn(commit, decode_changes(body)), begin + length
