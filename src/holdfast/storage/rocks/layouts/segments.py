"""The segments of the layout `paged` in RocksDB: their keys, and one read of them.

    in the shard's family          0x02 | level u8 | bucket u8 | segment u64     index
                                   0x03 | segment u64                            directory
                                   0x03                                          mark: segments hold all up to here
    in the generation's own        0x04 | number u64 | page u16                  pages; page ffff is the map

*Segment* is the first position of a segment, *number* counts the segments of a family. Big-endian in keys.

1. A message at or below the mark is in exactly one segment, one above it in exactly one commit page.
2. Keys of pages only grow, and none is written twice: what RocksDB has flushed it need not write again.
3. Pages without a directory belong to no segment. They go with the generation.
"""

from collections import OrderedDict
from collections.abc import Iterator
from struct import Struct
from typing import Final, Generic, Protocol, TypeVar

from rocksdict import RdictIter

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.generations import Generation
from holdfast.records.pages.segment_index import (
    MAX_LEVELS,
    UNINDEXED_PAGES,
    Directory,
    PageMap,
    decode_directory,
    index_pages,
    token_bucket,
)
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.records.pages.segment_rows import SegmentRows
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, open_cursor
from holdfast.storage.rocks.layouts.layout import MARKS, POSTINGS, SEGMENTS
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, decode_mark
from holdfast.topics.filters import ONE, REST

_POSITION: Final = Struct(">Q")
_PAGE: Final = Struct(">QH")
_INDEX: Final = Struct(">BBQ")
_MAP: Final = 0xFFFF
_DIRECTORY_BYTES: Final = 9
#: Bytes of rows that are remembered, for readers that go on where they stopped.
_CACHE_BYTES: Final = 32 << 20
#: Maps and pages that are remembered, for single messages: at most some 4 MB.
_MAPS: Final = 16
_PAGES: Final = 48

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: The end of the keys of a shard's family, and of a family of segments. They outlive all cursors, see `open_cursor`.
_END: Final = SEGMENTS
_SEGMENTS_END: Final = b"\x05"


def page_key(number: int, page: int) -> bytes:
    return SEGMENTS + _PAGE.pack(number, page)


def map_key(number: int) -> bytes:
    return SEGMENTS + _PAGE.pack(number, _MAP)


def index_key(level: int, bucket: int, segment_us: int) -> bytes:
    return POSTINGS + _INDEX.pack(level, bucket, segment_us)


def directory_key(segment_us: int) -> bytes:
    return MARKS + _POSITION.pack(segment_us)


def last_number(segments: FamilyReader) -> int:
    """The number of the last segment in a family, also of one that was begun and has no directory; 0 if none."""
    cursor = open_cursor(segments, _SEGMENTS_END)
    cursor.seek_to_last()
    found = int(_PAGE.unpack_from(cursor.key(), 1)[0]) if cursor.valid() else 0
    check_end(cursor)
    return found


class FamilyLookup(Protocol):
    """Column families by name; a broker's database and a secondary fit by shape."""

    def family(self, name: str) -> FamilyReader: ...


class _Newest(Generic[_Key, _Value]):
    """The values that were used last, at most so many."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._values: Final[OrderedDict[_Key, _Value]] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: _Key, value: _Value) -> _Value:
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        self._values.clear()


class RowsCache:
    """Rows of segments that were read last, by family, segment and filter. `size_bytes` is at most the limit, unless a
    single entry is larger.
    """

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._rows: Final[OrderedDict[tuple[str, int, tuple[bytes, ...]], SegmentRows]] = OrderedDict()
        self.size_bytes = 0
        #: Of segments in which single messages were looked up: a session has many in flight. By family and number.
        self.maps: Final[_Newest[tuple[str, int], PageMap]] = _Newest(_MAPS)
        self.pages: Final[_Newest[tuple[str, int, int], SegmentPage]] = _Newest(_PAGES)

    def get(self, key: tuple[str, int, tuple[bytes, ...]]) -> SegmentRows | None:
        found = self._rows.get(key)
        if found is not None:
            self._rows.move_to_end(key)
        return found

    def clear(self) -> None:
        self._rows.clear()
        self.size_bytes = 0
        self.maps.clear()
        self.pages.clear()

    def put(self, key: tuple[str, int, tuple[bytes, ...]], rows: SegmentRows) -> None:
        old = self._rows.pop(key, None)
        if old is not None:  # of a reader that came to it at the same time
            self.size_bytes -= old.size_bytes
        self._rows[key] = rows
        self.size_bytes += rows.size_bytes
        while self.size_bytes > self._max_bytes and len(self._rows) > 1:
            self.size_bytes -= self._rows.popitem(last=False)[1].size_bytes


class SegmentFamilies:
    """The families of segments of one database, and the rows that were read last."""

    def __init__(self, families: FamilyLookup) -> None:
        self._families: Final = families
        self._rows: Final = RowsCache()

    def forget(self) -> None:
        """Remember no rows: the next reader begins as the first one did."""
        self._rows.clear()

    def of(self, record: Generation) -> "SegmentFamily":
        return SegmentFamily(self._families, record.segments_family(), self._rows)


class SegmentFamily:
    """The family with the pages of one generation. It is made with its first segment."""

    def __init__(self, families: FamilyLookup, name: str, rows: RowsCache) -> None:
        self._families: Final = families
        self.name: Final = name
        self.rows: Final = rows

    def open(self) -> FamilyReader:
        """Requires: there is a segment. PermanentError if the family is gone: a repair may have given up its tables."""
        try:
            return self._families.family(self.name)
        except MisuseError as missing:
            raise PermanentError(f"the family of segments {self.name} is missing; run: holdfast verify") from missing


def open_shard(family: FamilyReader) -> tuple[RdictIter, int]:
    """A cursor over all of a shard's family, and its mark."""
    cursor = open_cursor(family, _END)
    cursor.seek(MARKS)
    if cursor.valid() and cursor.key() == MARKS:
        return cursor, decode_mark(cursor.value())
    check_end(cursor)
    return cursor, NOTHING_INDEXED


