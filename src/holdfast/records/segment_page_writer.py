"""Writes the pages of a segment (`segment_pages.py`): topics with their messages in, pages out."""

from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le

from holdfast.model.message import Message
from holdfast.records.commit_pages import (
    HAS_EXPIRY,
    HAS_PROPERTIES,
    HEADER,
    WIDE_TIMES,
    optional_columns,
    signed16,
    signed32,
)
from holdfast.records.messages import EXPIRES, RETAIN
from holdfast.records.segment_pages import LARGE_BYTES, PAGE_BYTES, PAGE_VERSION

#: What a row takes besides its payload and properties.
_ROW_BYTES: Final = 27
#: Rows of a page have numbers of 16 bits.
_MAX_ROWS: Final = 65_535
_I32: Final = 1 << 31


class SegmentPageWriter:
    """Topics with their rows in, pages out."""

    def __init__(self, messages: list[Message], ranks: list[int], first_serial: int) -> None:
        """`messages` are in the order of time, and so are rows: a row is the number of a message."""
        self._messages: Final = messages
        self._ranks: Final = ranks
        self._first_serial: Final = first_serial
        self.pages: Final[list[bytes]] = []
        #: The page of each message.
        self.page_of: Final[list[int]] = [0] * len(messages)
        self._topics: list[bytes] = []
        self._runs: list[int] = []
        self._rows: list[int] = []
        self._size_bytes = 0

    @property
    def page(self) -> int:
        """The page that the last row went to."""
        return len(self.pages) - (0 if self._rows else 1)

    def add(self, topic: bytes, rows: list[int]) -> int:
        """Add all rows of a topic; the page of the first. It begins a page if its rows do not fit into this one.

        Requires: topics are added in their order.
        """
        size_bytes = len(topic)
        largest = 0
        for row in rows:
            row_bytes = _size(self._messages[row])
            size_bytes += row_bytes
            largest = max(largest, row_bytes)
        full = self._size_bytes + size_bytes > PAGE_BYTES or len(self._rows) + len(rows) > _MAX_ROWS
        if full or largest >= LARGE_BYTES:
            self.end_page()
        first_page = len(self.pages)
        if size_bytes <= PAGE_BYTES and largest < LARGE_BYTES:
            self._begin_run(topic, len(rows))
            self._rows.extend(rows)
            self._size_bytes += size_bytes
        else:
            for row in rows:
                self._add_row(topic, row)
        return first_page

    def _begin_run(self, topic: bytes, rows: int) -> None:
        self._topics.append(topic)
        self._runs.append(rows)

    def _add_row(self, topic: bytes, row: int) -> None:
        """Of a topic that does not fit into one page."""
        size_bytes = _size(self._messages[row])
        full = self._size_bytes + size_bytes > PAGE_BYTES or len(self._rows) == _MAX_ROWS
        if full or size_bytes >= LARGE_BYTES:
            self.end_page()
        if not self._rows:
            self._begin_run(topic, 0)
            self._size_bytes += len(topic)
        self._rows.append(row)
        self._runs[-1] += 1
        self._size_bytes += size_bytes
        if size_bytes >= LARGE_BYTES:
            self.end_page()

    def end_page(self) -> None:
        if self._rows:
            page = len(self.pages)
            for row in self._rows:
                self.page_of[row] = page
            self.pages.append(self._encode())
        self._topics, self._runs, self._rows, self._size_bytes = [], [], [], 0

    def _encode(self) -> bytes:
        first = self._messages[0]
        first_us, first_received_us = first.position_us, first.received_us
        publishers: dict[str, int] = {}
        publisher_column = BytesWriter()
        flags_column = BytesWriter()
        rank_column = BytesWriter()
        position_column = BytesWriter()
        received_column = BytesWriter()
        payload_column = BytesWriter()
        messages: list[Message] = []
        payloads: list[bytes] = []
        payload_bytes = property_bytes = 0
        expires = wide = False
        all_messages, ranks = self._messages, self._ranks
        for row in self._rows:
            message = all_messages[row]
            messages.append(message)
            number = publishers.get(message.publisher, -_I32)
            if number == -_I32:
                number = publishers[message.publisher] = signed16(len(publishers))
            write_i16_le(publisher_column, number)
            flags = message.qos
            if message.retain:
                flags |= RETAIN
            if message.expires_us:
                flags |= EXPIRES
                expires = True
            flags_column.append(flags)
            write_i32_le(rank_column, signed32(ranks[row]))
            after_us = message.position_us - first_us
            received_after_us = message.received_us - first_received_us
            if after_us < _I32 and 0 <= received_after_us < _I32:
                write_i32_le(position_column, after_us)
                write_i32_le(received_column, received_after_us)
            else:
                wide = True
            payload = message.payload
            payload_bytes += len(payload)
            write_i32_le(payload_column, len(payload))
            payloads.append(payload)
            property_bytes += len(message.properties)
        if wide:
            position_column, received_column = _wide_times(messages, first_us, first_received_us)
        shape = (HAS_PROPERTIES if property_bytes else 0) | (HAS_EXPIRY if expires else 0) | (WIDE_TIMES if wide else 0)
        names = [name.encode() for name in publishers]
        header = HEADER.pack(
            PAGE_VERSION,
            shape,
            len(messages),
            len(self._topics),
            len(names),
            first_us,
            self._first_serial,
            first_received_us,
            payload_bytes,
            property_bytes,
        )
        runs = BytesWriter()
        for run in self._runs:
            write_i32_le(runs, run)
        parts = [
            header,
            runs.getvalue(),
            publisher_column.getvalue(),
            flags_column.getvalue(),
            rank_column.getvalue(),
            position_column.getvalue(),
            received_column.getvalue(),
            payload_column.getvalue(),
            optional_columns(messages, self._topics, names, shape),
        ]
        parts.extend(self._topics)
        parts.extend(names)
        parts.extend(payloads)
        if property_bytes:
            parts.extend([message.properties for message in messages])
        return b"".join(parts)


def _wide_times(messages: list[Message], first_us: int, first_received_us: int) -> tuple[BytesWriter, BytesWriter]:
    """Columns of positions and of times of arrival, 8 bytes each."""
    positions = BytesWriter()
    received = BytesWriter()
    for message in messages:
        write_i64_le(positions, message.position_us - first_us)
        write_i64_le(received, message.received_us - first_received_us)
    return positions, received


def _size(message: Message) -> int:
    return _ROW_BYTES + len(message.payload) + len(message.properties)
