"""PUBLISH frames made for one client: with its identifiers, its aliases, its mount point, the time that remains."""

from holdfast.exchange.client import Channel
from holdfast.model.message import ArchivedMessage, Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import SERVER, V5
from holdfast.wire.primitives import U16, encode_varint
from holdfast.wire.properties import SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, USER_PROPERTY
from holdfast.wire.publish import DUP, RETAIN, frame_publish
from holdfast.wire.publish_properties import EXPIRY_BYTES, PublishProperties

_ID: bytes = bytes((SUBSCRIPTION_IDENTIFIER,))
_ALIAS: bytes = bytes((TOPIC_ALIAS,))
_USER: bytes = bytes((USER_PROPERTY,))


def frame_for(channel: Channel, owed: Owed, qos: int, packet_id: int, now_us: int, *, dup: bool = False) -> bytes:
    """The frame of a message for one client; empty if it is larger than the client takes."""
    message = owed.message
    first = 0x30 | qos << 1 | (DUP if dup else 0) | (RETAIN if owed.retain else 0)
    topic = message.topic[len(channel.mount) :] if channel.mount else message.topic
    if channel.version != V5:
        return frame_publish(first, topic, packet_id, b"", message.payload)
    properties = remaining_properties(message, now_us)
    if owed.identifiers:
        properties = b"".join([_ID + encode_varint(identifier) for identifier in owed.identifiers]) + properties
    alias = 0
    known = False
    aliases = channel.aliases_out
    if channel.alias_limit_out:
        if aliases is None:
            aliases = channel.aliases_out = {}
        alias = aliases.get(topic, 0)
        known = alias != 0
        if not known and len(aliases) < channel.alias_limit_out:
            alias = len(aliases) + 1
        if alias:
            properties = _ALIAS + U16[alias] + properties
    listed = encode_varint(len(properties)) + properties
    frame = frame_publish(first, b"" if known else topic, packet_id, listed, message.payload)
    if len(frame) > channel.max_packet_bytes:  # [MQTT-3.1.2-24]
        return b""
    if alias and not known and aliases is not None:
        aliases[topic] = alias
    return frame


def remaining_properties(message: Message, now_us: int) -> bytes:
    """The properties with the expiry interval that remains [MQTT-3.3.2-6]."""
    if message.expires_us == 0 or now_us - message.received_us < 1_000_000:
        return message.properties
    properties = message.properties
    found = PublishProperties()
    found.scan(properties, 0, len(properties), SERVER)
    left_s = max(0, message.expires_us - now_us + 999_999) // 1_000_000
    at = found.expiry_at
    return properties[: at + 1] + left_s.to_bytes(4, "big") + properties[at + EXPIRY_BYTES :]


def with_place(owed: Owed) -> Owed:
    """A message of the past, with the user properties that say from when and where it is."""
    told = message_with_place(owed.message)
    return Owed(told, owed.qos, retain=owed.retain, identifiers=owed.identifiers, group=owed.group)


def message_with_place(message: Message) -> Message:
    properties = (
        message.properties
        + _user_property(b"ts", b"%d" % message.received_us)
        + _user_property(b"offset", b"%d:%d" % (message.shard, message.position_us))
    )
    if isinstance(message, ArchivedMessage):
        return message.like(properties)
    told = Message(
        message.topic,
        message.payload,
        message.qos,
        message.publisher,
        message.received_us,
        retain=message.retain,
        properties=properties,
        expires_us=message.expires_us,
    )
    told.shard = message.shard
    told.position_us = message.position_us
    return told


def _user_property(name: bytes, value: bytes) -> bytes:
    return b"".join((_USER, U16[len(name)], name, U16[len(value)], value))