class SegmentReader:
    """Directories, index and pages of a shard's segments, in one state: that of its making."""

    def __init__(self, family: FamilyReader, segments: FamilyReader) -> None:
        self._directories: Final = open_cursor(family, _END)
        self._index: Final = open_cursor(family, _END)
        #: Where `_index` stands.
        self._index_at = b""
        self._pages: Final = open_cursor(segments, _SEGMENTS_END)
        #: The segment and the page behind the one that `_pages` stands at.
        self._next_page = (-1, -1)

    def directories(self, lo_us: int, hi_us: int) -> Iterator[Directory]:
        """Of the segments with messages of [lo, hi), in the order of time."""
        cursor = self._directories
        # The segment that `lo` lies in begins before it.
        cursor.seek_for_prev(directory_key(lo_us))
        if not cursor.valid() or cursor.key()[:1] != MARKS or len(cursor.key()) != _DIRECTORY_BYTES:
            check_end(cursor)
            cursor.seek(directory_key(0))
        while cursor.valid():
            segment_us = int(_POSITION.unpack_from(cursor.key(), 1)[0])
            if segment_us >= hi_us:
                return
            found = decode_directory(segment_us, cursor.value())
            cursor.next()
            if found.last_us >= lo_us:
                yield found
        check_end(cursor)

    def directories_back(self, lo_us: int, hi_us: int) -> Iterator[Directory]:
        """The same, the newest first."""
        cursor = self._directories
        cursor.seek_for_prev(directory_key(hi_us - 1))
        while cursor.valid() and cursor.key()[:1] == MARKS and len(cursor.key()) == _DIRECTORY_BYTES:
            found = decode_directory(int(_POSITION.unpack_from(cursor.key(), 1)[0]), cursor.value())
            if found.last_us < lo_us:
                return
            cursor.prev()
            yield found
        check_end(cursor)

    def last_small(self, count: int, max_messages: int, max_serials: int) -> list[Directory]:
        """The last segments of a shard, as far as they have no index: at most `count`, with so many messages and
        serials in all.
        """
        cursor = self._directories
        cursor.seek_for_prev(_END)
        found: list[Directory] = []
        messages = 0
        while len(found) < count and cursor.valid() and len(cursor.key()) == _DIRECTORY_BYTES:
            directory = decode_directory(int(_POSITION.unpack_from(cursor.key(), 1)[0]), cursor.value())
            last = found[0] if found else directory
            messages += directory.messages
            serials = last.first_serial + last.serials - directory.first_serial
            if directory.pages > UNINDEXED_PAGES or messages > max_messages or serials > max_serials:
                break
            found.append(directory)
            cursor.prev()
        check_end(cursor)
        found.reverse()
        return found

    def matching_pages(self, directory: Directory, levels: tuple[bytes, ...]) -> list[int]:
        """The pages that may hold a match of a filter, by the index of its rarest token."""
        if directory.pages <= UNINDEXED_PAGES:
            return list(range(directory.pages))
        best = -1
        for level, token in enumerate(levels[:MAX_LEVELS]):
            if token in (ONE, REST):
                continue
            if level >= len(directory.tokens):
                return []  # no topic has so many levels
            tokens = directory.tokens[level]
            if tokens > 1 and (best < 0 or tokens > directory.tokens[best]):
                best = level
        if best < 0:
            return list(range(directory.pages))
        return self.pages_of(directory, best, levels[best])

    def pages_of(self, directory: Directory, level: int, token: bytes) -> list[int]:
        """The pages of an indexed segment that may have a token at a level."""
        if directory.tokens[level] == 1:
            return list(range(directory.pages))
        entries = self._entries(index_key(level, token_bucket(token), directory.first_us))
        return [page for first, last in index_pages(entries, token) for page in range(first, last + 1)]

    def _entries(self, key: bytes) -> bytes:
        cursor = self._index
        if self._index_at != key:
            # Segments are read in the order of time: the next key often is the one.
            if self._index_at and self._index_at < key:
                cursor.next()
                self._index_at = self._index_key()
            if self._index_at != key:
                cursor.seek(key)
                self._index_at = self._index_key()
        return bytes(cursor.value()) if self._index_at == key else b""

    def _index_key(self) -> bytes:
        """Where the cursor of the index stands; empty at the end."""
        if self._index.valid():
            return bytes(self._index.key())
        check_end(self._index)
        return b""

    def page(self, directory: Directory, number: int) -> SegmentPage:
        follows = self._next_page == (directory.number, number)
        value = self._value(page_key(directory.number, number), f"page {number}", directory, follows=follows)
        self._next_page = (directory.number, number + 1)
        page = SegmentPage(value)
        if page.first_us != directory.first_us or page.first_serial != directory.first_serial:
            raise PermanentError(f"page {number} of the segment from {directory.first_us} on belongs to another")
        return page

    def page_map(self, directory: Directory) -> PageMap:
        return PageMap(self._value(map_key(directory.number), "the map", directory), directory.pages)

    def _value(self, key: bytes, what: str, directory: Directory, *, follows: bool = False) -> bytes:
        cursor = self._pages
        self._next_page = (-1, -1)
        if follows:
            cursor.next()  # RocksDB reads ahead for those who go on
        else:
            cursor.seek(key)
        if not cursor.valid() or cursor.key() != key:
            check_end(cursor)
            raise PermanentError(f"{what} of the segment from position {directory.first_us} on is missing")
        return bytes(cursor.value())
