"""The durable heads of all shards, in a file that other processes read.

A process that reads the log beside the broker sees what was written, which may be more than what was synced. So the
broker says how far it may look: the heads are put here after the sync and with the receipts, never before.

    file `heads`:  magic 8s | 24 bytes of zeros | slots of 32 bytes                  never change
    slot, little-endian:  shard u64 | position i64 (µs) | serial u64 | check u64

1. A slot is never above what is synced: not while it is written (a reader that sees half of it finds a wrong check, and
   looks again), and not after a power loss, which can only bring an older slot back.
2. It may be too low for the moment between a sync and its receipt, or after a power loss until the broker starts.
3. The file is replaced as a whole when the log is opened and when shards are added; otherwise it has the same slots.
"""

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError, TransientError

HEADS_NAME: Final = "heads"
_MAGIC: Final = b"HFHEADS1"
_HEAD_BYTES: Final = 32
_SLOT: Final = struct.Struct("<QqQQ")
#: So that a slot of zeros is not right by chance.
_SALT: Final = 0x5A17_ED5A_17ED_5A17
_MASK: Final = 2**64 - 1
#: Looks at a slot that is being written.
_LOOKS: Final = 1_000


class Head(NamedTuple):
    """The last position and serial of a shard that readers may see."""

    position_us: int
    serial: int


class PublishedHeads:
    """The broker's side."""

    def __init__(self, folder: Path, heads: Mapping[int, Head]) -> None:
        self._path: Final = folder / HEADS_NAME
        self._offsets: dict[int, int] = {}
        self._map = self._make(heads)

    def _make(self, heads: Mapping[int, Head]) -> mmap.mmap:
        path = self._path
        content = bytearray(_MAGIC.ljust(_HEAD_BYTES, b"\0"))
        offsets: dict[int, int] = {}
        for shard, head in sorted(heads.items()):
            offsets[shard] = len(content)
            content += _slot(shard, head.position_us, head.serial)
        try:
            replace_file(path, content, sync=False)
            with path.open("r+b") as file:
                found = mmap.mmap(file.fileno(), len(content))
        except OSError as error:
            raise TransientError(f"{path} cannot be written: {error.strerror}") from error
        self._offsets = offsets
        return found

    def add(self, heads: Mapping[int, Head]) -> None:
        """Shards that came while the log is open; those that are there move on. Requires: as `publish`."""
        known = _heads(self._map[:]) or {}
        before, self._map = self._map, self._make({**known, **heads})
        before.close()

    def publish(self, shard: int, position_us: int, serial: int) -> None:
        """Requires: everything up to there has its receipt."""
        check = (shard ^ position_us ^ serial ^ _SALT) & _MASK
        _SLOT.pack_into(self._map, self._offsets[shard], shard, position_us, serial, check)

    def close(self) -> None:
        self._map.close()


def read_heads(folder: Path) -> dict[int, Head]:
    """What the broker published last; a folder in which none ever ran has no heads, and that is an error."""
    path = folder / HEADS_NAME
    for _look in range(_LOOKS):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise PermanentError(
                f"{folder} is no data folder of a broker: the file {HEADS_NAME!r} is missing"
            ) from None
        except OSError as error:
            raise PermanentError(f"{path} cannot be read: {error.strerror}") from error
        if content[: len(_MAGIC)] != _MAGIC or (len(content) - _HEAD_BYTES) % _SLOT.size:
            raise PermanentError(f"{path} is damaged; start the broker, which writes it again")
        heads = _heads(content)
        if heads is not None:
            return heads
    raise TransientError(f"{path} has a slot that is half written; start the broker, which writes it again")


def _heads(content: bytes) -> dict[int, Head] | None:
    found: dict[int, Head] = {}
    for shard, position_us, serial, check in _SLOT.iter_unpack(content[_HEAD_BYTES:]):
        if (shard ^ position_us ^ serial ^ _SALT) & _MASK != check:
            return None
        found[shard] = Head(position_us, serial)
    return found


def _slot(shard: int, position_us: int, serial: int) -> bytes:
    return _SLOT.pack(shard, position_us, serial, (shard ^ position_us ^ serial ^ _SALT) & _MASK)
