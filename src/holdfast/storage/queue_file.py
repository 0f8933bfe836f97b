"""Client queues in one file, for backup or transport: versioned, and with checksums.

     0  magic     8 bytes  HFQUEUE1                                       never change
     8  parts, each:
          0  length    u32      bytes of the content
          4  check     u32      CRC-32 of kind and content
          8  kind      u8
          9  content

    kind 1  a queue    JSON: `client`, `serial` and `number`, the last ones
    kind 2  a message  serial u64 │ released u8 │ as `records/queued_message.py` has it
    kind 3  the end    JSON: `queues`, `messages`; nothing follows

1. Messages follow their queue, in the order of serials.
2. A file without its end, or with wrong counts, is incomplete, and nothing of it is imported.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, NamedTuple, Protocol
from zlib import crc32

from holdfast.durable.queues.queue_store import QueueEntry
from holdfast.model.errors import PermanentError
from holdfast.records.queued_message import decode_queued, encode_queued

#: Never change.
MAGIC: Final = b"HFQUEUE1"
_QUEUE: Final = 1
_MESSAGE: Final = 2
_END: Final = 3
_HEAD: Final = Struct("<IIB")
_PLACE: Final = Struct("<QB")
#: The largest packet of MQTT has 256 MiB.
_MAX_BYTES: Final = 300 << 20


class BinaryOutput(Protocol):
    def write(self, data: bytes, /) -> int: ...


class QueueFileWriter:
    """Requires: `queue` before `message`, and `end` last."""

    def __init__(self, output: BinaryOutput) -> None:
        self._output: Final = output
        self.queues = 0
        self.messages = 0
        output.write(MAGIC)

    def queue(self, client_id: str, serial: int, number: int) -> None:
        self.queues += 1
        self._part(_QUEUE, json.dumps({"client": client_id, "serial": serial, "number": number}).encode())

    def message(self, entry: QueueEntry) -> None:
        self.messages += 1
        value = encode_queued(entry.owed, entry.number, entry.expires_us)
        self._part(_MESSAGE, _PLACE.pack(entry.owed.serial, entry.released) + value)

    def end(self) -> None:
        self._part(_END, json.dumps({"queues": self.queues, "messages": self.messages}).encode())

    def _part(self, kind: int, content: bytes) -> None:
        check = crc32(content, crc32(bytes([kind])))
        self._output.write(_HEAD.pack(len(content), check, kind) + content)


class FiledQueue(NamedTuple):
    """A queue in a file."""

    client_id: str
    serial: int
    number: int
    #: Where its messages begin, in bytes.
    offset: int
    messages: int


class QueueFile:
    """Reads a file, as a source of `queue_copy`. It checks the whole file first; PermanentError if it is damaged."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self.queues: Final[dict[str, FiledQueue]] = {}
        self.messages = 0
        self._check()

    def _check(self) -> None:
        is_whole = False
        with self._path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise PermanentError(f"{self._path} is no file of queues: it does not begin with {MAGIC.decode()}")
            owner = ""
            for kind, content in _parts(file, self._path):
                if is_whole:
                    raise PermanentError(f"{self._path} goes on behind its end")
                if kind == _QUEUE:
                    said = json.loads(content)
                    owner = said["client"]
                    self.queues[owner] = FiledQueue(owner, said["serial"], said["number"], file.tell(), 0)
                elif kind == _MESSAGE and self.queues:
                    self.messages += 1
                    self.queues[owner] = self.queues[owner]._replace(messages=self.queues[owner].messages + 1)
                elif kind == _END:
                    is_whole = json.loads(content) == {"queues": len(self.queues), "messages": self.messages}
        if not is_whole:
            raise PermanentError(f"{self._path} is not whole: its end, or something before it, is missing")

    async def last(self, client_id: str) -> tuple[int, int]:
        found = self.queues[client_id]
        return found.serial, found.number

    async def entries(self, client_id: str) -> AsyncIterator[QueueEntry]:
        with self._path.open("rb") as file:
            file.seek(self.queues[client_id].offset)
            for kind, content in _parts(file, self._path):
                if kind != _MESSAGE:
                    return
                serial, released = _PLACE.unpack_from(content)
                owed, number, expires_us = decode_queued(content[_PLACE.size :], serial)
                yield QueueEntry(number, owed, expires_us, released=bool(released))


def _parts(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise PermanentError(f"{path} is cut off")
        length, check, kind = _HEAD.unpack(head)
        content = file.read(min(length, _MAX_BYTES))
        if len(content) < length or crc32(content, crc32(bytes([kind]))) != check:
            raise PermanentError(f"{path} is cut off or damaged before byte {file.tell()}")
        yield kind, content
