"""A message in a client's queue, as every queue backend keeps it.

     0  version       u8    1
     1  flags         u8    bits 0-1 QoS for this client, bit 2 retain
     2  identifiers   u16   how many
     4  number        u64
    12  expires       i64   µs; 0 for never
    20  identifiers   u32   each
    ..  message             as the log has it (`messages.py`), with zeros for its place

Its place in the queue and whether PUBREC came for it are kept beside it, because they come later.
"""

from struct import Struct
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.model.owed import Owed
from holdfast.records.messages import decode_message, encode_message

#: Never change.
VERSION: Final = 1
_QOS: Final = 0x03
_RETAIN: Final = 0x04
_FLAGS: Final = 0x07

_HEADER: Final = Struct("<BBHQq")
_HEADER_BYTES: Final = 20
_U32: Final = Struct("<I")


def encode_queued(owed: Owed, number: int, expires_us: int) -> bytes:
    """The value to store."""
    flags = owed.qos
    if owed.retain:
        flags |= _RETAIN
    header = _HEADER.pack(VERSION, flags, len(owed.identifiers), number, expires_us)
    parts = [header]
    for identifier in owed.identifiers:
        parts.append(_U32.pack(identifier))  # noqa: PERF401
    parts.append(encode_message(owed.message, 0, 0))
    return b"".join(parts)


def decode_queued(value: bytes, serial: int) -> tuple[Owed, int, int]:
    """What `encode_queued` wrote, with its number and expiry; PermanentError says where the bytes are damaged."""
    if len(value) < _HEADER_BYTES:
        raise PermanentError(f"a queued message has {len(value)} bytes, its header alone has {_HEADER_BYTES}")
    version, flags, count, number, expires_us = _HEADER.unpack_from(value)
    if version != VERSION:
        raise PermanentError(f"a queued message has version {version}, this Holdfast reads version {VERSION}")
    if flags > _FLAGS or flags & _QOS == _QOS:
        raise PermanentError(f"a queued message has flags 0x{flags:02X}, which no version wrote")
    message_at = _HEADER_BYTES + 4 * count
    if len(value) < message_at:
        raise PermanentError(f"a queued message has {len(value)} bytes, and {count} identifiers do not fit into them")
    identifiers: list[int] = []
    for index in range(count):
        identifiers.append(int(_U32.unpack_from(value, _HEADER_BYTES + 4 * index)[0]))  # noqa: PERF401
    message = decode_message(value[message_at:]).message
    owed = Owed(message, flags & _QOS, retain=flags & _RETAIN != 0, identifiers=tuple(identifiers), serial=serial)
    return owed, int(number), int(expires_us)


def queued_number(value: bytes) -> int:
    """The number alone. Requires: a value that `encode_queued` wrote; nothing is checked."""
    return int(_HEADER.unpack_from(value)[3])


def queued_expiry(value: bytes) -> int:
    """The expiry alone. Requires: a value that `encode_queued` wrote; nothing is checked."""
    return int(_HEADER.unpack_from(value)[4])
