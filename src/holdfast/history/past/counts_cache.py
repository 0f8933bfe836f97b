"""A cache of what was counted in sealed generations: the positions of all messages that a filter matches.

    cache/counts/<family>.<hash of what is counted>          may be removed at any time, one file or all

    file      magic 8s `HFCOUNT1` | check u32, CRC-32 of all behind it | name u16 bytes, then they
              | blocks u32, then each
    block     lo i64 | hi i64 | positions u32 | width u8: 4 or 8 | bytes u32, then they

A block holds the positions of [lo, hi): the first after lo, then each after the one before, in numbers of `width`
bytes, as one zlib stream. The messages of a commit follow each other, so most numbers are small, and a filter costs
less than a byte for each message of the log. Positions answer every question, whatever its borders are.

1. A sealed generation does not change, and its column family has a unique name; so an entry is right for good.
2. What cannot be read, or has a wrong check, is not there. What cannot be written is not kept. No error leaves here.
3. All files together have at most 64 MB: those that were used least recently go.
"""

import os
import sys
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import accumulate
from operator import sub
from pathlib import Path
from struct import Struct, error
from typing import Final

from holdfast.files.private import FILE_MODE, FOLDER_MODE
from holdfast.files.replacement import is_temporary, replace_file

FOLDER: Final = Path("cache") / "counts"
MAX_BYTES: Final = 64 << 20
_MAGIC: Final = b"HFCOUNT1"
_CHECK: Final = Struct("<I")
_NAME: Final = Struct("<H")
_BLOCKS: Final = Struct("<I")
_BLOCK: Final = Struct("<qqIBI")
_TYPES: Final = {4: "I", 8: "Q"}
_MAX_U32: Final = 2**32 - 1

#: A range of positions.
Range = tuple[int, int]


class Positions:
    """Positions of a range in increasing order, packed."""

    def __init__(self, lo_us: int, count: int, width: int, packed: bytes) -> None:
        self._lo_us: Final = lo_us
        self.count: Final = count
        self._width: Final = width
        self._packed: Final = packed

    @classmethod
    def pack(cls, lo_us: int, positions: Sequence[int]) -> "Positions":
        """Requires: they increase, and none is below `lo_us`."""
        steps = list(map(sub, positions, [lo_us, *positions[:-1]]))
        width = 4 if max(steps, default=0) <= _MAX_U32 else 8
        return cls(lo_us, len(steps), width, zlib.compress(_little(array(_TYPES[width], steps)).tobytes(), 1))

    def unpack(self) -> list[int]:
        steps = array(_TYPES[self._width])
        steps.frombytes(zlib.decompress(self._packed))
        return list(accumulate(_little(steps), initial=self._lo_us))[1:]

    def encode(self, hi_us: int) -> bytes:
        head = _BLOCK.pack(self._lo_us, hi_us, self.count, self._width, len(self._packed))
        return head + self._packed


class CountsCache:
    """The cache of a data folder."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder: Final = folder / FOLDER
        self._max_bytes: Final = max_bytes

    def load(self, family: str, name: bytes) -> dict[Range, Positions]:
        """What is known of a family, by range."""
        path = self._path(family, name)
        try:
            found = _decode(path.read_bytes(), name)
            os.utime(path)
        except (OSError, ValueError, error, zlib.error):
            return {}
        return found

    def save(self, family: str, name: bytes, blocks: dict[Range, Positions]) -> None:
        """Keep this in the place of what was known."""
        body = [_NAME.pack(len(name)), name, _BLOCKS.pack(len(blocks))]
        body += [positions.encode(hi_us) for (_lo_us, hi_us), positions in sorted(blocks.items())]
        content = b"".join(body)
        if len(content) > self._max_bytes // 4:
            return
        with suppress(OSError):
            self._folder.parent.mkdir(FOLDER_MODE, exist_ok=True)
            self._folder.mkdir(FOLDER_MODE, exist_ok=True)
            replaced = _MAGIC + _CHECK.pack(zlib.crc32(content)) + content
            replace_file(self._path(family, name), replaced, mode=FILE_MODE, sync=False)
            self._make_room()

    def _make_room(self) -> None:
        files = sorted((found.stat().st_mtime_ns, found) for found in self._folder.iterdir() if not is_temporary(found))
        size_bytes = sum(found.stat().st_size for _used_ns, found in files)
        for _used_ns, found in files:
            if size_bytes <= self._max_bytes:
                return
            size_bytes -= found.stat().st_size
            found.unlink(missing_ok=True)

    def _path(self, family: str, name: bytes) -> Path:
        return self._folder / f"{family}.{blake2b(name, digest_size=12).hexdigest()}"


def _decode(content: bytes, name: bytes) -> dict[Range, Positions]:
    """ValueError or struct.error if it is not what `save` wrote under this name."""
    start = len(_MAGIC) + _CHECK.size
    if content[: len(_MAGIC)] != _MAGIC or _CHECK.unpack_from(content, len(_MAGIC))[0] != zlib.crc32(content[start:]):
        raise ValueError("it is damaged")
    (size,) = _NAME.unpack_from(content, start)
    at = start + _NAME.size + size
    if content[start + _NAME.size : at] != name:
        raise ValueError("it is about something else")
    (count,) = _BLOCKS.unpack_from(content, at)
    at += _BLOCKS.size
    found: dict[Range, Positions] = {}
    for _block in range(count):
        lo_us, hi_us, messages, width, size = _BLOCK.unpack_from(content, at)
        at += _BLOCK.size
        if width not in _TYPES or at + size > len(content):
            raise ValueError("a block is no block")
        found[lo_us, hi_us] = Positions(lo_us, messages, width, content[at : at + size])
        at += size
    return found


def _little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
