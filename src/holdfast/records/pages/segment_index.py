"""What leads to the pages of a segment: its directory, the index of its tokens, and the map of its positions.

    directory     0 version u8 = 1 | 1 number u64, of the segment in its family | 9 messages u32 | 13 pages u16
                 15 first serial u64 | 23 serials u32, from the first message to the last | 27 last position i64
                 35 levels, l, u8: at most 16 | 36 different tokens at each level, u32 x l

    index         for a level and a bucket of fingerprints entries of 8 bytes, ascending:
                  fingerprint u32 | first page u16 | last page u16

    map           0 version u8 = 1 | 1 serials u32, as above | 5 runs, r, u32
                  9 for each run: its position after the segment's first i64, its rank u32
                  then for each rank its page, u8, or u16 if there are more than 255 pages; all bits set for a message
                  that was left out

A fingerprint is the CRC-32 of a token, its bucket the upper 6 bits. A rank is a serial after the segment's first, a run
is a stretch of messages whose positions and ranks both follow each other. Numbers are little-endian.

1. These bytes never change. A new version is a new module, and this one stays to read what is there.
2. A token has at most 8 entries at a level, so its ranges may cover pages without it. A level with one token has none.
3. A segment of at most 8 pages has no index: it is read whole.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from librt.strings import BytesWriter, read_i16_le, read_i32_le, read_i64_le, write_i16_le, write_i32_le
from librt.vecs import vec
from mypy_extensions import i32, i64

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.pages.page_columns import signed16, signed32

#: Never change.
MAP_VERSION: Final = 1
DIRECTORY_VERSION: Final = 1
#: Levels that are indexed. Never change.
MAX_LEVELS: Final = 16
_BUCKET_SHIFT: Final = 26
#: Segments of so few pages have no index. Never change.
UNINDEXED_PAGES: Final = 8
#: Entries of a token at a level.
_MAX_RUNS: Final = 8
#: Pages have numbers of 16 bits, and the last ones mean other things.
MAX_PAGES: Final = 65_534
_U8_PAGES: Final = 255
_LEFT_OUT_U8: Final = 0xFF
_LEFT_OUT_U16: Final = 0xFFFF
_LEFT_OUT: Final = b"\xff"
_U32: Final = 0xFFFF_FFFF

_MAP_HEAD: Final = Struct("<BII")
_RUN: Final = Struct("<qI")
_DIRECTORY: Final = Struct("<BQIHQIqB")
_ENTRY_BYTES: Final = 8
_SLASH: Final = b"/"


class Directory:
    """What a segment has."""

    def __init__(
        self,
        first_us: int,
        number: int,
        messages: int,
        pages: int,
        first_serial: int,
        serials: int,
        last_us: int,
        tokens: list[int],
    ) -> None:
        self.first_us: Final = first_us
        #: Of the segment in its family; 0 until it is stored.
        self.number = number
        self.messages: Final = messages
        self.pages: Final = pages
        self.first_serial: Final = first_serial
        #: From the first message to the last.
        self.serials: Final = serials
        self.last_us: Final = last_us
        #: Different tokens of each level.
        self.tokens: Final = tokens


def encode_directory(directory: Directory) -> bytes:
    head = _DIRECTORY.pack(
        DIRECTORY_VERSION,
        directory.number,
        directory.messages,
        directory.pages,
        directory.first_serial,
        directory.serials,
        directory.last_us,
        len(directory.tokens),
    )
    tokens = BytesWriter()
    for count in directory.tokens:
        write_i32_le(tokens, count)
    return head + tokens.getvalue()


def decode_directory(first_us: int, value: bytes) -> Directory:
    """`first_us` is the segment's first position, from the key."""
    if len(value) < _DIRECTORY.size:
        raise PermanentError(f"the directory of a segment has {len(value)} bytes, its head alone has {_DIRECTORY.size}")
    # Every reader goes through all directories: to unpack them as a structure takes four times as long.
    if value[0] != DIRECTORY_VERSION:
        raise PermanentError(f"the directory of a segment has version {value[0]}, this Holdfast reads version 1")
    number, first_serial = _unsigned64(value, 1), _unsigned64(value, 15)
    messages, serials = int(read_i32_le(value, 9)) & _U32, int(read_i32_le(value, 23)) & _U32
    pages, levels = int(read_i16_le(value, 13)) & 0xFFFF, value[35]
    last_us = int(read_i64_le(value, 27))
    if len(value) != _DIRECTORY.size + 4 * levels or levels > MAX_LEVELS:
        raise PermanentError(f"the directory of a segment has {len(value)} bytes and {levels} levels")
    if not first_us <= last_us or not 0 < messages <= serials or not 0 < pages <= MAX_PAGES:
        raise PermanentError(f"the directory of a segment says {messages} messages of {serials}, {pages} pages")
    tokens = [int(read_i32_le(value, _DIRECTORY.size + 4 * level)) & _U32 for level in range(levels)]
    return Directory(first_us, number, messages, pages, first_serial, serials, last_us, tokens)


