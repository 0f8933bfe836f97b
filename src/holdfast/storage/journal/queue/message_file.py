"""One file of messages: an index of their offsets, appending, and reading.

Memory holds 32 bytes for each message from the first owed one on, in arrays: its number, offset, length, size and
expiry. Messages themselves stay on disk.
"""

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.folders import write_all
from holdfast.files.private import FILE_MODE
from holdfast.model.errors import PermanentError
from holdfast.records.queued_message import queued_expiry, queued_number
from holdfast.storage.journal.queue.message_records import (
    HEADER_BYTES,
    MESSAGE,
    MessageRecord,
    decode_header,
    decode_record,
    encode_header,
    record_bytes,
)

#: Bytes per read of a scan.
_CHUNK_BYTES: Final = 1 << 20


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
                wanted = max(_CHUNK_BYTES, record_bytes(data, at) if len(data) - at >= 4 else 0)
                more = file.read(wanted - (len(data) - at)) if len(data) - at < wanted else b""
                if not more:
                    return
                data, at = data[at:] + more, 0
                continue
            yield PlacedRecord(record, offset)
            at += record.length_bytes
            offset += record.length_bytes
