"""A commit page: the messages of one commit in one shard, in the order of arrival, as one value.

     0  version          u8    1
     1  shape            u8    which optional columns there are, see below
     2  messages, n      u32
     6  topics, t        u32
    10  publishers, p    u32
    14  first position   i64   µs
    22  first serial     u64
    30  first received   i64   µs
    38  payload bytes    u32
    42  property bytes   u32
    46  columns, one after the other and without gaps:

        topic            u16 x n   its number in this page
        publisher        u16 x n   its number in this page
        flags            u8  x n   as in a message record (`messages.py`)
        received         u32 x n   µs after the first; i64 x n, signed, with bit 4 of the shape
        payload          u32 x n   bytes
        properties       u32 x n   bytes; with bit 1 only
        expiry           u32 x n   s; with bit 2 only
        position         i64 x n   µs; with bit 3 only
        topic lengths    u16 x t
        publisher lengths u16 x p
        topics · publishers (UTF-8) · payloads · properties

Little-endian and packed, so that numpy reads each column at once.

1. These bytes never change. A new version is a new module, and this one stays to read what is there.
2. Topics and publishers are numbered from 0, in the order of their first use in the page.
3. Without bit 3 the position of row i is the first position + i, as it is in every commit. The serial of row i is
   always the first serial + i.
4. The lengths add up to the length of the value: a cut or joined page is noticed.
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_le, read_i32_le, read_i64_le, write_i16_le

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.messages import EXPIRES, encode_message
from holdfast.records.pages.page_columns import (
    HAS_EXPIRY,
    HAS_POSITIONS,
    HAS_PROPERTIES,
    HEADER,
    HEADER_BYTES,
    WIDE_TIMES,
    flags_column,
    measure,
    optional_columns,
    payload_column,
    publisher_column,
    read_names,
    read_publishers,
    received_column,
    row_message,
    signed16,
    sum16,
    sum32,
)

#: Never change.
VERSION: Final = 1
_SHAPES: Final = HAS_PROPERTIES | HAS_EXPIRY | HAS_POSITIONS | WIDE_TIMES

#: Topics and publishers have numbers of 16 bits.
MAX_MESSAGES: Final = 65_535
#: A larger page would make a reader of one message read too much. A larger message is a page alone.
MAX_BYTES: Final = 4 << 20
#: What a message takes in all columns, optional ones too, with the lengths of its topic and its publisher.
_ROW_BYTES: Final = 37
#: A character of a client id takes at most so many bytes.
_UTF8_BYTES: Final = 4

_unpack_header: Final = HEADER.unpack_from
_MAX_POSITION_US: Final = 2**63 - 1
_MAX_SERIAL: Final = 2**64 - 1
_NONE: Final = -1 << 16


def encode_page(messages: list[Message], first_serial: int) -> bytes:
    """The page of some messages, which know their positions.

    Requires: at least one message and at most MAX_MESSAGES, in the order of their positions.
    """
    first_us = messages[0].position_us
    first_received_us = messages[0].received_us
    shape, payload_bytes, property_bytes = measure(messages, first_received_us)
    if messages[-1].position_us - first_us != len(messages) - 1:
        shape |= HAS_POSITIONS
    topic_column, topics = _topic_column(messages)
    publishers, names = publisher_column(messages)
    parts = [
        HEADER.pack(
            VERSION,
            shape,
            len(messages),
            len(topics),
            len(names),
            first_us,
            first_serial,
            first_received_us,
            payload_bytes,
            property_bytes,
        ),
        topic_column,
        publishers,
        flags_column(messages),
        received_column(messages, first_received_us, wide=shape & WIDE_TIMES != 0),
        payload_column(messages),
        optional_columns(messages, topics, names, shape),
    ]
    parts.extend(topics)
    parts.extend(names)
    parts.extend([message.payload for message in messages])
    if property_bytes:
        parts.extend([message.properties for message in messages])
    return b"".join(parts)


def _topic_column(messages: list[Message]) -> tuple[bytes, list[bytes]]:
    """The number of each message's topic, and the topics by number."""
    column = BytesWriter()
    numbers: dict[bytes, int] = {}
    last = b""
    number = 0
    for message in messages:
        topic = message.topic
        if topic != last:
            number = numbers.get(topic, _NONE)
            if number == _NONE:
                number = numbers[topic] = signed16(len(numbers))
            last = topic
        write_i16_le(column, number)
    return column.getvalue(), list(numbers)


