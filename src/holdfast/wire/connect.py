"""CONNECT and CONNACK.

CONNECT   name "MQTT" │ level │ flags │ keep alive │ properties* │ client id │ will* │ user name* │ password*
flags     user name 80 │ password 40 │ will retain 20 │ will QoS 18 │ will 04 │ clean start 02 │ reserved 01
CONNACK   session present │ reason │ properties*

The level of an MQTT 3 bridge has its highest bit set, 0x83 or 0x84: Mosquitto's sign that another broker connects. No
standard has it, every bridge of Mosquitto tries it first.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import CLIENT, CONNACK, CONNECT, QOS_2, SERVER, V5, V31, V311, WILL
from holdfast.model.reasons import (
    CLIENT_IDENTIFIER_NOT_VALID,
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    SUCCESS,
    UNSUPPORTED_PROTOCOL_VERSION,
    V3_NOT_AUTHORIZED,
    allowed_reasons,
)
from holdfast.topics.names import check_topic_name
from holdfast.wire.acks import check_reason
from holdfast.wire.packets import Connack, Connect, Will
from holdfast.wire.primitives import ByteReader, encode_binary, encode_frame, encode_text, encode_u16
from holdfast.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties

_NAME: Final = b"\x00\x04MQTT"
_NAME_V31: Final = b"\x00\x06MQIsdp"

_USER_NAME: Final = 0x80
_PASSWORD: Final = 0x40
_WILL_RETAIN: Final = 0x20
_WILL_QOS: Final = 0x18
_WILL: Final = 0x04
_CLEAN_START: Final = 0x02
_RESERVED: Final = 0x01
#: In the protocol level.
_BRIDGE: Final = 0x80


def connect_version(body: bytes) -> int:
    """The protocol level that a CONNECT asks for; 0 if it is none of ours, or unreadable.

    Needed before decoding: a refusal of a bad CONNECT has to be written in the client's own version.
    """
    if body.startswith(_NAME) and len(body) > 6 and body[6] in (V311, V5, V311 | _BRIDGE):
        return body[6] & ~_BRIDGE
    if body.startswith(_NAME_V31) and len(body) > 8 and body[8] in (V31, V31 | _BRIDGE):
        return V31
    return 0


def answer_version(data: bytes) -> int:
    """The version in which to refuse a first packet that cannot be decoded; 0 to say nothing.

    `data` begins with the packet's first byte. What is no CONNECT gets no answer. One whose level cannot be read,
    or lies above ours, is answered as MQTT 5 would be.
    """
    if not data or data[0] >> 4 != CONNECT:
        return 0
    pos = 1
    while pos < len(data) and pos < 5 and data[pos] >= 0x80:
        pos += 1
    name_end = pos + 3 + (data[pos + 1] << 8 | data[pos + 2]) if pos + 2 < len(data) else len(data)
    if name_end < len(data) and (data[name_end] < V5 or data[name_end] in (V31 | _BRIDGE, V311 | _BRIDGE)):
        return V311
    return V5


def readable_properties(body: bytes) -> Properties:
    """The properties of an MQTT 5 CONNECT that is wrong elsewhere; none if they cannot be read either.

    A refusal has to keep to the Maximum Packet Size that the client names in them.
    """
    try:
        return decode_properties(ByteReader(body, len(_NAME) + 4, len(body)), CONNECT, CLIENT)
    except PeerError:
        return NO_PROPERTIES


def decode_connect(reader: ByteReader) -> Connect:
    name = reader.binary("the protocol name")
    level = reader.u8("the protocol level")
    version = connect_version(encode_binary(name) + bytes((level,)))
    if version == 0:  # [MQTT-3.1.2-1] [MQTT-3.1.2-2]
        raise PeerError(
            UNSUPPORTED_PROTOCOL_VERSION, f"protocol {name[:16]!r} level {level}; spoken here: MQTT 3.1, 3.1.1 and 5.0"
        )
    flags = reader.u8("the connect flags")
    _check_flags(flags, version)
    keep_alive_s = reader.u16("the keep alive")
    properties = decode_properties(reader, CONNECT, CLIENT) if version == V5 else NO_PROPERTIES
    client_id = reader.text("the client id")  # [MQTT-3.1.3-3] [MQTT-3.1.3-4]
    clean_start = flags & _CLEAN_START != 0
    if not client_id and (version == V31 or (version == V311 and not clean_start)):  # v3 [MQTT-3.1.3-8]
        raise PeerError(
            CLIENT_IDENTIFIER_NOT_VALID, "an empty client id needs MQTT 5, or MQTT 3.1.1 with clean session"
        )
    will = _decode_will(reader, flags, version) if flags & _WILL else None  # [MQTT-3.1.2-9]
    user_name: str | None = None
    password: bytes | None = None
    # MQTT 3.1 lets a client set these flags and leave the fields out: there the remaining length decides.
    if flags & _USER_NAME and not (version == V31 and reader.at_end()):  # [MQTT-3.1.2-17] [MQTT-3.1.3-12]
        user_name = reader.text("the user name")
    if flags & _PASSWORD and not (version == V31 and reader.at_end()):  # [MQTT-3.1.2-19]
        password = reader.binary("the password")
    bridge = level & _BRIDGE != 0
    return Connect(version, client_id, clean_start, keep_alive_s, will, user_name, password, properties, bridge)


def _check_flags(flags: int, version: int) -> None:
    if flags & _RESERVED and version != V31:  # [MQTT-3.1.2-3]; MQTT 3.1 leaves the bit unused
        raise PeerError(MALFORMED_PACKET, "the reserved connect flag is set")
    if flags & _WILL:
        if flags & _WILL_QOS == _WILL_QOS:  # [MQTT-3.1.2-12]
            raise PeerError(MALFORMED_PACKET, "the will QoS is 3")
    elif flags & (_WILL_QOS | _WILL_RETAIN) and version != V31:  # [MQTT-3.1.2-11] [MQTT-3.1.2-13]; 3.1 ignores them
        raise PeerError(MALFORMED_PACKET, "will QoS or will retain without a will")
    if version != V5 and flags & _PASSWORD and not flags & _USER_NAME:  # v3 [MQTT-3.1.2-22]
        raise PeerError(MALFORMED_PACKET, "a password without a user name needs MQTT 5")


def _decode_will(reader: ByteReader, flags: int, version: int) -> Will:
    properties = decode_properties(reader, WILL, CLIENT) if version == V5 else NO_PROPERTIES
    raw = reader.binary("the will topic")
    check_topic_name(raw)  # [MQTT-3.1.3-11]
    payload = reader.binary("the will payload")
    return Will(raw.decode(), payload, flags >> 3 & 3, flags & _WILL_RETAIN != 0, properties)


def encode_connect(packet: Connect) -> bytes:
    version = packet.version
    if version not in (V31, V311, V5):
        raise MisuseError(f"there is no protocol level {version}")
    if version != V5 and packet.password is not None and packet.user_name is None:  # v3 [MQTT-3.1.2-22]
        raise MisuseError("a password without a user name needs MQTT 5")
    if version == V5 and packet.bridge:
        raise MisuseError("a bridge of MQTT 5 has no separate protocol level")
    will = packet.will
    flags = _CLEAN_START if packet.clean_start else 0
    payload = [encode_text(packet.client_id)]
    if will is not None:
        if not 0 <= will.qos <= QOS_2:
            raise MisuseError(f"there is no QoS {will.qos}")
        flags |= _WILL | will.qos << 3 | (_WILL_RETAIN if will.retain else 0)
        if version == V5:
            payload.append(encode_properties(will.properties, WILL))
        payload.append(encode_text(will.topic))
        payload.append(encode_binary(will.payload))
    if packet.user_name is not None:
        flags |= _USER_NAME
        payload.append(encode_text(packet.user_name))
    if packet.password is not None:
        flags |= _PASSWORD
        payload.append(encode_binary(packet.password))
    level = version | (_BRIDGE if packet.bridge else 0)
    head = [_NAME_V31 if version == V31 else _NAME, bytes((level, flags)), encode_u16(packet.keep_alive_s)]
    if version == V5:
        head.append(encode_properties(packet.properties, CONNECT))
    return encode_frame(CONNECT << 4, b"".join(head + payload))


def decode_connack(reader: ByteReader, version: int) -> Connack:
    flags = reader.u8("the connect acknowledge flags")
    if version == V31:
        flags = 0  # the byte has no meaning there
    if flags > 1:  # [MQTT-3.2.2-1]
        raise PeerError(MALFORMED_PACKET, "reserved connect acknowledge flags are set")
    reason = reader.u8("the connect reason")
    known = reason in allowed_reasons(CONNACK, SERVER) if version == V5 else reason <= V3_NOT_AUTHORIZED
    if not known:  # [MQTT-3.2.2-8]
        raise PeerError(PROTOCOL_ERROR, f"0x{reason:02X} is no reason for CONNACK")
    if reason != SUCCESS and flags:  # [MQTT-3.2.2-6]
        raise PeerError(PROTOCOL_ERROR, "session present in a CONNACK that refuses")
    properties = decode_properties(reader, CONNACK, SERVER) if version == V5 else NO_PROPERTIES
    return Connack(reason, flags == 1, properties)


def encode_connack(packet: Connack, version: int) -> bytes:
    if version == V5:
        check_reason(packet.reason, CONNACK)  # [MQTT-3.2.2-8]
    elif not 0 <= packet.reason <= V3_NOT_AUTHORIZED:
        raise MisuseError(f"{packet.reason} is no return code of an MQTT 3 CONNACK")
    if packet.session_present and packet.reason != SUCCESS:  # [MQTT-3.2.2-6]
        raise MisuseError("session present in a CONNACK that refuses")
    body = bytes((packet.session_present and version != V31, packet.reason))
    if version == V5:
        body += encode_properties(packet.properties, CONNACK)
    return encode_frame(CONNACK << 4, body)
