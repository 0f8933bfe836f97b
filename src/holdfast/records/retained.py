"""Retained messages on disk: each whole, under a key that sorts by levels.

    00                                   how many there are u64, and the number of the last change u64
    01 | topic, each `/` as 00           the message retained under a topic
    02 | expires i64 | topic, as above   that it expires; the value is empty

    value     0  version   u8    1
              1  shard     u16   where the message was stored
              3  stored    i64   µs; the number of the change, so it increases
             11  the message, as in records/messages.py

No topic contains U+0000, so 00 is below every byte of a level, and a subtree lies together with its root in front:

    a · a/b · a/b/c · a/c · a-b · b            by levels
    a · a-b · a/b · a/b/c · a/c · b            by bytes: `a-b` would stand inside `a`

A message with an empty payload says that the topic has none: MQTT removes one that way, and between nodes the removal
has to be kept for a while, because it is compared with what the others have (`newer`).
"""

from struct import Struct
from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.fields import RecordReader, i64, key_u64, u8, u16
from holdfast.records.messages import StoredMessage, decode_message, encode_message

#: Never change.
VERSION: Final = 1
COUNT_KEY: Final = b"\x00"
MESSAGE: Final = 0x01
EXPIRY: Final = 0x02

_TIME: Final = Struct(">Q")
_ORDER: Final = Struct("<Hq")
_ORDER_END: Final = 11
#: Where the length of the payload stands: behind the fields here, in the header of a message.
_PAYLOAD_AT: Final = 11 + 10


class RetainedRecord:
    """The last retained message of a topic, or its removal."""

    def __init__(self, stored: StoredMessage, shard: int, stored_us: int) -> None:
        self.stored: Final = stored
        self.shard: Final = shard
        self.stored_us: Final = stored_us

    def removed(self) -> bool:
        return not self.stored.message.payload

    def newer(self, other: "RetainedRecord") -> bool:
        """Whether it wins over `other`: the greatest (position, shard, serial) does, removal or not."""
        return self._order() > other._order()

    def _order(self) -> tuple[int, int, int]:
        return (self.stored.position_us, self.shard, self.stored.serial)


def encode_retained(record: RetainedRecord) -> bytes:
    stored = record.stored
    message = encode_message(stored.message, stored.position_us, stored.serial)
    return b"".join((u8(VERSION), u16(record.shard), i64(record.stored_us), message))


def decode_retained(value: bytes) -> RetainedRecord:
    fields = RecordReader(value, "a retained message", VERSION)
    shard = fields.u16("the shard")
    stored_us = fields.i64("the time")
    return RetainedRecord(decode_message(fields.rest()), shard, stored_us)


def has_payload(value: bytes) -> bool:
    """Whether a stored record is a message, and not a removal; a message if it cannot be read."""
    payload_bytes = value[_PAYLOAD_AT : _PAYLOAD_AT + 4]
    return len(payload_bytes) < 4 or any(payload_bytes)


def retained_order(value: bytes) -> tuple[int, int]:
    """(version, shard) of a stored record: of several vnodes the greatest one of a topic wins."""
    if len(value) < _ORDER_END or value[0] != VERSION:
        raise PermanentError(f"a retained message has {len(value)} bytes, and begins with {value[:1].hex() or 'none'}")
    shard, version = _ORDER.unpack_from(value, 1)
    return int(version), int(shard)


def retained_key(topic: bytes) -> bytes:
    if 0 in topic or not topic:
        raise MisuseError(f"{topic!r} is no topic: it is empty or contains U+0000")
    return b"\x01" + topic.replace(b"/", b"\x00")


def retained_topic(key: bytes) -> bytes:
    if key[:1] != b"\x01" or b"/" in key:
        raise PermanentError(f"key {key.hex()} is not the key of a retained message")
    return key[1:].replace(b"\x00", b"/")


def subtree(levels: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """The range [lo, hi) of a topic and everything below it; of all topics if there are no levels.

    A reader that skips from one child to the next seeks to `hi` of the child.
    """
    if not levels:
        return b"\x01", b"\x02"
    root = b"\x01" + b"\x00".join(levels)
    return root, root + b"\x01"


def expiry_key(expires_us: int, topic: bytes) -> bytes:
    return b"\x02" + key_u64(expires_us) + retained_key(topic)[1:]


def expiry_parts(key: bytes) -> tuple[int, bytes]:
    """When, and which topic."""
    if len(key) < 10 or key[0] != EXPIRY or b"/" in key[9:]:
        raise PermanentError(f"key {key.hex()} does not say when a retained message expires")
    return int(_TIME.unpack_from(key, 1)[0]), key[9:].replace(b"\x00", b"/")


def expired_until(now_us: int) -> tuple[bytes, bytes]:
    """The range [lo, hi) of the keys of what has expired at `now_us`."""
    return b"\x02", b"\x02" + key_u64(now_us + 1)
