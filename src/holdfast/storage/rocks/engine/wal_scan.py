"""Reads the frames of a WAL file or a MANIFEST, to find what RocksDB passes over in silence.

RocksDB checks every record's checksum but takes a run of zeros for space that was never used, skips to the next
block, and goes on; and it does not miss a WAL file that is gone. Both leave a gap in the sequence numbers, which
this finds. A MANIFEST of which a part became zeros looks like one that ends there. Only headers are read, so 128 MB
take a fraction of a second.

    file   = blocks of 32,768 bytes
    frame  = crc u32 | length u16 | type u8 | bytes          1 whole, 2 first, 3 middle, 4 last
    record = sequence u64 | count u32 | operations           over one or more frames
"""

import mmap
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_BLOCK_BYTES: Final = 32_768
_HEADER: Final = struct.Struct("<IHB")
_HEADER_BYTES: Final = 7
_START: Final = struct.Struct("<QI")
_WHOLE: Final = 1
_FIRST: Final = 2
_LAST: Final = 4


class Gap(NamedTuple):
    """Sequence numbers [lo, hi) that are missing between two records that are there."""

    file: Path
    #: Where the file has to end, so that the record before the gap is its last.
    end: int
    lo: int
    hi: int


def wal_files(database: Path) -> list[Path]:
    """The WAL files of a database, oldest first."""
    return sorted(database.glob("*.log"), key=lambda path: int(path.stem) if path.stem.isdigit() else 0)


def find_gap(files: Iterable[Path]) -> Gap | None:
    """Where the sequence numbers of these files, read in this order, first leave something out."""
    expected: int | None = None
    for path in files:
        end = 0
        for sequence, operations, record_end in _records(path):
            if expected is not None and sequence > expected:
                return Gap(path, end, expected, sequence)
            expected = sequence + operations
            end = record_end
    return None


def used_bytes(path: Path) -> int:
    """Where the frames of a file end: at zeros that RocksDB takes for space never used, or with the file."""
    content = path.read_bytes()
    at = 0
    while at + _HEADER_BYTES <= len(content):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(content, at)
        if not length and not kind:
            return at
        at += _HEADER_BYTES + length
    return len(content)


def _records(path: Path) -> Iterator[tuple[int, int, int]]:
    """(sequence, operations, end) of each record whose beginning can be read, up to its last good frame."""
    size = path.stat().st_size
    if not size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        beginning: bytes | None = None
        at = end = 0
        while at + _HEADER_BYTES <= size:
            left = _BLOCK_BYTES - at % _BLOCK_BYTES
            if left < _HEADER_BYTES:
                at += left
                continue
            _, length, kind = _HEADER.unpack_from(content, at)
            start = at + _HEADER_BYTES
            frame_end = start + length
            if not _WHOLE <= kind <= _LAST or _HEADER_BYTES + length > left or frame_end > size:
                # No frame: zeros, or a torn end. RocksDB goes on with the next block.
                at += left
                continue
            if kind == _WHOLE and length >= _START.size:
                # Most records, so they take the short way.
                if beginning is not None:
                    yield from _begun(beginning, end)
                    beginning = None
                sequence, operations = _START.unpack_from(content, start)
                yield sequence, operations, frame_end
            elif kind <= _FIRST:
                if beginning is not None:
                    yield from _begun(beginning, end)
                beginning = content[start : start + min(length, _START.size)]
            elif beginning is None:
                # The end of a record whose beginning is not there.
                at = frame_end
                continue
            elif at - end >= _HEADER_BYTES:
                # More than the unused rest of a block lies between: it belongs to another record.
                yield from _begun(beginning, end)
                beginning = None
                at = frame_end
                continue
            else:
                # A block may end inside the first bytes of a record: they go on in the next frame.
                beginning += content[start : start + min(length, _START.size)]
                if kind == _LAST:
                    yield from _begun(beginning, frame_end)
                    beginning = None
            at = end = frame_end
        if beginning is not None:
            yield from _begun(beginning, end)


def _begun(beginning: bytes, end: int) -> Iterator[tuple[int, int, int]]:
    """A record over several frames, if enough of it was there to know which one it is."""
    if len(beginning) >= _START.size:
        sequence, operations = _START.unpack_from(beginning)
        yield sequence, operations, end
