"""`commit.<number>.log`: the changes of all queues, in the order in which they were made. One sync makes a commit safe.

    header    0  magic      4 bytes  HFJC                                   never change
              4  version    u8       1
              5  synced     u8       1: every append waited for a sync, 0: none did
              6  boot       16 bytes the kernel's boot id
             22  check      u32      CRC-32 of all before it

    commit    0  magic      4 bytes  HFJT                                   never change
              4  length     u32      bytes of the changes
              8  number     u64      increasing over files and restarts
             16  check      u32      CRC-32 of length, number and changes
             20  changes             as `queue.change` encodes them

1. What is behind the last whole commit is a torn tail: no client was promised it. If a whole commit follows later,
   what is in between was damaged after it had been written, and that is reported.
2. A file is deleted when all its changes are synced in the files of the queues.
"""

import os
import re
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.files.folders import sync_folders, write_all
from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import sync_path
from holdfast.model.errors import PermanentError
from holdfast.storage.journal.queue.change import QueueChange, decode_changes
from holdfast.storage.rocks.engine.synced_mark import boot_id

#: Never change.
MAGIC: Final = b"HFJC"
COMMIT_MAGIC: Final = b"HFJT"
VERSION: Final = 1

_HEADER: Final = Struct("<4sBB16s")
_CHECK: Final = Struct("<I")
_COMMIT: Final = Struct("<4sIQI")
_NUMBERS: Final = Struct("<IQ")
HEADER_BYTES: Final = _HEADER.size + _CHECK.size
_NAME: Final = re.compile(r"commit\.(\d{20})\.log", re.ASCII)


class JournalCommit(NamedTuple):
    """Changes that were committed together."""

    number: int
    changes: list[QueueChange]


class CommitFileContent(NamedTuple):
    """The content of a commit file."""

    commits: list[JournalCommit]
    #: Whether appends waited for a sync, and whether the machine has not restarted since.
    synced: bool
    same_boot: bool
    #: What is wrong with it; empty if nothing is.
    damage: str


def commit_files(root: Path) -> list[Path]:
    """The oldest first."""
    return sorted(path for path in root.glob("commit.*.log") if _NAME.fullmatch(path.name))


class CommitFile:
    """The commit file that is being written."""

    def __init__(self, root: Path, next_commit: int, *, synced: bool) -> None:
        """Survives: a power loss, as a file without commits."""
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
        """The next commit has at least this number."""
        self._next = max(self._next, next_commit)

    @property
    def is_synced(self) -> bool:
        return self._synced_bytes == self.size_bytes

    def write(self, changes: list[QueueChange]) -> int:
        """Append a commit; returns its number. OSError: nothing was written. Survives: a killed process."""
        data = b"".join(change.encode() for change in changes)
        numbers = _NUMBERS.pack(len(data), self._next)
        head = _COMMIT.pack(COMMIT_MAGIC, len(data), self._next, crc32(data, crc32(numbers)))
        try:
            write_all(self._descriptor, head + data, self.size_bytes)
        except OSError:
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += len(head) + len(data)
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


class Checkpoint:
    """A finished commit file, and what must be synced before it is deleted: its changes, in the files of the queues."""

    def __init__(self, root: Path, file: CommitFile, begun_us: int) -> None:
        self.root: Final = root
        self.file: Final = file
        self.begun_us: Final = begun_us
        #: Queues whose base is in the file; folders with something to sync.
        self.touched: Final[set[str]] = set()
        self.dirty: Final[set[Path]] = set()
        #: Files to delete at the end, by the folder of their queue.
        self.drained: Final[dict[Path, list[Path]]] = {}

    def sync(self) -> None:
        """May run on any thread. Requires: nothing is added any more."""
        sync_folders(self.dirty, self.root)


def read_commit_file(path: Path) -> CommitFileContent:
    """All commits that are whole; PermanentError for a version that is not known."""
    data = path.read_bytes()
    header = data[: _HEADER.size]
    if len(data) < HEADER_BYTES or _CHECK.unpack_from(data, _HEADER.size)[0] != crc32(header):
        # Either it was cut off while it was made, and is empty; or it was damaged, and holds commits.
        commits, gaps = _commits(data, 0)
        return CommitFileContent(commits, synced=True, same_boot=False, damage="its header" if commits or gaps else "")
    _magic, version, synced, boot = _HEADER.unpack(header)
    if version != VERSION:
        raise PermanentError(f"{path} has version {version}, this Holdfast reads version {VERSION}")
    commits, gaps = _commits(data, HEADER_BYTES)
    damage = f"{gaps} places between commits that were written later" if gaps else ""
    return CommitFileContent(commits, bool(synced), boot == boot_id() and any(boot), damage)


def _commits(data: bytes, at: int) -> tuple[list[JournalCommit], int]:
    """The commits, and the number of gaps that cannot be read any more."""
    commits: list[JournalCommit] = []
    gaps = 0
    while at < len(data):
        commit, end = _commit(data, at)
        if commit is None:
            later = data.find(COMMIT_MAGIC, at + 1)
            while later >= 0 and _commit(data, later)[0] is None:
                later = data.find(COMMIT_MAGIC, later + 1)
            if later < 0:
                break
            gaps += 1
            end = later
        else:
            commits.append(commit)
        at = end
    return commits, gaps


def _commit(data: bytes, at: int) -> tuple[JournalCommit | None, int]:
    if len(data) < at + _COMMIT.size:
        return None, at
    magic, length, number, check = _COMMIT.unpack_from(data, at)
    begin = at + _COMMIT.size
    body = data[begin : begin + length]
    if magic != COMMIT_MAGIC or len(body) < length or crc32(body, crc32(_NUMBERS.pack(length, number))) != check:
        return None, at
    return JournalCommit(number, decode_changes(body)), begin + length
