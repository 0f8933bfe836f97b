"""Cleans a database of the range tombstones that earlier versions wrote by the thousand.

RocksDB splits overlapping range tombstones into fragments when it turns a WAL into tables. With nested ones the cost is
quadratic: 3,000 took 4 s and 1.1 GB, 10,000 a minute and 7.4 GB. So a WAL with many of them is thinned before RocksDB
reads it, and tables that hold many are compacted once they are open.

A range tombstone is covered if a later one has the same column family and first key, and ends no earlier. What it
deletes, the later one deletes too, so it may become anything that the later one deletes: its tag byte is changed, and
it is a put of the range's first key. Nothing moves, and sequence numbers stay.

    operation = tag u8 | family varint | first key | end key      tag 0E: range tombstone; 05: a put, of the same shape
    keys and values = length varint | bytes; frames and records as in `wal_scan.py`
"""

import mmap
import re
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from rocksdict import BottommostLevelCompaction, CompactOptions, Rdict

from holdfast.files.replacement import replace_file, sync_path
from holdfast.storage.rocks.engine.wal_scan import wal_files

_log = structlog.get_logger()

#: Fewer are left to RocksDB: a hundred nested ones cost a few milliseconds.
FEW: Final = 100
_BLOCK_BYTES: Final = 32_768
_HEADER: Final = struct.Struct("<IHB")
_HEADER_BYTES: Final = 7
_START_BYTES: Final = 12
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_PUT: Final = 0x05
_RANGE: Final = 0x0E
#: Operations by tag: whether they name a column family, and how many keys and values they have.
_SHAPES: Final = {
    0x00: (False, 1),
    0x01: (False, 2),
    0x02: (False, 2),
    0x03: (False, 1),
    0x04: (True, 1),
    0x05: (True, 2),
    0x06: (True, 2),
    0x07: (False, 1),
    0x08: (True, 1),
    0x0E: (True, 2),
    0x0F: (False, 2),
}
#: What a range tombstone of a session looks like: tag, family, length of the key, the key's own tag, and the length of
#: a client id below 256. Random payloads look like it four times in 128 MB.
#: The deletion of commit pages has two keys of nine bytes, a tag and a position, and so has that of the packets of a
#: session with a client id of five bytes: these end with 02 and 0a (`session_keys.packet_range`).
_COMMIT_PAGES: Final = rb"\x09\x01\x00.{6}(?!\x02\x09.{8}\x0a).\x09\x01\x00"
_CANDIDATE: Final = re.compile(
    rb"\x0e[\x01-\x7f](?!" + _COMMIT_PAGES + rb")(?:[\x04-\x7f]|[\x80-\xff][\x01\x02])\x01\x00", re.DOTALL
)
_RANGE_DELETIONS: Final = re.compile(r"# range deletions=(\d+)")


class _Frame(NamedTuple):
    """A piece of a record: where its header and its bytes are in the file, and where they are in the record."""

    header_at: int
    length: int
    record_at: int


class _Tombstone(NamedTuple):
    family: int
    first: bytes
    end: bytes
    #: The frame with its tag, and where the tag is in the file.
    header_at: int
    tag_at: int


def thin_wal(database: Path) -> int:
    """Take covered range tombstones out of the WAL, if it has many; how many that were.

    Requires: no process has the database open. Ensures: a replay of the WAL gives the same keys. Survives: a kill or a
    power loss at any moment, because a file is replaced as a whole, and what covers is on disk before.
    """
    files = [path for path in wal_files(database) if path.stat().st_size]
    if sum(_candidates(path) for path in files) < FEW:
        return 0
    _log.info("reading the WAL for range tombstones of an earlier version", files=len(files))
    found: list[tuple[Path, _Tombstone]] = []
    for path in files:
        records = list(_records(path.read_bytes()))
        found += [(path, tombstone) for record, frames in records for tombstone in _tombstones(record, frames)]
        if records and not records[-1][1]:
            break  # what lies behind damage may never be replayed
    covered = _covered(found)
    for path in files if covered else []:
        sync_path(path)
    for path, tombstones in covered.items():
        _rewrite(path, tombstones)
    thinned = sum(map(len, covered.values()))
    _log.info("took covered range tombstones out of the WAL", covered=thinned, left=len(found) - thinned)
    return thinned


