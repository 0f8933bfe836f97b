"""`messages.<id>.log`: a header, then a record for each message; an index of their offsets, appending, and reading.

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
3. Memory holds 32 bytes for each message from the first owed one on, in arrays: its number, offset, length, size and
   expiry. Messages themselves stay on disk.
"""

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.files.folders import write_all
from holdfast.files.private import FILE_MODE
from holdfast.model.errors import PermanentError
from holdfast.records.queued_message import queued_expiry, queued_number

#: Never change.
MAGIC: Final = b"HFJM"
VERSION: Final = 1
MESSAGE: Final = 1
FULL: Final = 2

_HEADER: Final = Struct("<4sBIQ24s")
_U32: Final = Struct("<I")
_HEAD: Final = Struct("<II")
_BODY: Final = Struct("<BQI")
HEADER_BYTES: Final = _HEADER.size + _U32.size
#: A body is never longer: the largest packet of MQTT has 256 MiB, and a little stands in front of it.
MAX_BODY_BYTES: Final = 300 << 20
#: Bytes per read of a scan.
_CHUNK_BYTES: Final = 1 << 20


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
    return header + _U32.pack(crc32(header))


def decode_header(data: bytes, file: int, queue: bytes) -> int:
    """The serial of the file's first message; PermanentError says what is wrong with the header."""
    if len(data) < HEADER_BYTES:
        raise PermanentError(f"messages.{file:08x}.log has {len(data)} bytes, its header alone has {HEADER_BYTES}")
    header = data[: _HEADER.size]
    if _U32.unpack_from(data, _HEADER.size)[0] != crc32(header):
        raise PermanentError(f"messages.{file:08x}.log has a damaged header")
    magic, version, number, first_serial, owner = _HEADER.unpack(header)
    if (magic, version) != (MAGIC, VERSION):
        raise PermanentError(f"messages.{file:08x}.log has version {version}, this Holdfast reads version {VERSION}")
    if number != file or owner != queue:
        raise PermanentError(f"messages.{file:08x}.log is another file, or of another queue")
    return int(first_serial)


def encode_record(kind: int, serial: int, size_bytes: int, value: bytes) -> bytes:
    body = _BODY.pack(kind, serial, size_bytes) + value
    length = _U32.pack(len(body))
    return length + _U32.pack(crc32(body, crc32(length))) + body


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


def _record_bytes(data: bytes, at: int) -> int:
    """How many bytes the record has that begins at `at`; 0 if that is not known, or none can be that long."""
    length = int(_U32.unpack_from(data, at)[0]) if len(data) - at >= _U32.size else 0
    return _HEAD.size + length if _BODY.size <= length <= MAX_BODY_BYTES else 0


class PlacedRecord(NamedTuple):
    """A record as it is, or will be, in a file."""

    record: MessageRecord
    offset: int


def file_name(number: int) -> str:
    return f"messages.{number:08x}.log"


class MessageFile:
    """1. Its messages are `serials()`, without gaps; all before `first_indexed` are acknowledged.
    2. `end_bytes` is the offset of the next record; nothing is behind it.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        first_serial: int,
        *,
        skipped: int = 0,
        end_bytes: int = 0,
        writable: bool = True,
    ) -> None:
        self.path: Final = folder / file_name(number)
        self.number: Final = number
        self.first_serial: Final = first_serial
        #: The first serial in the arrays.
        self.first_indexed: Final = first_serial + skipped
        self.end_bytes = end_bytes
        #: How many of its messages are still owed.
        self.live = 0
        self._numbers: Final = array("Q")
        self._offsets: Final = array("Q")
        self._lengths: Final = array("I")
        self._sizes: Final = array("I")
        self._expires: Final = array("q")
        self._flags: Final = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self._descriptor = -1

    @property
    def messages(self) -> int:
        """All messages of the file, owed or not."""
        return self.last_serial - self.first_serial + 1

    @property
    def last_serial(self) -> int:
        return self.first_indexed + len(self._offsets) - 1

    def serials(self) -> range:
        return range(self.first_indexed, self.last_serial + 1)

    def number_of(self, serial: int) -> int:
        return self._numbers[serial - self.first_indexed]

    def size_of(self, serial: int) -> int:
        return self._sizes[serial - self.first_indexed]

    def expiry_of(self, serial: int) -> int:
        return self._expires[serial - self.first_indexed]

    def offset_of(self, serial: int) -> int:
        return self._offsets[serial - self.first_indexed]

    def index_bytes(self) -> int:
        """The size of the arrays."""
        arrays = (self._numbers, self._offsets, self._lengths, self._sizes, self._expires)
        return sum(each.itemsize * len(each) for each in arrays)

    def add_to_index(self, placed: PlacedRecord) -> None:
        record, offset = placed
        self.end_bytes = offset + record.length_bytes
        if record.kind == MESSAGE:
            self._numbers.append(queued_number(record.value))
            self._offsets.append(offset)
            self._lengths.append(record.length_bytes)
            self._sizes.append(record.size_bytes)
            self._expires.append(queued_expiry(record.value))
            self.live += 1

    # ---- bytes

    def write(self, data: bytes, queue: bytes) -> int:
        """Append encoded records; returns their offset. OSError: nothing was appended.

        Survives: a killed process.
        """
        begin = self.end_bytes
        if not begin:
            header = encode_header(self.number, self.first_serial, queue)
            data = header + data
        try:
            write_all(self._open(), data, begin)
        except OSError:
            os.ftruncate(self._open(), begin)
            raise
        self.end_bytes = begin + len(data)
        return begin or HEADER_BYTES

    def read(self, serial: int) -> MessageRecord:
        """PermanentError if the bytes are not those that were written."""
        at = serial - self.first_indexed
        data = os.pread(self._open(), self._lengths[at], self._offsets[at])
        record = decode_record(data)
        if record is None or record.serial != serial:
            raise PermanentError(f"{self.path}: the message at byte {self._offsets[at]} is damaged")
        return record

    def truncate(self, end_bytes: int) -> None:
        os.ftruncate(self._open(), end_bytes)

    def sync(self) -> None:
        os.fdatasync(self._open())

    def _open(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, self._flags | os.O_CLOEXEC, FILE_MODE)
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_header(path: Path, number: int, queue: bytes) -> int:
    """The first serial of a file; PermanentError if it is not readable, FileNotFoundError if it is not there."""
    with path.open("rb") as file:
        return decode_header(file.read(HEADER_BYTES), number, queue)


def scan(path: Path, begin: int) -> Iterator[PlacedRecord]:
    """The records of a file from a byte on, up to the first that is not whole. It reads the present content."""
    with path.open("rb") as file:
        file.seek(begin)
        data, at, offset = b"", 0, begin
        while True:
            record = decode_record(data, at)
            if record is None:
                wanted = max(_CHUNK_BYTES, _record_bytes(data, at))
                more = file.read(wanted - (len(data) - at)) if len(data) - at < wanted else b""
                if not more:
                    return
                data, at = data[at:] + more, 0
                continue
            yield PlacedRecord(record, offset)
            at += record.length_bytes
            offset += record.length_bytes
