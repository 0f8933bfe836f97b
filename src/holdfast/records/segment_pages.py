"""A page of a segment: messages sorted by topic and then by time.

A segment holds the messages of consecutive commit pages, in pages of about 64 KiB. A page has the header of a commit
page (`commit_pages.py`) with version 2; its first position, first serial and first received time are those of the
segment. The columns behind it, without gaps:

        rows             u32 x t   of each topic; topics are in byte order, their rows in the order of time
        publisher        u16 x n   its number in this page
        flags            u8  x n   as in a message record
        rank             u32 x n   the message's serial, after the segment's first
        position         u32 x n   µs after the segment's first; i64 x n with bit 4 of the shape
        received         u32 x n   µs after the segment's first; i64 x n, signed, with bit 4 of the shape
        payload          u32 x n   bytes
        properties       u32 x n   bytes; with bit 1 only
        expiry           u32 x n   s; with bit 2 only
        topic lengths    u16 x t
        publisher lengths u16 x p
        topics · publishers (UTF-8) · payloads · properties

Little-endian and packed, so that numpy reads each column at once.

1. These bytes never change. A new version is a new module, and this one stays to read what is there.
2. The lengths add up to the length of the value: a cut or joined page is noticed.
3. A page ends where a topic ends, unless a topic fills more than a page. A large message is a page alone.
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.commit_pages import (
    HAS_EXPIRY,
    HAS_PROPERTIES,
    HEADER,
    HEADER_BYTES,
    WIDE_TIMES,
    read_names,
    read_publishers,
    row_message,
    signed16,
    signed32,
    sum16,
    sum32,
)
from holdfast.records.messages import EXPIRES, RETAIN, encode_message, expiry_seconds

#: Never change.
PAGE_VERSION: Final = 2
_SHAPES: Final = HAS_PROPERTIES | HAS_EXPIRY | WIDE_TIMES
#: A page ends about here.
PAGE_BYTES: Final = 64 << 10
#: A message of this size is a page alone, so that readers need not hold it before its turn.
LARGE_BYTES: Final = 32 << 10
#: What a row takes besides its payload and properties.
_ROW_BYTES: Final = 27
#: Rows of a page have numbers of 16 bits.
_MAX_ROWS: Final = 65_535
_U32: Final = 0xFFFF_FFFF
_I32: Final = 1 << 31


class SegmentPageWriter:
    """Rows in, pages out."""

    def __init__(self, messages: list[Message], ranks: list[int], first_serial: int) -> None:
        self._messages: Final = messages
        self._ranks: Final = ranks
        self._first_serial: Final = first_serial
        self.pages: Final[list[bytes]] = []
        #: For each row of the segment, by time, its page.
        self.page_of: Final[list[int]] = [0] * len(messages)
        self._topics: list[bytes] = []
        self._runs: list[int] = []
        self._rows: list[int] = []
        self._size_bytes = 0

    @property
    def page(self) -> int:
        """The page that the last row went to."""
        return len(self.pages) - (0 if self._rows else 1)

    def begin_topic(self, topic: bytes, rows: list[int]) -> int:
        """Rows of this topic follow; the page of the first. It begins a page if its rows do not fit into this one."""
        size_bytes = len(topic)
        for row in rows:
            size_bytes += _size(self._messages[row])
            if size_bytes > PAGE_BYTES:
                break
        large = _size(self._messages[rows[0]]) >= LARGE_BYTES
        if self._rows and (large or self._size_bytes + size_bytes > PAGE_BYTES):
            self.end_page()
        self._begin_run(topic)
        return len(self.pages)

    def _begin_run(self, topic: bytes) -> None:
        self._topics.append(topic)
        self._runs.append(0)
        self._size_bytes += len(topic)

    def add(self, row: int) -> None:
        message = self._messages[row]
        size_bytes = _size(message)
        full = self._size_bytes + size_bytes > PAGE_BYTES or len(self._rows) == _MAX_ROWS
        if self._rows and (full or size_bytes >= LARGE_BYTES):
            self.end_page()
        if not self._runs:
            self._begin_run(message.topic)
        self.page_of[row] = len(self.pages)
        self._rows.append(row)
        self._runs[-1] += 1
        self._size_bytes += size_bytes
        if size_bytes >= LARGE_BYTES:
            self.end_page()

    def end_page(self) -> None:
        if self._rows:
            self.pages.append(self._encode())
        self._topics, self._runs, self._rows, self._size_bytes = [], [], [], 0

    def _encode(self) -> bytes:
        rows = self._rows
        messages = [self._messages[row] for row in rows]
        first = self._messages[0]
        first_us, first_received_us = first.position_us, first.received_us
        publishers: dict[str, int] = {}
        publisher_column = BytesWriter()
        flags_column = BytesWriter()
        payload_column = BytesWriter()
        payloads: list[bytes] = []
        payload_bytes = property_bytes = 0
        expires = wide = False
        for message in messages:
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
            if message.position_us - first_us >= _I32 or not 0 <= message.received_us - first_received_us < _I32:
                wide = True
            payload_bytes += len(message.payload)
            write_i32_le(payload_column, len(message.payload))
            payloads.append(message.payload)
            property_bytes += len(message.properties)
        shape = (HAS_PROPERTIES if property_bytes else 0) | (HAS_EXPIRY if expires else 0) | (WIDE_TIMES if wide else 0)
        names = [name.encode() for name in publishers]
        header = HEADER.pack(
            PAGE_VERSION,
            shape,
            len(rows),
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
        parts = [header, runs.getvalue(), publisher_column.getvalue(), flags_column.getvalue()]
        parts.append(self._times(messages, first_us, first_received_us, wide=wide))
        parts.append(payload_column.getvalue())
        parts.append(self._optional_columns(messages, names, shape))
        parts.extend(self._topics)
        parts.extend(names)
        parts.extend(payloads)
        if property_bytes:
            parts.extend([message.properties for message in messages])
        return b"".join(parts)

    def _times(self, messages: list[Message], first_us: int, first_received_us: int, *, wide: bool) -> bytes:
        """Ranks, positions and times of arrival."""
        columns = BytesWriter()
        for row in self._rows:
            write_i32_le(columns, signed32(self._ranks[row]))
        if wide:
            for message in messages:
                write_i64_le(columns, message.position_us - first_us)
            for message in messages:
                write_i64_le(columns, message.received_us - first_received_us)
        else:
            for message in messages:
                write_i32_le(columns, message.position_us - first_us)
            for message in messages:
                write_i32_le(columns, message.received_us - first_received_us)
        return columns.getvalue()

    def _optional_columns(self, messages: list[Message], names: list[bytes], shape: int) -> bytes:
        """The columns that a shape asks for, and the lengths of topics and publishers."""
        columns = BytesWriter()
        if shape & HAS_PROPERTIES:
            for message in messages:
                write_i32_le(columns, len(message.properties))
        if shape & HAS_EXPIRY:
            for message in messages:
                write_i32_le(columns, signed32(expiry_seconds(message) if message.expires_us else 0))
        for topic in self._topics:
            write_i16_le(columns, signed16(len(topic)))
        for name in names:
            write_i16_le(columns, signed16(len(name)))
        return columns.getvalue()


def _size(message: Message) -> int:
    return _ROW_BYTES + len(message.payload) + len(message.properties)


class SegmentPage:
    """A page of a segment, opened for reading; PermanentError says where its bytes are damaged."""

    def __init__(self, value: bytes) -> None:
        if len(value) < HEADER_BYTES:
            raise PermanentError(f"a page of a segment has {len(value)} bytes, its header alone has {HEADER_BYTES}")
        version, shape, count, topics, publishers, first_us, first_serial, received_us, payloads, properties = (
            HEADER.unpack_from(value)
        )
        if version != PAGE_VERSION:
            raise PermanentError(f"a page of a segment has version {version}, this Holdfast reads version 2")
        if shape & ~_SHAPES:
            raise PermanentError(f"a page of a segment has shape 0x{shape:02X}, which no version wrote")
        self.value: Final = value
        self.count: Final[int] = count
        self.first_us: Final[int] = first_us
        self.first_serial: Final[int] = first_serial
        self.first_received_us: Final[int] = received_us
        self._wide: Final = shape & WIDE_TIMES != 0
        width = 8 if self._wide else 4
        at = HEADER_BYTES + 4 * topics
        self._publishers_at: Final[int] = at
        self._flags_at: Final[int] = at + 2 * count
        self._ranks_at: Final[int] = at + 3 * count
        self._positions_at: Final[int] = at + 7 * count
        self._received_at: Final[int] = at + (7 + width) * count
        self._payload_lengths_at: Final[int] = at + (7 + 2 * width) * count
        at = self._payload_lengths_at + 4 * count
        self._property_lengths_at: Final[int] = at if shape & HAS_PROPERTIES else 0
        at += 4 * count if shape & HAS_PROPERTIES else 0
        self._expiry_at: Final[int] = at if shape & HAS_EXPIRY else 0
        at += 4 * count if shape & HAS_EXPIRY else 0
        names_at = at + 2 * (topics + publishers)
        if names_at > len(value) or not count:
            raise PermanentError(f"a page of a segment has {len(value)} bytes, too few for {count} messages")
        topic_bytes = sum16(value, at, topics)
        publisher_names_at = names_at + topic_bytes
        #: Where payloads and properties begin.
        self.payloads_at: Final[int] = publisher_names_at + sum16(value, at + 2 * topics, publishers)
        self.properties_at: Final[int] = self.payloads_at + payloads
        if self.properties_at + properties != len(value):
            end = self.properties_at + properties
            raise PermanentError(f"a page of a segment has {len(value)} bytes, the lengths in it add up to {end}")
        if sum32(value, HEADER_BYTES, topics) != count:
            raise PermanentError(f"a page of a segment has {count} messages, and its topics have others")
        if sum32(value, self._payload_lengths_at, count) != payloads:
            raise PermanentError("payloads of a page of a segment have another length than its header says")
        if (sum32(value, self._property_lengths_at, count) if self._property_lengths_at else 0) != properties:
            raise PermanentError("properties of a page of a segment have another length than its header says")
        #: In byte order.
        self.topics: Final = read_names(value, at, topics, names_at)
        self.publishers: Final = read_publishers(value, at + 2 * topics, publishers, publisher_names_at)
        #: For each row: where its payload and its properties begin, and the number of its topic. Made when needed.
        self._places = b""

    def rank(self, row: int) -> int:
        return int(read_i32_le(self.value, self._ranks_at + 4 * row)) & _U32

    def position_us(self, row: int) -> int:
        if self._wide:
            return self.first_us + int(read_i64_le(self.value, self._positions_at + 8 * row))
        return self.first_us + (int(read_i32_le(self.value, self._positions_at + 4 * row)) & _U32)

    def row_at(self, position_us: int) -> int:
        """The row of a position; -1 if there is none."""
        for row in range(self.count):
            if self.position_us(row) == position_us:
                return row
        return -1

    def runs(self) -> list[int]:
        """How many rows each topic has."""
        return [int(read_i32_le(self.value, HEADER_BYTES + 4 * number)) & _U32 for number in range(len(self.topics))]

    def message(self, row: int, shard: int) -> Message:
        places = self._places
        if not places:
            places = self._places = self._make_places()
        value = self.value
        payload_at = int(read_i32_le(places, 12 * row)) & _U32
        payload_end = payload_at + (int(read_i32_le(value, self._payload_lengths_at + 4 * row)) & _U32)
        properties = b""
        if self._property_lengths_at:
            property_at = int(read_i32_le(places, 12 * row + 4)) & _U32
            property_end = property_at + (int(read_i32_le(value, self._property_lengths_at + 4 * row)) & _U32)
            properties = value[property_at:property_end]
        flags = value[self._flags_at + row]
        publisher = int(read_i16_le(value, self._publishers_at + 2 * row)) & 0xFFFF
        if publisher >= len(self.publishers):
            raise PermanentError(f"row {row} of a page has publisher {publisher}, there are {len(self.publishers)}")
        message = row_message(
            self.topics[int(read_i32_le(places, 12 * row + 8))],
            value[payload_at:payload_end],
            self.publishers[publisher],
            flags,
            self._received_us(row),
            self._expiry_s(row) if flags & EXPIRES else 0,
            properties,
        )
        message.shard = shard
        message.position_us = self.position_us(row)
        return message

    def record(self, row: int) -> bytes:
        """The same as a message record (`messages.py`)."""
        message = self.message(row, 0)
        return encode_message(message, message.position_us, self.first_serial + self.rank(row))

    def records(self, lo_us: int, hi_us: int, wanted: list[bool] | None = None) -> list[bytes]:
        """Message records of the rows with positions of [lo, hi), on topics that are `wanted`, by number."""
        found: list[bytes] = []
        row = 0
        for topic, run in enumerate(self.runs()):
            if wanted is None or wanted[topic]:
                matches = range(row, row + run)
                found.extend([self.record(one) for one in matches if lo_us <= self.position_us(one) < hi_us])
            row += run
        return found

    def _make_places(self) -> bytes:
        column = BytesWriter()
        payload_at, property_at = self.payloads_at, self.properties_at
        row = 0
        for number, run in enumerate(self.runs()):
            for _row in range(run):
                write_i32_le(column, signed32(payload_at))
                write_i32_le(column, signed32(property_at))
                write_i32_le(column, number)
                payload_at += int(read_i32_le(self.value, self._payload_lengths_at + 4 * row)) & _U32
                if self._property_lengths_at:
                    property_at += int(read_i32_le(self.value, self._property_lengths_at + 4 * row)) & _U32
                row += 1
        return column.getvalue()

    def _received_us(self, row: int) -> int:
        if self._wide:
            return self.first_received_us + int(read_i64_le(self.value, self._received_at + 8 * row))
        return self.first_received_us + (int(read_i32_le(self.value, self._received_at + 4 * row)) & _U32)

    def _expiry_s(self, row: int) -> int:
        if not self._expiry_at:
            raise PermanentError("a message of a page expires, and the page has no column for that")
        return int(read_i32_le(self.value, self._expiry_at + 4 * row)) & _U32


class SegmentRows:
    """The rows of a segment that a filter matches, in the order of time.

    1. Pages without a match are not held, and neither are large messages: `large_page` says when one is next, and who
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
        if len(self._order) == before:
            return
        self.size_bytes += 40 * (len(self._order) - before)
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