def compact_tombstones(name: str, family: Rdict) -> None:
    """Rewrite the tables of a family that hold many range tombstones."""
    count = range_tombstones(family)
    if count < FEW:
        return
    _log.info("compacting tables with range tombstones of an earlier version", family=name, range_tombstones=count)
    options = CompactOptions()
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
    family.compact_range(None, None, options)
    _log.info("compacted tables with range tombstones", family=name, range_tombstones=range_tombstones(family))


def range_tombstones(family: Rdict) -> int:
    """How many the tables of a family hold."""
    found = _RANGE_DELETIONS.search(family.property_value("rocksdb.aggregated-table-properties") or "")
    return int(found.group(1)) if found else 0


def _candidates(path: Path) -> int:
    """Up to FEW places that may be range tombstones. Quick, because every start does it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return sum(1 for _match in islice(_CANDIDATE.finditer(content), FEW))


def _covered(found: list[tuple[Path, _Tombstone]]) -> dict[Path, list[_Tombstone]]:
    covered: dict[Path, list[_Tombstone]] = {}
    ends: dict[tuple[int, bytes], bytes] = {}
    for path, tombstone in reversed(found):
        place = (tombstone.family, tombstone.first)
        if place in ends and ends[place] >= tombstone.end:
            covered.setdefault(path, []).append(tombstone)
        else:
            ends[place] = tombstone.end
    return covered


def _rewrite(path: Path, tombstones: list[_Tombstone]) -> None:
    content = bytearray(path.read_bytes())
    changed = set()
    for tombstone in tombstones:
        content[tombstone.tag_at] = _PUT
        changed.add(tombstone.header_at)
    for at in changed:
        _crc, length, _kind = _HEADER.unpack_from(content, at)
        struct.pack_into("<I", content, at, _masked(crc32c(content[at + 6 : at + _HEADER_BYTES + length])))
    replace_file(path, content)


def _records(content: bytes) -> Iterator[tuple[bytes, list[_Frame]]]:
    """Every record with its frames; an empty one without frames in place of the first that is torn or damaged."""
    parts: list[bytes] = []
    frames: list[_Frame] = []
    at = record_at = 0
    while at + _HEADER_BYTES <= len(content):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            at += left
            continue
        crc, length, kind = _HEADER.unpack_from(content, at)
        body = content[at + _HEADER_BYTES : at + _HEADER_BYTES + length]
        fits = _HEADER_BYTES + length <= left and len(body) == length
        follows = bool(frames) == (kind in (_MIDDLE, _LAST))
        if not fits or not follows or not _WHOLE <= kind <= _LAST or crc != _masked(crc32c(bytes((kind,)) + body)):
            yield b"", []
            return
        frames.append(_Frame(at, length, record_at))
        parts.append(body)
        record_at += length
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts), frames
            parts, frames, record_at = [], [], 0
        at += _HEADER_BYTES + length
    if frames:
        yield b"", []


def _tombstones(record: bytes, frames: list[_Frame]) -> Iterator[_Tombstone]:
    at = _START_BYTES
    while at < len(record):
        tag_at, tag = at, record[at]
        shape = _SHAPES.get(tag)
        if shape is None:
            return  # an operation that Holdfast does not write
        has_family, strings = shape
        family, at = _varint(record, at + 1) if has_family else (0, at + 1)
        values: list[bytes] = []
        for _string in range(strings):
            length, at = _varint(record, at)
            values.append(record[at : at + length])
            at += length
        if tag == _RANGE:
            frame = next(frame for frame in reversed(frames) if frame.record_at <= tag_at)
            place = frame.header_at + _HEADER_BYTES + tag_at - frame.record_at
            yield _Tombstone(family, values[0], values[1], frame.header_at, place)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# ---- the checksum of frames: CRC-32C, masked so that a checksum of checksums is no weak one


def _table() -> list[int]:
    table: list[int] = []
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE: Final = _table()


def crc32c(content: bytes | bytearray) -> int:
    table = _TABLE
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
