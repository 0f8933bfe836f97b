"""A message as it lies on disk: a header of fixed size, then the bytes that came over the wire.

     0  version      u8    1
     1  flags        u8    bits 0-1 QoS, bit 2 retain, bit 3 expires
     2  topic        u16   bytes
     4  publisher    u16   bytes
     6  properties   u32   bytes
    10  payload      u32   bytes
    14  position     i64   µs, unique and increasing in its shard
    22  serial       u64   dense in its shard, the first is 1
    30  received     i64   µs
    38  expiry       u32   s; 0 unless bit 3 is set
    42  topic · publisher (UTF-8) · properties · payload

Little-endian and packed, so that numpy reads a column of headers at once (`history/arrow/message_batches.py`).

1. These bytes never change. A new version is a new module, and this one stays to read what is there.
2. The lengths in the header add up to the length of the value: a cut or joined record is noticed.
3. Expiry is kept in whole seconds, as MQTT gives it; bit 3 tells 0 seconds from never.
"""

from struct import Struct, error
from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import SECOND_US

#: Never change.
VERSION: Final = 1
HEADER_BYTES: Final = 42

#: Never change.
QOS: Final = 0x03
RETAIN: Final = 0x04
EXPIRES: Final = 0x08
FLAGS: Final = 0x0F


_HEADER: Final = Struct("<BBHHIIqQqI")
# Bound once: looking a method up costs as much as packing a field.
_pack_header: Final = _HEADER.pack
_unpack_header: Final = _HEADER.unpack_from
_unpack_position: Final = Struct("<q").unpack_from
_unpack_serial: Final = Struct("<Q").unpack_from
_unpack_payload_bytes: Final = Struct("<I").unpack_from


class StoredMessage:
    """A message with the place that its shard gave it."""

    def __init__(self, message: Message, position_us: int, serial: int) -> None:
        self.message: Final = message
        self.position_us: Final = position_us
        self.serial: Final = serial

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StoredMessage)
            and self.position_us == other.position_us
            and self.serial == other.serial
            and self.message == other.message
        )

    def __hash__(self) -> int:
        return hash((self.position_us, self.serial))

    def __repr__(self) -> str:
        return f"StoredMessage({self.message!r}, position_us={self.position_us}, serial={self.serial})"


def encode_message(message: Message, position_us: int, serial: int) -> bytes:
    """The value to store. An expiry that is not in whole seconds is rounded up: nothing is dropped too early."""
    flags = message.qos
    expiry_s = 0
    if message.retain:
        flags |= RETAIN
    if message.expires_us:
        flags |= EXPIRES
        expiry_s = expiry_seconds(message)
    topic = message.topic
    publisher = message.publisher.encode()
    properties = message.properties
    payload = message.payload
    try:
        header = _pack_header(
            VERSION,
            flags,
            len(topic),
            len(publisher),
            len(properties),
            len(payload),
            position_us,
            serial,
            message.received_us,
            expiry_s,
        )
    except error as wrong:
        raise MisuseError(f"a number does not fit into a record's header ({wrong}): {message!r}") from wrong
    return b"".join((header, topic, publisher, properties, payload))


def expiry_seconds(message: Message) -> int:
    """How long after its arrival a message that expires does so; rounded up."""
    # One microsecond is how 0 seconds are told from never (see `decode_message`).
    left_us = message.expires_us - message.received_us
    return (left_us + SECOND_US - 1) // SECOND_US if left_us > 1 else 0


def decode_message(value: bytes) -> StoredMessage:
    """What `encode_message` wrote; PermanentError says where the bytes are damaged."""
    if len(value) < HEADER_BYTES:
        raise PermanentError(f"a message record has {len(value)} bytes, its header alone has {HEADER_BYTES}")
    (
        version,
        flags,
        topic_bytes,
        publisher_bytes,
        properties_bytes,
        payload_bytes,
        position_us,
        serial,
        received_us,
        expiry_s,
    ) = _unpack_header(value)
    if version != VERSION:
        raise PermanentError(f"a message record has version {version}, this Holdfast reads version {VERSION}")
    if flags > FLAGS or flags & QOS == QOS:
        raise PermanentError(f"a message record has flags 0x{flags:02X}, which no version wrote")
    publisher_at = HEADER_BYTES + topic_bytes
    properties_at = publisher_at + publisher_bytes
    payload_at = properties_at + properties_bytes
    end = payload_at + payload_bytes
    if end != len(value):
        raise PermanentError(f"a message record has {len(value)} bytes, the lengths in its header add up to {end}")
    try:
        publisher = value[publisher_at:properties_at].decode()
    except UnicodeDecodeError as wrong:
        raise PermanentError(f"a message record names a publisher that is not UTF-8 ({wrong.reason})") from wrong
    expires_us = 0
    if flags & EXPIRES:
        expires_us = received_us + max(expiry_s * SECOND_US, 1)
    message = Message(
        value[HEADER_BYTES:publisher_at],
        value[payload_at:],
        flags & QOS,
        ClientId(publisher),
        received_us,
        retain=flags & RETAIN != 0,
        properties=value[properties_at:payload_at],
        expires_us=expires_us,
    )
    return StoredMessage(message, position_us, serial)


def stored_topic(value: bytes) -> bytes:
    """The topic alone. Requires: a value that `encode_message` wrote; nothing is checked."""
    return value[HEADER_BYTES : HEADER_BYTES + value[2] + (value[3] << 8)]


def stored_publisher(value: bytes) -> str:
    """The publisher alone. Requires: a value that `encode_message` wrote; nothing is checked."""
    start = HEADER_BYTES + value[2] + (value[3] << 8)
    return value[start : start + value[4] + (value[5] << 8)].decode()


def stored_payload(value: bytes) -> bytes:
    """The payload alone. Requires: a value that `encode_message` wrote; nothing is checked."""
    return value[len(value) - int(_unpack_payload_bytes(value, 10)[0]) :]


def stored_position(value: bytes) -> int:
    """The position alone. Requires: a value that `encode_message` wrote; nothing is checked."""
    return int(_unpack_position(value, 14)[0])


def stored_serial(value: bytes) -> int:
    """The serial alone. Requires: a value that `encode_message` wrote; nothing is checked."""
    return int(_unpack_serial(value, 22)[0])
