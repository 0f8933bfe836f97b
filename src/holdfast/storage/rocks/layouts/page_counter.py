"""Counts the messages of the layout `paged`: segments have maps and columns, commit pages know where they begin.

Up to the mark a serial is found in the map of a segment, and positions in the columns of the pages that its index
names. Behind it commit pages are looked at, one after the other. No message is decoded.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from struct import unpack_from
from typing import Final

from holdfast.durable.log import NO_END
from holdfast.durable.tails import POSITION
from holdfast.model.errors import PermanentError
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.page_columns import HAS_POSITIONS, HEADER_BYTES
from holdfast.records.pages.segment_index import Directory, PageMap
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.paged import PagedLayout, commit_values
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED
from holdfast.storage.rocks.layouts.segments import open_shard
from holdfast.storage.rocks.layouts.shard_counter import Place, ShardCounter, Wanted
from holdfast.topics.filters import REST

#: Maps of segments that are remembered: borders come in the order of time.
_MAPS: Final = 8
_DOLLAR: Final = b"$"
_pack: Final = POSITION.pack


class PagedCounter(ShardCounter):
    """Counts by maps and columns of segments, and by the headers of commit pages behind them."""

    marks_help = False

    def __init__(self, layout: PagedLayout, family: FamilyReader) -> None:
        super().__init__(layout, family)
        self._cursor, self._mark_us = open_shard(family)
        has_segments = self._mark_us != NOTHING_INDEXED
        self._reader: Final = layout.segments_in(family) if has_segments else None
        self._directories: Final = [] if self._reader is None else list(self._reader.directories(0, NO_END))
        self._first_us: Final = [directory.first_us for directory in self._directories]
        self._maps: Final[OrderedDict[int, PageMap]] = OrderedDict()
        self._cursor.seek(MESSAGES + _pack(self._mark_us + 1))
        first = self._cursor.key() if self._cursor.valid() else b""
        #: Where commit pages begin; NO_END if there are none.
        self._commits_us: Final = POSITION.unpack(first[1:])[0] if first[:1] == MESSAGES else NO_END

    def stretches(self) -> list[tuple[int, int]]:
        return [(directory.first_us, directory.last_us + 1) for directory in self._directories]

    def last_before(self, position_us: int) -> Place | None:
        if position_us > self._commits_us:
            return self._last_in_commits(position_us)
        number = bisect_left(self._first_us, position_us) - 1
        if number < 0:
            return None
        directory = self._directories[number]
        if position_us > directory.last_us:
            return Place(directory.last_us, directory.first_serial + directory.serials - 1)
        after_us, rank = self._map(directory).last_before(position_us - directory.first_us)
        return Place(directory.first_us + after_us, directory.first_serial + rank)

    def _last_in_commits(self, position_us: int) -> Place:
        cursor = self._cursor
        cursor.seek_for_prev(MESSAGES + _pack(position_us - 1))
        if not cursor.valid() or cursor.key()[:1] != MESSAGES:
            check_end(cursor)
            raise PermanentError(f"a commit page at or behind {self._commits_us} is missing; run: holdfast verify")
        page = _BoundedPage(cursor.value())
        row = page.row_from(position_us) - 1
        return Place(page.position_us(row), page.first_serial + row)

    def position_of(self, serial: int, first: Place, last: Place) -> int:
        directories = self._directories
        low, high = 0, len(directories)
        while low < high:
            middle = (low + high) // 2
            if directories[middle].first_serial <= serial:
                low = middle + 1
            else:
                high = middle
        if low and serial < directories[low - 1].first_serial + directories[low - 1].serials:
            directory = directories[low - 1]
            after_us = self._map(directory).position_of(serial - directory.first_serial)
            return -1 if after_us < 0 else directory.first_us + after_us
        return super().position_of(serial, first, last)

    def positions(self, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        for directory in self._directories:
            if directory.first_us >= hi_us or directory.last_us < lo_us:
                continue
            whole = lo_us <= directory.first_us and directory.last_us < hi_us
            for page in self._pages(wanted, directory):
                found = _segment_positions(page, wanted)
                yield found if whole else [position_us for position_us in found if lo_us <= position_us < hi_us]
        cursor, mark_us = open_shard(self._family)
        for value in commit_values(cursor, mark_us, lo_us, hi_us):
            yield _commit_positions(CommitPage(value), wanted, lo_us, hi_us)

    def _pages(self, wanted: Wanted, directory: Directory) -> Iterator[SegmentPage]:
        """The pages of a segment that may hold something that is wanted."""
        reader = self._reader
        assert reader is not None
        if not wanted.is_dollar:
            for number in reader.matching_pages(directory, wanted.levels):
                yield reader.page(directory, number)
            return
        for number in range(directory.pages):
            page = reader.page(directory, number)
            yield page
            if page.topics[-1][:1] > _DOLLAR:
                return  # topics are in byte order, over all pages

    def _map(self, directory: Directory) -> PageMap:
        found = self._maps.get(directory.number)
        if found is None:
            assert self._reader is not None
            found = self._maps[directory.number] = self._reader.page_map(directory)
            if len(self._maps) > _MAPS:
                self._maps.popitem(last=False)
        return found


class _BoundedPage:
    """Positions and serials of a commit page. All of it is opened only if its positions do not follow each other."""

    def __init__(self, value: bytes) -> None:
        whole = CommitPage(value) if len(value) < HEADER_BYTES or value[1] & HAS_POSITIONS else None
        self._whole: Final = whole
        if whole is not None:
            self._count, self._first_us, self.first_serial = whole.count, whole.first_us, whole.first_serial
        else:
            (self._count,) = unpack_from("<I", value, 2)
            self._first_us, self.first_serial = unpack_from("<qQ", value, 14)

    def row_from(self, position_us: int) -> int:
        if self._whole is not None:
            return self._whole.row_from(position_us)
        return min(max(position_us - self._first_us, 0), self._count)

    def position_us(self, row: int) -> int:
        return self._first_us + row if self._whole is None else self._whole.position_us(row)


def _segment_positions(page: SegmentPage, wanted: Wanted) -> list[int]:
    width, kind = (8, "q") if page.wide else (4, "I")
    first_us = page.first_us
    found: list[int] = []
    if wanted.client:
        names = page.publisher_names()
        client = wanted.client.encode()
        if client in names:
            number = names.index(client)
            numbers = unpack_from(f"<{page.count}H", page.value, page.publishers_at)
            after_us = unpack_from(f"<{page.count}{kind}", page.value, page.positions_at)
            found = [first_us + after for one, after in zip(numbers, after_us, strict=True) if one == number]
        return found
    runs = page.matching_rows((REST,) if wanted.is_dollar else wanted.levels)
    if wanted.is_dollar:
        runs = _other_rows(runs, page.count)
    for begin, end in zip(runs[0::2], runs[1::2], strict=True):
        after_us = unpack_from(f"<{end - begin}{kind}", page.value, page.positions_at + width * begin)
        found.extend([first_us + after for after in after_us])
    return found


def _other_rows(runs: list[int], count: int) -> list[int]:
    """The rows of a page that are not in runs: begin, end, begin, end, …"""
    bounds = [0, *runs, count]
    return [
        bound for begin, end in zip(bounds[0::2], bounds[1::2], strict=True) if begin < end for bound in (begin, end)
    ]


def _commit_positions(page: CommitPage, wanted: Wanted, lo_us: int, hi_us: int) -> Sequence[int]:
    begin, end = page.row_from(lo_us), page.row_from(hi_us)
    if wanted.client:
        flags = [publisher == wanted.client for publisher in page.publishers]
        column_at = HEADER_BYTES + 2 * page.count
    else:
        flags, column_at = wanted.matching(page.topics), HEADER_BYTES
    if not any(flags) or begin >= end:
        return ()
    numbers = unpack_from(f"<{end - begin}H", page.value, column_at + 2 * begin)
    if max(numbers) >= len(flags):
        raise PermanentError(f"a commit page has name {max(numbers)}, there are {len(flags)}")
    rows = [row for row, number in enumerate(numbers, begin) if flags[number]]
    if page.last_us() - page.first_us == page.count - 1:
        return [page.first_us + row for row in rows]
    return [page.position_us(row) for row in rows]
