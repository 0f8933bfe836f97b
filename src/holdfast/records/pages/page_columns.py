"""What commit pages and pages of segments have in common: their header, and the columns of their messages.

Both kinds number publishers from 0 in the order of their first use in the page. See `commit_pages.py` for all columns,
and `segment_pages.py` for what differs.
"""

from struct import Struct
from typing import Final

from librt.strings import BytesWriter, read_i16_le, read_i32_le, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i64

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import SECOND_US
from holdfast.records.messages import EXPIRES, FLAGS, QOS, RETAIN, expiry_seconds

#: Version, shape, messages, topics, publishers, first position, first serial, first received, bytes of payloads and of
#: properties. Never change.
HEADER: Final = Struct("<BBIIIqQqII")
HEADER_BYTES: Final = 46
#: Of the shape. Never change.
HAS_PROPERTIES: Final = 0x02
HAS_EXPIRY: Final = 0x04
HAS_POSITIONS: Final = 0x08
WIDE_TIMES: Final = 0x10

_I16: Final = 1 << 15
_I32: Final = 1 << 31


# ---- encoding


def measure(messages: list[Message], first_received_us: int) -> tuple[int, int, int]:
    """The shape of a page as far as all pages have it, the bytes of payloads, and those of properties."""
    payload_bytes: i64 = 0
    property_bytes: i64 = 0
    shape = 0
    for message in messages:
        payload_bytes += len(message.payload)
        property_bytes += len(message.properties)
        if message.expires_us:
            shape |= HAS_EXPIRY
        if not 0 <= message.received_us - first_received_us < _I32:
            shape |= WIDE_TIMES
    if property_bytes:
        shape |= HAS_PROPERTIES
    return shape, payload_bytes, property_bytes


def publisher_column(messages: list[Message]) -> tuple[bytes, list[bytes]]:
    """The number of each message's publisher, and the names of publishers by number."""
    column = BytesWriter()
    numbers: dict[str, int] = {}
    last = ""
    number = 0
    for message in messages:
        publisher: str = message.publisher
        if publisher is not last or not numbers:
            number = numbers.get(publisher, -_I32)
            if number == -_I32:
                number = numbers[publisher] = signed16(len(numbers))
            last = publisher
        write_i16_le(column, number)
    return column.getvalue(), [name.encode() for name in numbers]


def flags_column(messages: list[Message]) -> bytes:
    column = BytesWriter()
    for message in messages:
        flags = message.qos
        if message.retain:
            flags |= RETAIN
        if message.expires_us:
            flags |= EXPIRES
        column.append(flags)
    return column.getvalue()


def received_column(messages: list[Message], first_us: int, *, wide: bool) -> bytes:
    column = BytesWriter()
    for message in messages:
        if wide:
            write_i64_le(column, message.received_us - first_us)
        else:
            write_i32_le(column, message.received_us - first_us)
    return column.getvalue()


def payload_column(messages: list[Message]) -> bytes:
    """The length of each payload."""
    column = BytesWriter()
    for message in messages:
        write_i32_le(column, len(message.payload))
    return column.getvalue()


def optional_columns(messages: list[Message], topics: list[bytes], names: list[bytes], shape: int) -> bytes:
    """The columns that a shape asks for, and the lengths of topics and publishers."""
    columns = BytesWriter()
    if shape & HAS_PROPERTIES:
        for message in messages:
            write_i32_le(columns, len(message.properties))
    if shape & HAS_EXPIRY:
        for message in messages:
            write_i32_le(columns, signed32(expiry_seconds(message) if message.expires_us else 0))
    if shape & HAS_POSITIONS:
        for message in messages:
            write_i64_le(columns, message.position_us)
    for topic in topics:
        write_i16_le(columns, signed16(len(topic)))
    for name in names:
        write_i16_le(columns, signed16(len(name)))
    return columns.getvalue()


def signed16(number: int) -> int:
    """The signed number with the same 16 bits."""
    if not 0 <= number < 2 * _I16:
        raise MisuseError(f"{number} does not fit into 16 bits of a commit page")
    return number if number < _I16 else number - 2 * _I16


def signed32(number: int) -> int:
    """The signed number with the same 32 bits."""
    if not 0 <= number < 2 * _I32:
        raise MisuseError(f"{number} does not fit into 32 bits of a commit page")
    return number if number < _I32 else number - 2 * _I32


# ---- decoding


def row_message(
    topic: bytes, payload: bytes, publisher: ClientId, flags: int, received_us: int, expiry_s: int, properties: bytes
) -> Message:
    """The message of a row; `expiry_s` counts if its flags say that it expires."""
    if flags > FLAGS or flags & QOS == QOS:
        raise PermanentError(f"a message of a page has flags 0x{flags:02X}, which no version wrote")
    return Message(
        topic,
        payload,
        flags & QOS,
        publisher,
        received_us,
        retain=flags & RETAIN != 0,
        properties=properties,
        expires_us=received_us + max(expiry_s * SECOND_US, 1) if flags & EXPIRES else 0,
    )


def read_names(value: bytes, lengths_at: i64, count: i64, at: i64) -> list[bytes]:
    found: list[bytes] = []
    last_at = lengths_at + 2 * count
    while lengths_at < last_at:
        end = at + (i64(read_i16_le(value, lengths_at)) & 0xFFFF)
        found.append(value[at:end])
        at = end
        lengths_at += 2
    return found


def read_publishers(value: bytes, lengths_at: int, count: int, at: int) -> list[ClientId]:
    try:
        return [ClientId(name.decode()) for name in read_names(value, lengths_at, count, at)]
    except UnicodeDecodeError as wrong:
        raise PermanentError(f"a page names a publisher that is not UTF-8 ({wrong.reason})") from wrong


def sum16(value: bytes, at: i64, count: i64) -> int:
    total: i64 = 0
    end = at + 2 * count
    while at < end:
        total += i64(read_i16_le(value, at)) & 0xFFFF
        at += 2
    return total


def sum32(value: bytes, at: i64, count: i64) -> int:
    total: i64 = 0
    end = at + 4 * count
    while at < end:
        total += i64(read_i32_le(value, at)) & 0xFFFF_FFFF
        at += 4
    return total
