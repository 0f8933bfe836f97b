"""A stored message as plain data for JSON. Bytes of any kind are shown: as text where they are text, else as base64."""

import re
from base64 import b64encode
from typing import Any, Final

from holdfast.history.past.time_scan import FoundMessage
from holdfast.model.errors import PeerError
from holdfast.model.message import Message
from holdfast.model.protocol import PUBLISH, SERVER
from holdfast.records.messages import decode_message
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import decode_properties

#: Bytes of a payload that an answer shows, and those that it shows if all are asked for.
SHOWN_BYTES: Final = 4096
FULL_BYTES: Final = 1 << 20

#: Control characters but tab and line ends: printed, they hide what the message says.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: A character of UTF-8 has at most so many bytes.
_CHARACTER_BYTES: Final = 4


def found_fields(found: FoundMessage, shown_bytes: int = SHOWN_BYTES) -> dict[str, Any]:
    """A message of the log, with its place, and with at most so many bytes of its payload."""
    stored = decode_message(found.value)
    place = f"{found.shard}/{found.position_us}/{stored.serial}"
    return message_fields(stored.message, found.position_us, place, found.zone, shown_bytes)


def message_fields(
    message: Message, at_us: int, place: str | None, zone: str | None, shown_bytes: int = SHOWN_BYTES
) -> dict[str, Any]:
    payload = message.payload
    return {
        "topic": text_or_base64(message.topic),
        "payload": payload_fields(payload, shown_bytes),
        "bytes": len(payload),
        "qos": message.qos,
        "retain": message.retain,
        "client": message.publisher,
        "at_us": at_us,
        "received_us": message.received_us,
        "place": place,
        "zone": zone,
        "properties": property_fields(message),
    }


def payload_fields(payload: bytes, most: int) -> dict[str, Any]:
    """At most so many bytes of a payload, cut between two characters if it is text."""
    if len(payload) <= most:
        return text_or_base64(payload)
    shown = payload[:most]
    for cut in range(_CHARACTER_BYTES):
        fields = text_or_base64(payload[: most - cut])
        if "text" in fields:
            break
    else:
        fields = text_or_base64(shown)
    return {**fields, "cut": True, "bytes": len(payload)}


def text_or_base64(data: bytes) -> dict[str, Any]:
    text = as_text(data)
    return {"base64": base64_text(data)} if text is None else {"text": text}


def as_text(data: bytes) -> str | None:
    """Bytes as the text that they are; None if they are no UTF-8, or hold control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def base64_text(data: bytes) -> str:
    return b64encode(data).decode()


def property_fields(message: Message) -> dict[str, Any]:
    """The properties that a message has, by their names in MQTT 5; the expiry as the time at which it expires."""
    fields: dict[str, Any] = {}
    raw = message.properties
    if raw:
        data = encode_varint(len(raw)) + raw
        try:
            fields = decode_properties(ByteReader(data, 0, len(data)), PUBLISH, SERVER).present()
        except PeerError:
            fields = {"undecoded": raw}
    fields.pop("message_expiry_interval", None)
    if message.expires_us:
        fields["expires_us"] = message.expires_us
    return {name: text_or_base64(value) if isinstance(value, bytes) else value for name, value in fields.items()}
