"""The bytes of `messages.<id>.log`: a header, then a record for each message.

    header    0  magic     4 bytes  HFJM                                    never change
              4  version   u8       1
              5  file      u32      its number, as in its name
              9  serial    u64      of its first message
             17  queue     24 bytes the queue's id
             41  check     u32      CRC-32 of all before it

    record    0  length    u32      bytes of the body
              4  check     u32      CRC-32 of the length and the body
              8  kind      u8       1: a message, 2: the queue was full from here on
              9  serial    u64      its own, or for kind 2 the last one before it
             17  size      u32      what the message counts toward limits
             21  message            as `records/queued_message.py` has it; nothing for kind 2

1. Serials in a file are dense: a message's serial and its place in the file say the same.
2. Length and checksum tell a torn record from a whole one, wherever a file was cut.
"""

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.model.errors import PermanentError

#: Never change.
MAGIC: Final = b"HFJM"
VERSION: Final = 1
MESSAGE: Final = 1
FULL: Final = 2

_HEADER: Final = Struct("<4sBIQ24s")
_CHECK: Final = Struct("<I")
_HEAD: Final = Struct("<II")
_BODY: Final = Struct("<BQI")
HEADER_BYTES: Final = _HEADER.size + _CHECK.size
_LENGTH: Final = Struct("<I")
#: A body is never longer: the largest packet of MQTT has 256 MiB, and a little stands in front of it.
MAX_BODY_BYTES: Final = 300 << 20


class MessageRecord(NamedTuple):
    """What stands in a message file at one place."""

    kind: int
    serial: int
    size_bytes: int
    #: The message as `decode_queued` takes it; empty if there is none.
    value: bytes
    #: The whole record, with what stands in front of its body.
    encoded: bytes

    @property
    def length_bytes(self) -> int:
        return len(self.encoded)


def encode_header(file: int, first_serial: int, queue: bytes) -> bytes:
    header = _HEADER.pack(MAGIC, VERSION, file, first_serial, queue)
    return header + _CHECK.pack(crc32(header))


def decode_header(data: bytes, file: int, queue: bytes) -> int:
    """The serial of the file's first message; PermanentError says what is wrong with the header."""
    if len(data) < HEADER_BYTES:
        raise PermanentError(f"messages.{file:08x}.log has {len(data)} bytes, its header alone has {HEADER_BYTES}")
    header = data[: _HEADER.size]
    if _CHECK.unpack_from(data, _HEADER.size)[0] != crc32(header):
        raise PermanentError(f"messages.{file:08x}.log has a damaged header")
    magic, version, number, first_serial, owner = _HEADER.unpack(header)
    if (magic, version) != (MAGIC, VERSION):
        raise PermanentError(f"messages.{file:08x}.log has version {version}, this Holdfast reads version {VERSION}")
    if number != file or owner != queue:
        raise PermanentError(f"messages.{file:08x}.log is another file, or of another queue")
    return int(first_serial)


def encode_record(kind: int, serial: int, size_bytes: int, value: bytes) -> bytes:
    body = _BODY.pack(kind, serial, size_bytes) + value
    length = _LENGTH.pack(len(body))
    return length + _CHECK.pack(crc32(body, crc32(length))) + body


def decode_record(data: bytes, at: int = 0) -> MessageRecord | None:
    """The record that begins at `at`; None if there is no whole one."""
    if len(data) < at + _HEAD.size:
        return None
    length, check = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if not _BODY.size <= length <= MAX_BODY_BYTES or len(data) < end:
        return None
    body = data[at + _HEAD.size : end]
    if crc32(body, crc32(data[at : at + 4])) != check:
        return None
    kind, serial, size_bytes = _BODY.unpack_from(body)
    if kind not in (MESSAGE, FULL):
        return None
    return MessageRecord(kind, serial, size_bytes, body[_BODY.size :], data[at:end])


def record_bytes(data: bytes, at: int) -> int:
    """How many bytes the record has that begins at `at`, of which 8 are there; 0 if none can be that long."""
    length = int(_LENGTH.unpack_from(data, at)[0])
    return _HEAD.size + length if _BODY.size <= length <= MAX_BODY_BYTES else 0