def _unsigned64(value: bytes, at: int) -> int:
    found = int(read_i64_le(value, at))
    return found if found >= 0 else found + (1 << 64)


def token_bucket(token: bytes) -> int:
    """The bucket of a token's fingerprint."""
    return crc32(token) >> _BUCKET_SHIFT


def index_pages(entries: bytes, token: bytes) -> list[tuple[int, int]]:
    """First and last pages that may have a token, by the entries of its bucket; none if there are no entries."""
    if len(entries) % _ENTRY_BYTES:
        raise PermanentError(f"the index of a segment has {len(entries)} bytes in a bucket, which is no whole entry")
    fingerprint = crc32(token)
    low, high = 0, len(entries) // _ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if int(read_i32_le(entries, middle * _ENTRY_BYTES)) & _U32 < fingerprint:
            low = middle + 1
        else:
            high = middle
    found: list[tuple[int, int]] = []
    at = low * _ENTRY_BYTES
    while at < len(entries) and int(read_i32_le(entries, at)) & _U32 == fingerprint:
        first = int(read_i16_le(entries, at + 4)) & 0xFFFF
        last = int(read_i16_le(entries, at + 6)) & 0xFFFF
        if first > last:
            raise PermanentError(f"the index of a segment has pages {first} to {last} for a token")
        found.append((first, last))
        at += _ENTRY_BYTES
    return found


class TokenPages:
    """Which pages have which token, level by level. Topics come in their order, so pages only grow."""

    def __init__(self) -> None:
        #: By level and fingerprint: first page, last page, first page, …
        self._levels: Final[list[dict[int, list[int]]]] = []
        #: The tokens of the topic before, and the page that it ended on.
        self._before: list[bytes] = []
        self._before_page = -1
        #: All of it up to its last level, and the number of that; -1 if it is none that is indexed.
        self._parent = b""
        self._leaf_level = -1

    def add(self, topic: bytes, first_page: int, last_page: int) -> None:
        # What a topic shares with the one before is noted already, if that ended on the same page.
        if last_page == self._before_page and self._leaf_level >= 0:
            size = len(self._parent)
            leaf = topic[size:]
            if topic[:size] == self._parent and _SLASH not in leaf:
                _note_pages(self._levels[self._leaf_level], crc32(leaf), first_page, last_page)
                return
        tokens = topic.split(_SLASH, MAX_LEVELS)
        self._parent = topic[: len(topic) - len(tokens[-1])]
        self._leaf_level = len(tokens) - 1 if len(tokens) <= MAX_LEVELS else -1
        self._add_tokens(tokens[:MAX_LEVELS], first_page, last_page)

    def _add_tokens(self, tokens: list[bytes], first_page: int, last_page: int) -> None:
        shared = 0
        if last_page == self._before_page:
            before = self._before
            while shared < len(tokens) and shared < len(before) and tokens[shared] == before[shared]:
                shared += 1
        for level in range(shared, len(tokens)):
            if level == len(self._levels):
                self._levels.append({})
            _note_pages(self._levels[level], crc32(tokens[level]), first_page, last_page)
        self._before, self._before_page = tokens, last_page

    def counts(self) -> list[int]:
        return [len(pages) for pages in self._levels]

    def entries(self) -> list[tuple[int, int, bytes]]:
        """Level, bucket and entries."""
        found: list[tuple[int, int, bytes]] = []
        for level, pages in enumerate(self._levels):
            if len(pages) == 1:
                continue
            buckets: dict[int, BytesWriter] = {}
            for fingerprint in sorted(pages):
                bucket = fingerprint >> _BUCKET_SHIFT
                column = buckets.get(bucket)
                if column is None:
                    column = buckets[bucket] = BytesWriter()
                runs = _closed_gaps(pages[fingerprint])
                for number in range(0, len(runs), 2):
                    write_i32_le(column, signed32(fingerprint))
                    write_i16_le(column, signed16(runs[number]))
                    write_i16_le(column, signed16(runs[number + 1]))
            found.extend([(level, bucket, column.getvalue()) for bucket, column in buckets.items()])
        return found


def _note_pages(pages: dict[int, list[int]], fingerprint: int, first_page: int, last_page: int) -> None:
    runs = pages.get(fingerprint)
    if runs is None:
        pages[fingerprint] = [first_page, last_page]
    elif first_page <= runs[-1] + 1:
        runs[-1] = last_page
    else:
        runs.append(first_page)
        runs.append(last_page)


