"""SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK.

SUBSCRIBE     packet id │ properties* │ (filter │ options)+
options       reserved C0 │ retain handling 30 │ retain as published 08 │ no local 04 │ QoS 03
SUBACK        packet id │ properties* │ reason+
UNSUBSCRIBE   packet id │ properties* │ filter+
UNSUBACK      packet id │ properties* │ reason+            MQTT 3: the packet id alone
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import CLIENT, PACKET_NAMES, QOS_2, SERVER, SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, V5
from holdfast.model.reasons import (
    GRANTED_QOS_2,
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    V3_SUBACK_FAILURE,
    allowed_reasons,
)
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.wire.acks import check_reason, read_packet_id, write_packet_id
from holdfast.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.primitives import ByteReader, encode_binary, encode_frame
from holdfast.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties

#: Filters in one packet: beyond any real use, and a bound for the time that one packet can take.
MAX_FILTERS: Final = 4096

_QOS: Final = 0x03
_NO_LOCAL: Final = 0x04
_RETAIN_AS_PUBLISHED: Final = 0x08
_RETAIN_HANDLING_SHIFT: Final = 4
_RESERVED: Final = 0xC0
#: MQTT 3 has the QoS alone.
_RESERVED_V3: Final = 0xFC


def decode_subscribe(reader: ByteReader, version: int) -> Subscribe:
    packet_id = read_packet_id(reader)
    properties = decode_properties(reader, SUBSCRIBE, CLIENT) if version == V5 else NO_PROPERTIES
    subscriptions: list[Subscription] = []
    while not reader.at_end():
        _check_count(len(subscriptions))
        topic_filter = parse_filter(reader.binary("a topic filter"))
        subscriptions.append(_decode_options(reader.u8("the subscription options"), topic_filter, version))
    if not subscriptions:  # [MQTT-3.8.3-2]
        raise PeerError(PROTOCOL_ERROR, "SUBSCRIBE without a topic filter")
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _decode_options(options: int, topic_filter: TopicFilter, version: int) -> Subscription:
    if options & (_RESERVED if version == V5 else _RESERVED_V3):  # [MQTT-3.8.3-5], v3 [MQTT-3.8.3-4]
        raise PeerError(MALFORMED_PACKET, f"reserved subscription options are set: 0x{options:02X}")
    qos = options & _QOS
    if qos > QOS_2:
        # v5 3.8.3.1 calls it a protocol error, v3 [MQTT-3.8.3-4] malformed
        raise PeerError(PROTOCOL_ERROR if version == V5 else MALFORMED_PACKET, "a subscription with QoS 3")
    retain_handling = options >> _RETAIN_HANDLING_SHIFT
    if retain_handling > 2:
        raise PeerError(PROTOCOL_ERROR, "a subscription with retain handling 3")
    no_local = options & _NO_LOCAL != 0
    if no_local and topic_filter.group:  # [MQTT-3.8.3-4]
        raise PeerError(PROTOCOL_ERROR, "no local on a shared subscription")
    return Subscription(topic_filter, qos, no_local, options & _RETAIN_AS_PUBLISHED != 0, retain_handling)


def encode_subscribe(packet: Subscribe, version: int) -> bytes:
    if not packet.subscriptions:
        raise MisuseError("SUBSCRIBE without a topic filter")
    parts = _head(packet.packet_id, packet.properties, SUBSCRIBE, version)
    for line in packet.subscriptions:
        if not 0 <= line.qos <= QOS_2 or not 0 <= line.retain_handling <= 2:
            raise MisuseError(f"there is no QoS {line.qos} with retain handling {line.retain_handling}")
        if line.no_local and line.filter.group:  # [MQTT-3.8.3-4]
            raise MisuseError("no local on a shared subscription")
        options = line.qos
        if version == V5:
            options |= _NO_LOCAL if line.no_local else 0
            options |= _RETAIN_AS_PUBLISHED if line.retain_as_published else 0
            options |= line.retain_handling << _RETAIN_HANDLING_SHIFT
        parts.append(encode_binary(line.filter.raw))
        parts.append(bytes((options,)))
    return encode_frame(SUBSCRIBE << 4 | 2, b"".join(parts))  # [MQTT-3.8.1-1]


def decode_unsubscribe(reader: ByteReader, version: int) -> Unsubscribe:
    packet_id = read_packet_id(reader)
    properties = decode_properties(reader, UNSUBSCRIBE, CLIENT) if version == V5 else NO_PROPERTIES
    filters: list[TopicFilter] = []
    while not reader.at_end():
        _check_count(len(filters))
        filters.append(parse_filter(reader.binary("a topic filter")))  # [MQTT-3.10.3-1]
    if not filters:  # [MQTT-3.10.3-2]
        raise PeerError(PROTOCOL_ERROR, "UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id, tuple(filters), properties)


def encode_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    if not packet.filters:
        raise MisuseError("UNSUBSCRIBE without a topic filter")
    parts = _head(packet.packet_id, packet.properties, UNSUBSCRIBE, version)
    parts.extend([encode_binary(topic_filter.raw) for topic_filter in packet.filters])
    return encode_frame(UNSUBSCRIBE << 4 | 2, b"".join(parts))  # [MQTT-3.10.1-1]


def decode_suback(reader: ByteReader, version: int) -> Suback:
    packet_id = read_packet_id(reader)
    properties = decode_properties(reader, SUBACK, SERVER) if version == V5 else NO_PROPERTIES
    return Suback(packet_id, _read_reasons(reader, SUBACK, version), properties)


def encode_suback(packet: Suback, version: int) -> bytes:
    parts = _head(packet.packet_id, packet.properties, SUBACK, version)
    _check_reasons(packet.reasons, SUBACK)
    # MQTT 3.1.1 knows one failure, whatever the reason is [MQTT-3.9.3-2].
    reasons = [r if version == V5 or r <= GRANTED_QOS_2 else V3_SUBACK_FAILURE for r in packet.reasons]
    parts.append(bytes(reasons))
    return encode_frame(SUBACK << 4, b"".join(parts))


def decode_unsuback(reader: ByteReader, version: int) -> Unsuback:
    packet_id = read_packet_id(reader)
    if version != V5:
        return Unsuback(packet_id)
    properties = decode_properties(reader, UNSUBACK, SERVER)
    return Unsuback(packet_id, _read_reasons(reader, UNSUBACK, version), properties)


def encode_unsuback(packet: Unsuback, version: int) -> bytes:
    parts = _head(packet.packet_id, packet.properties, UNSUBACK, version)
    if version == V5:
        _check_reasons(packet.reasons, UNSUBACK)
        parts.append(bytes(packet.reasons))
    return encode_frame(UNSUBACK << 4, b"".join(parts))


def _check_count(count: int) -> None:
    if count >= MAX_FILTERS:
        raise PeerError(QUOTA_EXCEEDED, f"more than {MAX_FILTERS} topic filters in one packet")


def _head(packet_id: int, properties: Properties, kind: int, version: int) -> list[bytes]:
    head = [write_packet_id(packet_id)]
    if version == V5:
        head.append(encode_properties(properties, kind))
    return head


def _check_reasons(reasons: tuple[int, ...], kind: int) -> None:
    if not reasons:
        raise MisuseError(f"{PACKET_NAMES[kind]} without a reason")
    for reason in reasons:
        check_reason(reason, kind)


def _read_reasons(reader: ByteReader, kind: int, version: int) -> tuple[int, ...]:
    reasons = tuple(reader.rest())
    if not reasons:
        raise PeerError(PROTOCOL_ERROR, f"{PACKET_NAMES[kind]} without a reason")
    for reason in reasons:
        known = reason in allowed_reasons(kind, SERVER)
        if not known or (version != V5 and V3_SUBACK_FAILURE != reason > GRANTED_QOS_2):  # [MQTT-3.9.3-2]
            raise PeerError(PROTOCOL_ERROR, f"0x{reason:02X} is no reason for {PACKET_NAMES[kind]}")
    return reasons
