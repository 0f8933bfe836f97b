"""A change of one queue: messages that are removed, released and added. Applying it again changes nothing.

     0  kind       u8    1: a change, 2: the queue is removed
     1  full       u8    whether the queue is full from now on
     2  number     u64   the last one that the queue was given
    10  client     u32   bytes
    14  base       u32   bytes
    18  gone       u32   bytes
    22  released   u32   bytes
    26  records    u32   bytes
    30  client (UTF-8) · base · gone · released (text, as in `queue.log`) · records (as in `messages.<id>.log`)

`base` is the state of the queue before the change, as a line of `queue.log`. The first change of a queue in each commit
file has it: after any crash the queue can be taken back to that state, because it was synced.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from struct import Struct, error
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.queue.message_file import MessageRecord, decode_record

#: Never change.
CHANGE: Final = 1
REMOVED: Final = 2
_HEAD: Final = Struct("<BBQIIIII")


@dataclass
class QueueChange:
    """Fields as above. Serials in `gone` and `released` that the queue does not have are ignored."""

    client_id: str
    _: KW_ONLY
    kind: int = CHANGE
    full: bool = False
    number: int = 0
    gone: str = "-"
    released: str = "-"
    records: bytes = b""
    #: Set when the change is staged.
    base: bytes = b""

    def each_record(self) -> Iterator[MessageRecord]:
        at = 0
        while at < len(self.records):
            record = decode_record(self.records, at)
            if record is None:
                raise PermanentError("a change holds a record that is not whole")
            at += record.length_bytes
            yield record

    def encode(self) -> bytes:
        texts = (self.client_id.encode(), self.base, self.gone.encode(), self.released.encode(), self.records)
        return b"".join((_HEAD.pack(self.kind, self.full, self.number, *map(len, texts)), *texts))


def decode_changes(data: bytes) -> list[QueueChange]:
    """Decode consecutive changes; PermanentError if the bytes are malformed."""
    found: list[QueueChange] = []
    at = 0
    try:
        while at < len(data):
            kind, full, number, *lengths = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            parts: list[bytes] = []
            for length in lengths:
                parts.append(data[at : at + length])
                at += length
            client, base, gone, released, records = parts
            change = QueueChange(
                client.decode(),
                kind=kind,
                full=bool(full),
                number=number,
                gone=gone.decode(),
                released=released.decode(),
                records=records,
                base=base,
            )
            found.append(change)
    except (error, UnicodeDecodeError) as wrong:
        raise PermanentError(f"changes of queues cannot be read: {wrong}") from wrong
    if at != len(data):
        raise PermanentError(f"changes of queues have {len(data)} bytes, their lengths add up to {at}")
    return found
