"""How far the WAL is known to be on disk, kept outside the WAL.

RocksDB cannot tell a torn tail, which is normal after a crash, from damage to what was synced. The mark can:
it holds the last sequence number that a sync covered. Sequence numbers, not file lengths, because they go on
over files: after an open, the database either reached the mark or has lost something.

    file `synced`:  slot 0 at byte 0, slot 1 at byte 512, written in turn           never change
    slot, little-endian: magic 4s | counter u64 | sequence u64 | batch u64 | MANIFEST number u64 | MANIFEST bytes u64
                         | boot 16s | crc32 of all before u32

When it is written, and why that is enough:

1. After each sync and before its receipts are given: then it covers every receipt. A killed process leaves the
   page cache, so after `kill -9` the mark is exact.
2. To the disk itself (`settle`) at most a second after it was written, off the way of the receipts. After a power
   loss it may be that second too low and never too high, since only synced numbers stand in it. Too low means:
   damage in the last second before a power loss looks like a torn tail. `boot` tells which of the two cases it is.
3. In two slots, so that a write torn by a power loss leaves the older one.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.private import FILE_MODE

MARK_NAME: Final = "synced"
_MAGIC: Final = b"HFS1"
_SLOT: Final = struct.Struct("<4sQQQQQ16s")
_CRC: Final = struct.Struct("<I")
#: A disk writes whole sectors, so slots share none.
_SLOT_BYTES: Final = 512


class Synced(NamedTuple):
    """What is on disk for certain."""

    sequence: int = 0
    batch: int = 0
    manifest_number: int = 0
    manifest_bytes: int = 0


class SyncedMark:
    """Survives: a killed process exactly, a power loss up to the last `settle`."""

    def __init__(self, folder: Path) -> None:
        path = folder / MARK_NAME
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._boot: Final = boot_id()
        self._counter = 0
        #: None: no mark was ever written here, or neither slot is readable.
        self.last: Synced | None = None
        #: Whether the machine ran on since the mark was written, so that the mark is exact.
        self.is_exact = False
        self._unsettled = False
        if os.fstat(self._descriptor).st_size < 2 * _SLOT_BYTES:
            # Taken now, so that a disk that fills up later cannot fail a mark.
            os.pwrite(self._descriptor, b"\0" * (2 * _SLOT_BYTES), 0)
        for slot in (0, 1):
            self._load(os.pread(self._descriptor, _SLOT.size + _CRC.size, slot * _SLOT_BYTES))

    def _load(self, content: bytes) -> None:
        if len(content) < _SLOT.size + _CRC.size:
            return
        body = content[: _SLOT.size]
        magic, counter, sequence, batch, manifest_number, manifest_bytes, boot = _SLOT.unpack(body)
        if magic != _MAGIC or _CRC.unpack(content[_SLOT.size :])[0] != zlib.crc32(body) or counter <= self._counter:
            return
        self._counter = counter
        self.last = Synced(sequence, batch, manifest_number, manifest_bytes)
        self.is_exact = boot == self._boot

    def write(self, synced: Synced) -> None:
        """Requires: the WAL is synced up to `synced`. Survives: a killed process."""
        self._counter += 1
        body = _SLOT.pack(_MAGIC, self._counter, *synced, self._boot)
        os.pwrite(self._descriptor, body + _CRC.pack(zlib.crc32(body)), (self._counter & 1) * _SLOT_BYTES)
        self.last = synced
        self._unsettled = True

    def settle(self) -> None:
        """Survives: a power loss."""
        if self._unsettled:
            os.fdatasync(self._descriptor)
            self._unsettled = False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def boot_id() -> bytes:
    """Names this run of the kernel. Zeros where the system has no such name: then no mark counts as exact."""
    try:
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return b"\0" * 16
