"""The rows of a segment that a filter matches, in the order of time: what a reader goes through, some at a time."""

from typing import Final

from librt.strings import read_i32_le
from librt.vecs import append, vec
from mypy_extensions import i64

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.pages.segment_pages import LARGE_BYTES, SegmentPage

#: Room that a match takes: its place in the order.
_MATCH_BYTES: Final = 8
#: More rows of a page than these are found faster once it is prepared.
_FEW_ROWS: Final = 8
#: Matches are sorted by counting if there are at least as many as one in so many serials.
_SPARSE: Final = 8
_U32: Final = 0xFFFF_FFFF


class SegmentRows:
    """Pages without a match are not held, and neither are large messages: `large_page` says when one is next, and who
    reads fetches its page.

    A match is one number: rank << 32 | slot << 16 | row. A slot is the place of a page among those that are held.
    """

    def __init__(self) -> None:
        self._pages: Final[list[SegmentPage | None]] = []
        #: The number of the page in each slot.
        self._numbers: Final[list[int]] = []
        #: Slot and position of each large message.
        self._large: Final[dict[int, int]] = {}
        #: All matches; in their order when `sort` is done.
        self._order: vec[i64] = vec[i64]()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, number: int, page: SegmentPage, levels: tuple[bytes, ...] = ()) -> None:
        """Take the rows of a page that match a filter; no levels at all match everything."""
        runs = page.matching_rows(levels)
        if not runs:
            return
        matches = 0
        slot = len(self._pages)
        for begin in range(0, len(runs), 2):
            self._order = _append_rows(self._order, page.value, page.ranks_at, slot, runs[begin], runs[begin + 1])
            matches += runs[begin + 1] - runs[begin]
        self._numbers.append(number)
        self.size_bytes += _MATCH_BYTES * matches
        if page.count == 1 and len(page.value) >= LARGE_BYTES:
            self._large[slot] = page.position_us(0)
            self._pages.append(None)
            return
        self._pages.append(page)
        if matches > _FEW_ROWS:
            page.prepare()
        self.size_bytes += page.held_bytes()

    def sort(self, serials: int) -> None:
        """`serials` is what the segment's directory says.

        Requires: all pages are added.
        """
        if len(self._order) * _SPARSE > serials:
            self._order = _sorted_by_counting(self._order, serials)
        else:
            self._order = vec[i64](sorted(self._order))

    def first_from(self, position_us: int) -> int:
        """The first match at or behind a position, by number."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._position_us(middle) < position_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _position_us(self, match: int) -> int:
        place = self._order[match]
        slot = int(place >> 16 & 0xFFFF)
        page = self._pages[slot]
        return self._large[slot] if page is None else page.position_us(place & 0xFFFF)

    def large_page(self, match: int) -> int:
        """The page of a match that is a large message; -1 if it is none."""
        slot = int(self._order[match] >> 16 & 0xFFFF)
        return self._numbers[slot] if slot in self._large else -1

    def end_of(self, begin: int, last: int) -> int:
        """Where the matches from `begin` on end, at most at `last`: a large message is one alone."""
        if not self._large:
            return last
        end = begin + 1
        if self.large_page(begin) < 0:
            while end < last and self.large_page(end) < 0:
                end += 1
        return end

    def begin_of(self, first: int, end: int) -> int:
        """Where the matches before `end` begin, at least at `first`: `end` itself if a large message stands there."""
        if not self._large:
            return first
        begin = end
        while begin > first and self.large_page(begin - 1) < 0:
            begin -= 1
        return begin

    def messages(self, begin: int, end: int, shard: int) -> list[Message]:
        """The matches [begin, end).

        Requires: none of them is a large message.
        """
        found: list[Message] = []
        order = self._order
        for match in range(begin, end):
            place = order[match]
            page = self._pages[place >> 16 & 0xFFFF]
            assert page is not None
            found.append(page.message(place & 0xFFFF, shard))
        return found

    def records(self, begin: int, end: int) -> list[bytes]:
        """The same as message records (`messages.py`)."""
        found: list[bytes] = []
        order = self._order
        for match in range(begin, end):
            place = order[match]
            page = self._pages[place >> 16 & 0xFFFF]
            assert page is not None
            found.append(page.record(place & 0xFFFF))
        return found


def _append_rows(order: vec[i64], value: bytes, ranks_at: i64, slot: i64, row: i64, end: i64) -> vec[i64]:
    """`order` with rows [row, end) of a page."""
    while row < end:
        rank = i64(read_i32_le(value, ranks_at + 4 * row)) & _U32
        order = append(order, rank << 32 | slot << 16 | row)
        row += 1
    return order


def _sorted_by_counting(order: vec[i64], serials: i64) -> vec[i64]:
    """Matches by their ranks, which are all different and below `serials`. Sorting them otherwise takes five times as
    long.
    """
    by_rank = vec[i64]([-1] * serials)
    for place in order:
        rank = place >> 32
        if rank >= serials or by_rank[rank] >= 0:
            raise PermanentError(f"a page of a segment has a message of rank {rank}, which is of no or another message")
        by_rank[rank] = place
    if len(order) == serials:
        return by_rank
    found = vec[i64](capacity=len(order))
    for place in by_rank:
        if place >= 0:
            found = append(found, place)
    return found
