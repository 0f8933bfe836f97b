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

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.commit_pages import (
    HAS_EXPIRY,
    HAS_PROPERTIES,
    HEADER,
    HEADER_BYTES,
    WIDE_TIMES,
    optional_columns,
    read_names,
    read_publishers,
    row_message,
    signed16,
    signed32,
    sum16,
    sum32,
)
from holdfast.records.messages import EXPIRES, RETAIN, encode_message

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
        self.publisher_count: Final[int] = publishers
        self._publisher_lengths_at: Final[int] = at + 2 * topics
        self._publisher_names_at: Final[int] = publisher_names_at
        #: For each row: where its payload and its properties begin, and the number of its topic. See `prepare`.
        self._places = b""
        self._publishers: list[ClientId] = []

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

    def publisher_names(self) -> list[bytes]:
        """By number. Whether they are UTF-8 is not checked."""
        return read_names(self.value, self._publisher_lengths_at, self.publisher_count, self._publisher_names_at)

    def prepare(self) -> None:
        """Get ready for reading many rows: a single one is found without, by adding up lengths."""
        if not self._places:
            self._publishers = read_publishers(
                self.value, self._publisher_lengths_at, self.publisher_count, self._publisher_names_at
            )
            self._places = self._make_places()

    def message(self, row: int, shard: int) -> Message:
        value = self.value
        publisher = int(read_i16_le(value, self._publishers_at + 2 * row)) & 0xFFFF
        if publisher >= self.publisher_count:
            raise PermanentError(f"row {row} of a page has publisher {publisher}, there are {self.publisher_count}")
        places = self._places
        if places:
            payload_at = int(read_i32_le(places, 12 * row)) & _U32
            property_at = int(read_i32_le(places, 12 * row + 4)) & _U32
            topic = int(read_i32_le(places, 12 * row + 8))
            name = self._publishers[publisher]
        else:
            payload_at = self.payloads_at + sum32(value, self._payload_lengths_at, row)
            property_at = self.properties_at
            if self._property_lengths_at:
                property_at += sum32(value, self._property_lengths_at, row)
            topic = self._topic_of(row)
            lengths_at = self._publisher_lengths_at
            at = self._publisher_names_at + sum16(value, lengths_at, publisher)
            name = read_publishers(value, lengths_at + 2 * publisher, 1, at)[0]
        payload_end = payload_at + (int(read_i32_le(value, self._payload_lengths_at + 4 * row)) & _U32)
        properties = b""
        if self._property_lengths_at:
            property_end = property_at + (int(read_i32_le(value, self._property_lengths_at + 4 * row)) & _U32)
            properties = value[property_at:property_end]
        flags = value[self._flags_at + row]
        message = row_message(
            self.topics[topic],
            value[payload_at:payload_end],
            name,
            flags,
            self._received_us(row),
            self._expiry_s(row) if flags & EXPIRES else 0,
            properties,
        )
        message.shard = shard
        message.position_us = self.position_us(row)
        return message

    def _topic_of(self, row: int) -> int:
        end = 0
        for number in range(len(self.topics)):
            end += int(read_i32_le(self.value, HEADER_BYTES + 4 * number)) & _U32
            if row < end:
                return number
        raise MisuseError(f"a page of {self.count} messages has no row {row}")

    def record(self, row: int) -> bytes:
        """The same as a message record (`messages.py`)."""
        message = self.message(row, 0)
        return encode_message(message, message.position_us, self.first_serial + self.rank(row))

    def records(self, lo_us: int, hi_us: int, wanted: list[bool] | None = None) -> list[bytes]:
        """Message records of the rows with positions of [lo, hi), on topics that are `wanted`, by number."""
        self.prepare()
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