def _closed_gaps(runs: list[int]) -> list[int]:
    """At most _MAX_RUNS runs: the smallest gaps are closed."""
    surplus = len(runs) // 2 - _MAX_RUNS
    if surplus <= 0:
        return runs
    gaps = sorted([(runs[number + 1] - runs[number], number) for number in range(1, len(runs) - 1, 2)])
    closed = {number for _gap, number in gaps[:surplus]}
    kept = [runs[0]]
    for number in range(1, len(runs) - 1, 2):
        if number not in closed:
            kept.append(runs[number])
            kept.append(runs[number + 1])
    kept.append(runs[-1])
    return kept


def encode_map(messages: list[Message], ranks: vec[i64], page_of: vec[i32], pages: int) -> bytes:
    """The map of messages in the order of time, each with its rank and its page."""
    runs: list[bytes] = []
    column = BytesWriter()
    width = 1 if pages <= _U8_PAGES else 2
    first_us = messages[0].position_us
    next_us, next_rank = -1, 0
    for row, message in enumerate(messages):
        position_us, rank, page = message.position_us, int(ranks[row]), int(page_of[row])
        if position_us != next_us or rank != next_rank:
            runs.append(_RUN.pack(position_us - first_us, rank))
        if rank > next_rank:
            column.write(_LEFT_OUT * (width * (rank - next_rank)))
        if width == 1:
            column.append(page)
        else:
            write_i16_le(column, signed16(page))
        next_us, next_rank = position_us + 1, rank + 1
    return b"".join([_MAP_HEAD.pack(MAP_VERSION, next_rank, len(runs)), *runs, column.getvalue()])


class PageMap:
    """Which page of a segment has the message at a position."""

    def __init__(self, value: bytes, pages: int) -> None:
        if len(value) < _MAP_HEAD.size:
            raise PermanentError(f"the map of a segment has {len(value)} bytes")
        version, serials, runs = _MAP_HEAD.unpack_from(value)
        if version != MAP_VERSION:
            raise PermanentError(f"the map of a segment has version {version}, this Holdfast reads version 1")
        self._value: Final = value
        self._runs: Final[int] = runs
        self._pages_at: Final[int] = _MAP_HEAD.size + _RUN.size * runs
        self._small: Final = pages <= _U8_PAGES
        self.serials: Final[int] = serials
        right = self._pages_at + (1 if self._small else 2) * serials
        if right != len(value) or not runs:
            raise PermanentError(f"the map of a segment has {len(value)} bytes, {runs} runs and {serials} serials")

    def page_at(self, after_us: int) -> int:
        """The page with the message at a position after the segment's first; -1 if there is none."""
        run = self._runs_until(after_us) - 1
        if run < 0:
            return -1
        rank = self._run_rank(run) + after_us - self._run_us(run)
        return self.page_of(rank) if rank < self._run_rank(run + 1) else -1

    def last_before(self, after_us: int) -> tuple[int, int]:
        """Position after the segment's first, and rank, of the last message before a position; -1 if there is none."""
        run = self._runs_until(after_us - 1) - 1
        if run < 0:
            return -1, -1
        first_us, first_rank = self._run_us(run), self._run_rank(run)
        rank = min(first_rank + after_us - 1 - first_us, self._run_rank(run + 1) - 1)
        while self.page_of(rank) < 0:  # what was left out lies behind the messages of a run
            rank -= 1
        return first_us + rank - first_rank, rank

    def position_of(self, rank: int) -> int:
        """The position of a message after the segment's first; -1 if it was left out."""
        if self.page_of(rank) < 0:
            return -1
        low, high = 0, self._runs
        while low < high:
            middle = (low + high) // 2
            if self._run_rank(middle) <= rank:
                low = middle + 1
            else:
                high = middle
        if not low:
            raise PermanentError(f"the map of a segment begins behind rank {rank}")
        return self._run_us(low - 1) + rank - self._run_rank(low - 1)

    def _runs_until(self, after_us: int) -> int:
        """How many runs begin at or before a position."""
        low, high = 0, self._runs
        while low < high:
            middle = (low + high) // 2
            if self._run_us(middle) <= after_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _run_us(self, run: int) -> int:
        return int(read_i64_le(self._value, _MAP_HEAD.size + _RUN.size * run))

    def _run_rank(self, run: int) -> int:
        """Of the first message of a run; of the one behind the last run, the number of serials."""
        if run == self._runs:
            return self.serials
        return int(read_i32_le(self._value, _MAP_HEAD.size + _RUN.size * run + 8)) & _U32

    def page_of(self, rank: int) -> int:
        """The page of a message; -1 if it was left out."""
        if not 0 <= rank < self.serials:
            raise PermanentError(f"the map of a segment leads to rank {rank} of {self.serials}")
        if self._small:
            page = self._value[self._pages_at + rank]
            return -1 if page == _LEFT_OUT_U8 else page
        wide = int(read_i16_le(self._value, self._pages_at + 2 * rank)) & 0xFFFF
        return -1 if wide == _LEFT_OUT_U16 else wide
