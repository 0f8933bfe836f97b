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

from librt.strings import read_i16_le, read_i32_le, read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import EXPIRES, encode_message
from holdfast.records.pages.page_columns import (
    HAS_EXPIRY,
    HAS_PROPERTIES,
    HEADER,
    HEADER_BYTES,
    WIDE_TIMES,
    read_names,
    read_publishers,
    row_message,
    sum16,
    sum32,
)
from holdfast.topics.filters import REST, literal_prefix, matching_topics

#: Never change.
PAGE_VERSION: Final = 2
_SHAPES: Final = HAS_PROPERTIES | HAS_EXPIRY | WIDE_TIMES
#: A page ends about here.
PAGE_BYTES: Final = 64 << 10
#: A message of this size is a page alone, so that readers need not hold it before its turn.
LARGE_BYTES: Final = 32 << 10
_U32: Final = 0xFFFF_FFFF
#: Room that a topic or publisher takes beside its characters: an object, and a place in a list.
_NAME_BYTES: Final = 60
_DOLLAR: Final = b"$"


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
        #: Whether times have 8 bytes.
        self.wide: Final = shape & WIDE_TIMES != 0
        width = 8 if self.wide else 4
        at = HEADER_BYTES + 4 * topics
        #: Where columns begin; 0 if there is none.
        self.publishers_at: Final[int] = at
        self.flags_at: Final[int] = at + 2 * count
        self.ranks_at: Final[int] = at + 3 * count
        self.positions_at: Final[int] = at + 7 * count
        self.received_at: Final[int] = at + (7 + width) * count
        self.payload_lengths_at: Final[int] = at + (7 + 2 * width) * count
        at = self.payload_lengths_at + 4 * count
        self.property_lengths_at: Final[int] = at if shape & HAS_PROPERTIES else 0
        at += 4 * count if shape & HAS_PROPERTIES else 0
        self.expiry_at: Final[int] = at if shape & HAS_EXPIRY else 0
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
        if sum32(value, self.payload_lengths_at, count) != payloads:
            raise PermanentError("payloads of a page of a segment have another length than its header says")
        if (sum32(value, self.property_lengths_at, count) if self.property_lengths_at else 0) != properties:
            raise PermanentError("properties of a page of a segment have another length than its header says")
        self.topic_count: Final[int] = topics
        self.publisher_count: Final[int] = publishers
        self.topic_lengths_at: Final[int] = at
        self.topic_names_at: Final[int] = names_at
        self.publisher_lengths_at: Final[int] = at + 2 * topics
        self.publisher_names_at: Final[int] = publisher_names_at
        self._all_topics: list[bytes] = []
        #: Where topics begin, and where the last one ends; empty until that is asked for.
        self._topic_bounds: vec[i32] = vec[i32]()
        #: The same of the payload and the properties of each row, and the number of its topic. See `prepare`.
        self._payload_bounds: vec[i32] = vec[i32]()
        self._property_bounds: vec[i32] = vec[i32]()
        self._topic_numbers: vec[i32] = vec[i32]()
        self._publishers: list[ClientId] = []

    def rank(self, row: int) -> int:
        return int(read_i32_le(self.value, self.ranks_at + 4 * row)) & _U32

    def position_us(self, row: int) -> int:
        if self.wide:
            return self.first_us + int(read_i64_le(self.value, self.positions_at + 8 * row))
        return self.first_us + (int(read_i32_le(self.value, self.positions_at + 4 * row)) & _U32)

    def row_at(self, position_us: int) -> int:
        """The row of a position; -1 if there is none."""
        for row in range(self.count):
            if self.position_us(row) == position_us:
                return row
        return -1

    # ---- topics and publishers

    @property
    def topics(self) -> list[bytes]:
        """In byte order."""
        if not self._all_topics:
            self._all_topics = read_names(self.value, self.topic_lengths_at, self.topic_count, self.topic_names_at)
        return self._all_topics

    def runs(self) -> list[int]:
        """How many rows each topic has."""
        return [int(read_i32_le(self.value, HEADER_BYTES + 4 * number)) & _U32 for number in range(self.topic_count)]

    def publisher_names(self) -> list[bytes]:
        """By number. Whether they are UTF-8 is not checked."""
        return read_names(self.value, self.publisher_lengths_at, self.publisher_count, self.publisher_names_at)

    def matching_rows(self, levels: tuple[bytes, ...]) -> list[int]:
        """The rows that match a filter: begin, end, begin, end, … No levels at all match everything."""
        if not levels:
            return [0, self.count]
        if levels[0] == REST:
            # Everything but `$`-topics [MQTT-4.7.2-1].
            first, end = self._topics_with(_DOLLAR)
            wanted = [True] * first + [False] * (end - first) + [True] * (self.topic_count - end)
            return self._rows_of(0, wanted)
        first, end = self._topics_with(literal_prefix(levels))
        return self._rows_of(first, matching_topics(levels, [self._topic(number) for number in range(first, end)]))

    def _topics_with(self, prefix: bytes) -> tuple[int, int]:
        """The topics [first, end) that begin with `prefix`, by number."""
        size = len(prefix)
        first, high = 0, self.topic_count
        while first < high:
            middle = (first + high) // 2
            if self._topic(middle)[:size] < prefix:
                first = middle + 1
            else:
                high = middle
        end, high = first, self.topic_count
        while end < high:
            middle = (end + high) // 2
            if self._topic(middle)[:size] == prefix:
                end = middle + 1
            else:
                high = middle
        return first, end

    def _topic(self, number: int) -> bytes:
        if not len(self._topic_bounds):
            self._topic_bounds = _bounds16(self.value, self.topic_lengths_at, self.topic_count, self.topic_names_at)
        bounds = self._topic_bounds
        return self.value[bounds[number] : bounds[number + 1]]

    def _rows_of(self, first: int, wanted: list[bool]) -> list[int]:
        """The rows of those topics that are wanted, as above; they are the topics from `first` on."""
        found: list[int] = []
        row = sum32(self.value, HEADER_BYTES, first)
        at = HEADER_BYTES + 4 * first
        for one in wanted:
            end = row + (int(read_i32_le(self.value, at)) & _U32)
            if one and found and found[-1] == row:
                found[-1] = end
            elif one:
                found.append(row)
                found.append(end)
            row = end
            at += 4
        return found

    # ---- messages

    def prepare(self) -> None:
        """Get ready for reading many rows: a single one is found without, by adding up lengths."""
        if len(self._payload_bounds):
            return
        value = self.value
        self._publishers = read_publishers(
            value, self.publisher_lengths_at, self.publisher_count, self.publisher_names_at
        )
        self._payload_bounds = _bounds32(value, self.payload_lengths_at, self.count, self.payloads_at)
        if self.property_lengths_at:
            self._property_bounds = _bounds32(value, self.property_lengths_at, self.count, self.properties_at)
        self._topic_numbers = _numbers(value, self.topic_count)
        if 2 * self.topic_count <= self.count:
            self._all_topics = self.topics  # rows share them

    def held_bytes(self) -> int:
        """The memory that the page takes, about."""
        bounds = len(self._topic_bounds) + len(self._payload_bounds) + len(self._property_bounds)
        numbers = 4 * int(bounds + len(self._topic_numbers))
        names = _NAME_BYTES * (len(self._all_topics) + len(self._publishers))
        if self._all_topics:
            names += self.publisher_names_at - self.topic_names_at
        return len(self.value) + numbers + names

    def message(self, row: int, shard: int) -> Message:
        value = self.value
        publisher = int(read_i16_le(value, self.publishers_at + 2 * row)) & 0xFFFF
        if publisher >= self.publisher_count:
            raise PermanentError(f"row {row} of a page has publisher {publisher}, there are {self.publisher_count}")
        properties = b""
        if len(self._payload_bounds):
            bounds = self._payload_bounds
            payload = value[bounds[row] : bounds[row + 1]]
            if self.property_lengths_at:
                bounds = self._property_bounds
                properties = value[bounds[row] : bounds[row + 1]]
            topic = int(self._topic_numbers[row])
            name = self._publishers[publisher]
        else:
            payload = self._part(row, self.payload_lengths_at, self.payloads_at)
            if self.property_lengths_at:
                properties = self._part(row, self.property_lengths_at, self.properties_at)
            topic = self._topic_of(row)
            lengths_at = self.publisher_lengths_at
            at = self.publisher_names_at + sum16(value, lengths_at, publisher)
            name = read_publishers(value, lengths_at + 2 * publisher, 1, at)[0]
        flags = value[self.flags_at + row]
        message = row_message(
            self._all_topics[topic] if self._all_topics else self._topic(topic),
            payload,
            name,
            flags,
            self._received_us(row),
            self._expiry_s(row) if flags & EXPIRES else 0,
            properties,
        )
        message.shard = shard
        message.position_us = self.position_us(row)
        return message

    def _part(self, row: int, lengths_at: int, first_at: int) -> bytes:
        """The payload or the properties of a row."""
        at = first_at + sum32(self.value, lengths_at, row)
        return self.value[at : at + (int(read_i32_le(self.value, lengths_at + 4 * row)) & _U32)]

    def _topic_of(self, row: int) -> int:
        end = 0
        for number in range(self.topic_count):
            end += int(read_i32_le(self.value, HEADER_BYTES + 4 * number)) & _U32
            if row < end:
                return number
        raise MisuseError(f"a page of {self.count} messages has no row {row}")

    def record(self, row: int) -> bytes:
        """The same as a message record (`messages.py`)."""
        message = self.message(row, 0)
        return encode_message(message, message.position_us, self.first_serial + self.rank(row))

    def records(self, lo_us: int, hi_us: int, levels: tuple[bytes, ...] = ()) -> list[bytes]:
        """Message records of the rows with positions of [lo, hi) that match a filter."""
        self.prepare()
        found: list[bytes] = []
        runs = self.matching_rows(levels)
        for number in range(0, len(runs), 2):
            rows = range(runs[number], runs[number + 1])
            found.extend([self.record(row) for row in rows if lo_us <= self.position_us(row) < hi_us])
        return found

    def _received_us(self, row: int) -> int:
        if self.wide:
            return self.first_received_us + int(read_i64_le(self.value, self.received_at + 8 * row))
        return self.first_received_us + (int(read_i32_le(self.value, self.received_at + 4 * row)) & _U32)

    def _expiry_s(self, row: int) -> int:
        if not self.expiry_at:
            raise PermanentError("a message of a page expires, and the page has no column for that")
        return int(read_i32_le(self.value, self.expiry_at + 4 * row)) & _U32


def _bounds16(value: bytes, lengths_at: i64, count: i64, at: i64) -> vec[i32]:
    """Where parts begin that lie behind each other, and where the last one ends."""
    found = vec[i32](capacity=count + 1)
    number: i64 = 0
    while number < count:
        found = append(found, i32(at))
        at += i64(read_i16_le(value, lengths_at + 2 * number)) & 0xFFFF
        number += 1
    return append(found, i32(at))


def _bounds32(value: bytes, lengths_at: i64, count: i64, at: i64) -> vec[i32]:
    """The same for lengths of 4 bytes."""
    found = vec[i32](capacity=count + 1)
    number: i64 = 0
    while number < count:
        found = append(found, i32(at))
        at += i64(read_i32_le(value, lengths_at + 4 * number)) & _U32
        number += 1
    return append(found, i32(at))


def _numbers(value: bytes, topics: i64) -> vec[i32]:
    """The number of the topic of each row."""
    found = vec[i32]()
    number: i64 = 0
    while number < topics:
        rows = i64(read_i32_le(value, HEADER_BYTES + 4 * number)) & _U32
        while rows > 0:
            found = append(found, i32(number))
            rows -= 1
        number += 1
    return found