def page_end(messages: list[Message], begin: int) -> int:
    """Where the page ends that begins with a message: MAX_MESSAGES or MAX_BYTES later, or with the last message."""
    end = begin
    last = min(len(messages), begin + MAX_MESSAGES)
    size_bytes = 0
    while end < last:
        message = messages[end]
        size_bytes += _ROW_BYTES + len(message.payload) + len(message.properties)
        if end == begin or message.topic != messages[end - 1].topic:
            size_bytes += len(message.topic)
        if end == begin or message.publisher is not messages[end - 1].publisher:
            size_bytes += _UTF8_BYTES * len(message.publisher)
        if size_bytes > MAX_BYTES and end > begin:
            break
        end += 1
    return end


def page_bounds(value: bytes) -> tuple[int, int, int, int]:
    """First position, last position, first serial and number of messages of a page, without opening all of it."""
    if len(value) < HEADER_BYTES or value[1] & HAS_POSITIONS:
        page = CommitPage(value)
        return page.first_us, page.last_us(), page.first_serial, page.count
    count = int(read_i32_le(value, 2)) & 0xFFFF_FFFF
    first_us = int(read_i64_le(value, 14))
    return first_us, first_us + count - 1, int(read_i64_le(value, 22)), count


class CommitPage:
    """A commit page, opened for reading; PermanentError says where its bytes are damaged."""

    def __init__(self, value: bytes) -> None:
        if len(value) < HEADER_BYTES:
            raise PermanentError(f"a commit page has {len(value)} bytes, its header alone has {HEADER_BYTES}")
        version, shape, count, topics, publishers, first_us, first_serial, received_us, payloads, properties = (
            _unpack_header(value)
        )
        if version != VERSION:
            raise PermanentError(f"a commit page has version {version}, this Holdfast reads version {VERSION}")
        if shape & ~_SHAPES:
            raise PermanentError(f"a commit page has shape 0x{shape:02X}, which no version wrote")
        if not 0 <= first_us <= _MAX_POSITION_US - count or first_serial > _MAX_SERIAL - count:
            raise PermanentError(f"a commit page begins at position {first_us} and serial {first_serial}")
        self.value: Final = value
        self.count: Final[int] = count
        self.first_us: Final[int] = first_us
        self.first_serial: Final[int] = first_serial
        self.first_received_us: Final[int] = received_us
        #: Where columns begin; 0 if there is none.
        self.publishers_at: Final[int] = HEADER_BYTES + 2 * count
        self.flags_at: Final[int] = HEADER_BYTES + 4 * count
        self.received_at: Final[int] = HEADER_BYTES + 5 * count
        #: Whether received times have 8 bytes.
        self.wide: Final = shape & WIDE_TIMES != 0
        self.payload_lengths_at: Final[int] = self.received_at + (8 if self.wide else 4) * count
        at = self.payload_lengths_at + 4 * count
        self.property_lengths_at: Final[int] = at if shape & HAS_PROPERTIES else 0
        at += 4 * count if shape & HAS_PROPERTIES else 0
        self.expiry_at: Final[int] = at if shape & HAS_EXPIRY else 0
        at += 4 * count if shape & HAS_EXPIRY else 0
        self.positions_at: Final[int] = at if shape & HAS_POSITIONS else 0
        at += 8 * count if shape & HAS_POSITIONS else 0
        names_at = at + 2 * (topics + publishers)
        if names_at > len(value) or not count:
            raise PermanentError(f"a commit page has {len(value)} bytes, too few for {count} messages")
        self.topic_count: Final[int] = topics
        self.publisher_count: Final[int] = publishers
        self.topic_lengths_at: Final[int] = at
        self.topic_names_at: Final[int] = names_at
        self.publisher_lengths_at: Final[int] = at + 2 * topics
        self.publisher_names_at: Final[int] = names_at + sum16(value, at, topics)
        #: Where payloads and properties begin.
        self.payloads_at: Final[int] = self.publisher_names_at + sum16(value, at + 2 * topics, publishers)
        end = self.payloads_at + payloads + properties
        if end != len(value):
            raise PermanentError(f"a commit page has {len(value)} bytes, the lengths in it add up to {end}")
        self.properties_at: Final[int] = self.payloads_at + payloads
        self._check_sums(payloads, properties)
        #: The row behind the one that was read last, and where its payload and properties begin.
        self._row = 0
        self._payload_at = self.payloads_at
        self._property_at = self.properties_at
        #: Distinct, in the order of their first use.
        self.topics: Final = read_names(value, at, topics, names_at)
        self.publishers: Final = read_publishers(value, at + 2 * topics, publishers, self.publisher_names_at)

    def _check_sums(self, payloads: int, properties: int) -> None:
        found = sum32(self.value, self.payload_lengths_at, self.count)
        if found != payloads:
            raise PermanentError(f"payloads of a commit page have {found} bytes, its header says {payloads}")
        if self.property_lengths_at:
            found = sum32(self.value, self.property_lengths_at, self.count)
            if found != properties:
                raise PermanentError(f"properties of a commit page have {found} bytes, its header says {properties}")
        elif properties:
            raise PermanentError(f"a commit page without properties says that they have {properties} bytes")

    def position_us(self, row: int) -> int:
        if self.positions_at:
            return int(read_i64_le(self.value, self.positions_at + 8 * row))
        return self.first_us + row

    def last_us(self) -> int:
        return self.position_us(self.count - 1)

    def row_from(self, position_us: int) -> int:
        """The first row at or behind a position; `count` if there is none."""
        if not self.positions_at:
            return min(max(position_us - self.first_us, 0), self.count)
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.position_us(middle) < position_us:
                low = middle + 1
            else:
                high = middle
        return low

    def messages(self, first: int, end: int, shard: int, wanted: list[bool] | None = None) -> list[Message]:
        """The messages of rows [first, end), with their places; only those on topics that are `wanted`, by number."""
        found: list[Message] = []
        value = self.value
        self._move_to(first)
        payload_at, property_at = self._payload_at, self._property_at
        for row in range(first, end):
            payload_end = payload_at + int(read_i32_le(value, self.payload_lengths_at + 4 * row))
            property_end = property_at
            if self.property_lengths_at:
                property_end += int(read_i32_le(value, self.property_lengths_at + 4 * row))
            topic = self._number(value, HEADER_BYTES, row, len(self.topics))
            if wanted is None or wanted[topic]:
                publisher = self._number(value, self.publishers_at, row, len(self.publishers))
                flags = value[self.flags_at + row]
                message = row_message(
                    self.topics[topic],
                    value[payload_at:payload_end],
                    self.publishers[publisher],
                    flags,
                    self._received_us(row),
                    self._expiry_s(row) if flags & EXPIRES else 0,
                    value[property_at:property_end],
                )
                message.shard = shard
                message.position_us = self.position_us(row)
                found.append(message)
            payload_at = payload_end
            property_at = property_end
        self._row, self._payload_at, self._property_at = end, payload_at, property_at
        return found

    def _move_to(self, row: int) -> None:
        """Find where the payload and the properties of a row begin; reading on from the last row costs nothing."""
        if row < self._row:
            self._row, self._payload_at, self._property_at = 0, self.payloads_at, self.properties_at
        skipped = row - self._row
        self._payload_at += sum32(self.value, self.payload_lengths_at + 4 * self._row, skipped)
        if self.property_lengths_at:
            self._property_at += sum32(self.value, self.property_lengths_at + 4 * self._row, skipped)
        self._row = row

    def records(self, first: int, end: int, wanted: list[bool] | None = None) -> list[bytes]:
        """The same as message records (`messages.py`)."""
        found: list[bytes] = []
        for message in self.messages(first, end, 0, wanted):
            serial = self.first_serial + self.row_from(message.position_us)
            found.append(encode_message(message, message.position_us, serial))
        return found

    def _number(self, value: bytes, column_at: int, row: int, numbers: int) -> int:
        number = int(read_i16_le(value, column_at + 2 * row)) & 0xFFFF
        if number >= numbers:
            raise PermanentError(f"row {row} of a commit page has name {number}, there are {numbers}")
        return number

    def _received_us(self, row: int) -> int:
        if self.wide:
            return self.first_received_us + int(read_i64_le(self.value, self.received_at + 8 * row))
        return self.first_received_us + (int(read_i32_le(self.value, self.received_at + 4 * row)) & 0xFFFF_FFFF)

    def _expiry_s(self, row: int) -> int:
        if not self.expiry_at:
            raise PermanentError("a message of a commit page expires, and the page has no column for that")
        return int(read_i32_le(self.value, self.expiry_at + 4 * row)) & 0xFFFF_FFFF
