"""A message as columns. Those of TBMQ are for queries by people; properties are also stored as received."""

import json
from typing import Any, Final

from holdfast.durable.queues.queue_store import QueueEntry
from holdfast.model.errors import MisuseError, PeerError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import CLIENT, PUBLISH
from holdfast.storage.postgres.limits import PlacedEntry
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import NO_PROPERTIES, Properties, decode_properties

#: Never change.
PUBLISHED: Final = "PUBLISH"
RELEASED: Final = "PUBREL"

#: Columns of `message` that a row is written with, and their types.
COLUMNS: Final = (
    ("client_id", "text"),
    ("serial_number", "bigint"),
    ("topic", "text"),
    ("time", "bigint"),
    ("packet_type", "text"),
    ("qos", "integer"),
    ("payload", "bytea"),
    ("user_properties", "text"),
    ("retain", "boolean"),
    ("msg_expiry_interval", "bigint"),
    ("payload_format_indicator", "integer"),
    ("content_type", "text"),
    ("response_topic", "text"),
    ("correlation_data", "bytea"),
    ("number", "bigint"),
    ("expires_us", "bigint"),
    ("size_bytes", "bigint"),
    ("publisher", "text"),
    ("published_qos", "integer"),
    ("published_retain", "boolean"),
    ("received_us", "bigint"),
    ("message_expires_us", "bigint"),
    ("properties", "bytea"),
    ("identifiers", "text"),
)
#: Columns that a message is read from.
READ: Final = (
    "serial_number, packet_type, topic, payload, qos, retain, number, expires_us, publisher, published_qos, "
    "published_retain, received_us, message_expires_us, properties, identifiers"
)

_LAST: Final = 2**63 - 1


def encode_client(client_id: str) -> str:
    """Encode a client id: PostgreSQL's text has no U+0000, and ids behind a mount point contain one."""
    if "\0" in client_id or "\\" in client_id:
        return client_id.replace("\\", "\\\\").replace("\0", "\\0")
    return client_id


def decode_client(text: str) -> str:
    """The inverse of `encode_client`."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def check(entry: QueueEntry) -> None:
    """MisuseError if PostgreSQL cannot store the entry."""
    message = entry.message
    if not 0 < entry.number <= _LAST:
        raise MisuseError(f"{entry!r} has a number that is not above 0 and below 2^63")
    if not (0 <= message.received_us <= _LAST and 0 <= message.expires_us <= _LAST and 0 <= entry.expires_us <= _LAST):
        raise MisuseError(f"{entry!r} has a time that is none")
    try:
        topic = message.topic.decode()
        message.publisher.encode()
        parse_properties(message.properties)
    except (UnicodeError, PeerError) as wrong:
        raise MisuseError(f"{entry!r}: {wrong}") from wrong
    if "\0" in topic:
        raise MisuseError(f"{entry!r} has a topic with U+0000")


def row(client_id: str, placed: PlacedEntry, now_us: int) -> tuple[Any, ...]:
    """The row of an entry, in the order of COLUMNS. Requires: an encoded client id."""
    entry = placed.entry
    owed = entry.owed
    message = owed.message
    found = parse_properties(message.properties)
    user = found.user_properties
    return (
        client_id,
        placed.serial,
        message.topic.decode(),
        now_us // 1000,
        PUBLISHED,
        owed.qos,
        message.payload,
        json.dumps(user, ensure_ascii=False) if user else None,
        owed.retain,
        found.message_expiry_interval,
        found.payload_format_indicator,
        found.content_type,
        found.response_topic,
        found.correlation_data,
        entry.number,
        placed.expires_us,
        owed.size_bytes,
        encode_client(message.publisher),
        message.qos,
        message.retain,
        message.received_us,
        message.expires_us,
        message.properties or None,
        ",".join(map(str, owed.identifiers)) or None,
    )


def decode_row(found: Any) -> QueueEntry:
    """The entry of a row with the columns READ."""
    serial, kind, topic, payload, qos, retain, number, expires_us, publisher, published_qos, *rest = found
    published_retain, received_us, message_expires_us, properties, identifiers = rest
    if kind not in (PUBLISHED, RELEASED):
        raise PermanentError(f"a message in PostgreSQL is a {kind}, which no version wrote")
    message = Message(
        topic.encode(),
        payload,
        published_qos,
        ClientId(decode_client(publisher)),
        received_us,
        retain=published_retain,
        properties=properties or b"",
        expires_us=message_expires_us,
    )
    numbers = tuple(map(int, identifiers.split(","))) if identifiers else ()
    owed = Owed(message, qos, retain=retain, identifiers=numbers, serial=serial)
    return QueueEntry(number, owed, expires_us, released=kind == RELEASED)


def parse_properties(properties: bytes) -> Properties:
    if not properties:
        return NO_PROPERTIES
    data = encode_varint(len(properties)) + properties
    return decode_properties(ByteReader(data, 0, len(data)), PUBLISH, CLIENT)
