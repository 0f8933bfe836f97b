"""Writes the pages of a segment (`segment_pages.py`): topics with their messages in, pages out."""

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i32, i64

from holdfast.model.message import Message
from holdfast.records.pages.page_columns import (
    HEADER,
    WIDE_TIMES,
    flags_column,
    measure,
    optional_columns,
    payload_column,
    publisher_column,
    received_column,
)
from holdfast.records.pages.segment_pages import LARGE_BYTES, PAGE_BYTES, PAGE_VERSION

#: What a row takes besides its payload and properties.
_ROW_BYTES: Final = 27
#: Publishers with names of so many characters are not counted: most rows share theirs with others of the page.
_SHORT_NAME: Final = 64
#: Rows of a page have numbers of 16 bits.
_MAX_ROWS: Final = 65_535
_I32: Final = 1 << 31


class SegmentPageWriter:
    """Takes rows topic by topic. A row is the number of a message, which is in the order of time."""

    def __init__(self, messages: list[Message], ranks: vec[i64], order: vec[i64], first_serial: int) -> None:
        """`order` has all rows by their topics, those of a topic by time."""
        self._messages: Final = messages
        self._ranks: Final = ranks
        self._order: Final = order
        self._first_serial: Final = first_serial
        self.pages: Final[list[bytes]] = []
        #: The page of each row.
        self.page_of: Final[vec[i32]] = vec[i32]([0] * len(messages))
        #: The page in hand has the rows [begin, end) of the order, on these topics, with so many rows each.
        self._begin = 0
        self._end = 0
        self._topics: list[bytes] = []
        self._runs: list[int] = []
        self._size_bytes = 0

    def add(self, topic: bytes, end: int) -> int:
        """Add the rows of a topic, which are the next ones up to `end`; the page of the first of them. They begin a
        page if they do not fit into this one.

        Requires: topics are added in their order.
        """
        begin = self._end
        size_bytes = len(topic)
        largest = 0
        for place in range(begin, end):
            row_bytes = self._row_bytes(place)
            size_bytes += row_bytes
            largest = max(largest, row_bytes)
        full = self._size_bytes + size_bytes > PAGE_BYTES or end - self._begin > _MAX_ROWS
        if full or largest >= LARGE_BYTES:
            self.end_page()
        first_page = len(self.pages)
        if size_bytes <= PAGE_BYTES and largest < LARGE_BYTES:
            self._topics.append(topic)
            self._runs.append(end - begin)
            self._end = end
            self._size_bytes += size_bytes
        else:
            for place in range(begin, end):
                self._add_row(topic, place)
        return first_page

    @property
    def page(self) -> int:
        """The page that the last row went to."""
        return len(self.pages) - (0 if self._begin < self._end else 1)

    def _row_bytes(self, place: int) -> int:
        message = self._messages[self._order[place]]
        size_bytes = _ROW_BYTES + len(message.payload) + len(message.properties)
        if len(message.publisher) > _SHORT_NAME:
            size_bytes += len(message.publisher.encode())
        return size_bytes

    def _add_row(self, topic: bytes, place: int) -> None:
        """Of a topic that does not fit into one page."""
        size_bytes = self._row_bytes(place)
        full = self._size_bytes + size_bytes > PAGE_BYTES or place - self._begin == _MAX_ROWS
        if full or size_bytes >= LARGE_BYTES:
            self.end_page()
        if self._begin == self._end:
            self._topics.append(topic)
            self._runs.append(0)
            self._size_bytes += len(topic)
        self._end = place + 1
        self._runs[-1] += 1
        self._size_bytes += size_bytes
        if size_bytes >= LARGE_BYTES:
            self.end_page()

    def end_page(self) -> None:
        if self._begin < self._end:
            page: i32 = len(self.pages)
            for place in range(self._begin, self._end):
                self.page_of[self._order[place]] = page
            self.pages.append(self._encode())
        self._topics, self._runs, self._begin, self._size_bytes = [], [], self._end, 0

    def _encode(self) -> bytes:
        first = self._messages[0]
        messages = [self._messages[self._order[place]] for place in range(self._begin, self._end)]
        shape, payload_bytes, property_bytes = measure(messages, first.received_us)
        for message in messages:
            if message.position_us - first.position_us >= _I32:
                shape |= WIDE_TIMES
        wide = shape & WIDE_TIMES != 0
        publishers, names = publisher_column(messages)
        parts = [
            HEADER.pack(
                PAGE_VERSION,
                shape,
                len(messages),
                len(self._topics),
                len(names),
                first.position_us,
                self._first_serial,
                first.received_us,
                payload_bytes,
                property_bytes,
            ),
            _run_column(self._runs),
            publishers,
            flags_column(messages),
            self._rank_column(),
            _position_column(messages, first.position_us, wide=wide),
            received_column(messages, first.received_us, wide=wide),
            payload_column(messages),
            optional_columns(messages, self._topics, names, shape),
        ]
        parts.extend(self._topics)
        parts.extend(names)
        parts.extend([message.payload for message in messages])
        if property_bytes:
            parts.extend([message.properties for message in messages])
        return b"".join(parts)

    def _rank_column(self) -> bytes:
        column = BytesWriter()
        for place in range(self._begin, self._end):
            rank = self._ranks[self._order[place]]
            write_i32_le(column, i32(rank if rank < _I32 else rank - 2 * _I32))
        return column.getvalue()


def _run_column(runs: list[int]) -> bytes:
    column = BytesWriter()
    for run in runs:
        write_i32_le(column, run)
    return column.getvalue()


def _position_column(messages: list[Message], first_us: int, *, wide: bool) -> bytes:
    column = BytesWriter()
    for message in messages:
        if wide:
            write_i64_le(column, message.position_us - first_us)
        else:
            write_i32_le(column, message.position_us - first_us)
    return column.getvalue()
