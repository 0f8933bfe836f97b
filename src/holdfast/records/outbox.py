"""The outbox on disk: what external queues have not confirmed yet.

a message       01 | clients u32, each: client id text, flags u8 (bits 0-1 QoS, bit 2 retain),
                identifiers u16, each u32 | the message as the log has it (`messages.py`), with zeros for its place
a queue to go   01 | backend text | client id text
the ceiling     01 | number u64
"""

from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.fields import RecordReader, text, u8, u16, u32, u64
from holdfast.records.messages import decode_message, encode_message

#: Never change.
VERSION: Final = 1
_QOS: Final = 0x03
_RETAIN: Final = 0x04


def encode_outbox(message: Message, targets: list[tuple[str, Owed]]) -> bytes:
    parts = [u8(VERSION), u32(len(targets))]
    for client_id, owed in targets:
        parts.extend([text(client_id), u8(owed.qos | (_RETAIN if owed.retain else 0)), u16(len(owed.identifiers))])
        parts.extend([u32(identifier) for identifier in owed.identifiers])
    parts.append(encode_message(message, 0, 0))
    return b"".join(parts)


def decode_outbox(value: bytes) -> tuple[Message, list[tuple[str, Owed]]]:
    fields = RecordReader(value, "a message in the outbox", VERSION)
    options: list[tuple[str, int, tuple[int, ...]]] = []
    for _client in range(fields.u32("the clients")):
        client_id = fields.text("a client")
        flags = fields.u8("the flags")
        if flags & ~(_QOS | _RETAIN) or flags & _QOS == _QOS:
            raise PermanentError(f"a message in the outbox has flags 0x{flags:02X}, which no version wrote")
        identifiers = [fields.u32("an identifier") for _identifier in range(fields.u16("the identifiers"))]
        options.append((client_id, flags, tuple(identifiers)))
    message = decode_message(fields.rest()).message
    targets: list[tuple[str, Owed]] = []
    for client_id, flags, numbers in options:
        owed = Owed(message, flags & _QOS, retain=flags & _RETAIN != 0, identifiers=numbers)
        targets.append((client_id, owed))
    return message, targets


def encode_queue_drop(backend: str, client_id: str) -> bytes:
    return b"".join((u8(VERSION), text(backend), text(client_id)))


def decode_queue_drop(value: bytes) -> tuple[str, str]:
    fields = RecordReader(value, "a queue that is to go", VERSION)
    backend = fields.text("the backend")
    client_id = fields.text("the client")
    fields.end()
    return backend, client_id


def encode_outbox_ceiling(number: int) -> bytes:
    return u8(VERSION) + u64(number)


def decode_outbox_ceiling(value: bytes) -> int:
    fields = RecordReader(value, "the ceiling of the outbox", VERSION)
    number = fields.u64("the number")
    fields.end()
    return number
