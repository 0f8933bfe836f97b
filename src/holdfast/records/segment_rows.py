"""The rows of a segment that a filter matches, in the order of time: what a reader goes through, some at a time."""

from typing import Final

from holdfast.model.message import Message
from holdfast.records.segment_pages import LARGE_BYTES, SegmentPage

#: Room that a row takes: its place in the order.
_ROW_BYTES: Final = 40
#: More rows of a page than these are found faster once it is prepared.
_FEW_ROWS: Final = 8


class SegmentRows:
    """Pages without a match are not held, and neither are large messages: `large_page` says when one is next, and who
    reads fetches its page.
    """

    def __init__(self) -> None:
        self._pages: Final[dict[int, SegmentPage]] = {}
        #: Page and position of each large message.
        self._large: Final[dict[int, int]] = {}
        #: Rank, page and row of each match, in one number; sorted by `sort`.
        self._order: Final[list[int]] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, number: int, page: SegmentPage, wanted: list[bool] | None) -> None:
        """Take the rows of a page on topics that are `wanted`, by number; of all topics if that is None."""
        before = len(self._order)
        row = 0
        for topic, run in enumerate(page.runs()):
            if wanted is None or wanted[topic]:
                for matched in range(row, row + run):
                    self._order.append(page.rank(matched) << 32 | number << 16 | matched)
            row += run
        matches = len(self._order) - before
        if not matches:
            return
        if matches > _FEW_ROWS:
            page.prepare()
        self.size_bytes += _ROW_BYTES * matches
        if page.count == 1 and len(page.value) >= LARGE_BYTES:
            self._large[number] = page.position_us(0)
        else:
            self._pages[number] = page
            self.size_bytes += 2 * len(page.value)

    def sort(self) -> None:
        """Requires: all pages are added."""
        self._order.sort()

    def first_from(self, position_us: int) -> int:
        """The first match at or behind a position, by number."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            if self._position_us(self._order[middle]) < position_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _position_us(self, place: int) -> int:
        number = place >> 16 & 0xFFFF
        large_us = self._large.get(number)
        return self._pages[number].position_us(place & 0xFFFF) if large_us is None else large_us

    def large_page(self, match: int) -> int:
        """The page of a match that is a large message; -1 if it is none."""
        number = self._order[match] >> 16 & 0xFFFF
        return number if number in self._large else -1

    def end_of(self, begin: int, last: int) -> int:
        """Where the matches from `begin` on end, at most at `last`: a large message is one alone."""
        if not self._large:
            return last
        end = begin + 1
        if self.large_page(begin) < 0:
            while end < last and self.large_page(end) < 0:
                end += 1
        return end

    def messages(self, begin: int, end: int, shard: int) -> list[Message]:
        """The matches [begin, end).

        Requires: none of them is a large message.
        """
        found: list[Message] = []
        for match in range(begin, end):
            place = self._order[match]
            found.append(self._pages[place >> 16 & 0xFFFF].message(place & 0xFFFF, shard))
        return found

    def records(self, begin: int, end: int) -> list[bytes]:
        """The same as message records (`messages.py`)."""
        found: list[bytes] = []
        for match in range(begin, end):
            place = self._order[match]
            found.append(self._pages[place >> 16 & 0xFFFF].record(place & 0xFFFF))
        return found
