"""MQTT 5 properties: one table with the name, type and place of each; one decoder; one encoder.

    length (varint) │ id │ value │ id │ value │ …

A property stands at most once, except the user property and, in PUBLISH, the subscription identifier.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import (
    AUTH,
    CLIENT,
    CONNACK,
    CONNECT,
    DISCONNECT,
    EITHER,
    MAX_U16,
    MAX_U32,
    MAX_VARINT,
    PACKET_NAMES,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SERVER,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
)
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR, QUOTA_EXCEEDED, TOPIC_ALIAS_INVALID
from holdfast.topics.names import check_topic_name
from holdfast.wire.primitives import ByteReader, encode_binary, encode_text, encode_u16, encode_varint

# Types of values.
FLAG: Final = 0  # one byte, 0 or 1
U16_VALUE: Final = 1
U32_VALUE: Final = 2
VARINT: Final = 3
TEXT: Final = 4
BINARY: Final = 5
PAIR: Final = 6

# Property ids that code refers to by name.
PAYLOAD_FORMAT_INDICATOR: Final = 0x01
MESSAGE_EXPIRY_INTERVAL: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_IDENTIFIER: Final = 0x0B
AUTHENTICATION_METHOD: Final = 0x15
AUTHENTICATION_DATA: Final = 0x16
TOPIC_ALIAS: Final = 0x23
USER_PROPERTY: Final = 0x26

#: User properties (and subscription identifiers) in one packet; beyond any real use, and a bound for memory and time.
MAX_REPEATED: Final = 1024


@dataclass(frozen=True)
class PropertySpec:
    """One row of the table: what a property is, and where it may stand."""

    identifier: int
    #: The attribute of `Properties` that holds it.
    name: str
    kind: int
    packets: tuple[int, ...]
    _: KW_ONLY
    #: Who may send it, where that is narrower than who may send the packet.
    sender: int = EITHER
    nonzero: bool = False


_MESSAGE: Final = (PUBLISH, WILL)
_ANSWERS: Final = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH)
_ANYWHERE: Final = (*_ANSWERS, CONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, WILL)

PROPERTIES: Final = (
    PropertySpec(0x01, "payload_format_indicator", FLAG, _MESSAGE),
    PropertySpec(0x02, "message_expiry_interval", U32_VALUE, _MESSAGE),
    PropertySpec(0x03, "content_type", TEXT, _MESSAGE),
    PropertySpec(0x08, "response_topic", TEXT, _MESSAGE),
    PropertySpec(0x09, "correlation_data", BINARY, _MESSAGE),
    PropertySpec(0x0B, "subscription_identifiers", VARINT, (PUBLISH, SUBSCRIBE), nonzero=True),
    PropertySpec(0x11, "session_expiry_interval", U32_VALUE, (CONNECT, CONNACK, DISCONNECT)),
    PropertySpec(0x12, "assigned_client_identifier", TEXT, (CONNACK,)),
    PropertySpec(0x13, "server_keep_alive", U16_VALUE, (CONNACK,)),
    PropertySpec(0x15, "authentication_method", TEXT, (CONNECT, CONNACK, AUTH)),
    PropertySpec(0x16, "authentication_data", BINARY, (CONNECT, CONNACK, AUTH)),
    PropertySpec(0x17, "request_problem_information", FLAG, (CONNECT,)),
    PropertySpec(0x18, "will_delay_interval", U32_VALUE, (WILL,)),
    PropertySpec(0x19, "request_response_information", FLAG, (CONNECT,)),
    PropertySpec(0x1A, "response_information", TEXT, (CONNACK,)),
    PropertySpec(0x1C, "server_reference", TEXT, (CONNACK, DISCONNECT), sender=SERVER),
    PropertySpec(0x1F, "reason_string", TEXT, _ANSWERS),
    PropertySpec(0x21, "receive_maximum", U16_VALUE, (CONNECT, CONNACK), nonzero=True),
    PropertySpec(0x22, "topic_alias_maximum", U16_VALUE, (CONNECT, CONNACK)),
    PropertySpec(0x23, "topic_alias", U16_VALUE, (PUBLISH,), nonzero=True),
    PropertySpec(0x24, "maximum_qos", FLAG, (CONNACK,)),
    PropertySpec(0x25, "retain_available", FLAG, (CONNACK,)),
    PropertySpec(0x26, "user_properties", PAIR, _ANYWHERE),
    PropertySpec(0x27, "maximum_packet_size", U32_VALUE, (CONNECT, CONNACK), nonzero=True),
    PropertySpec(0x28, "wildcard_subscription_available", FLAG, (CONNACK,)),
    PropertySpec(0x29, "subscription_identifiers_available", FLAG, (CONNACK,)),
    PropertySpec(0x2A, "shared_subscription_available", FLAG, (CONNACK,)),
)

_BY_ID: Final = {spec.identifier: spec for spec in PROPERTIES}
_BY_PACKET: Final = [[spec for spec in PROPERTIES if packet in spec.packets] for packet in range(16)]


@dataclass(frozen=True)
class Properties:
    """The properties of one packet; what is absent is None or an empty tuple."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    #: In the order they came [MQTT-3.3.2-18].
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_subscription_available: int | None = None

    def present(self) -> dict[str, object]:
        """What is there, by name."""
        values = {spec.name: getattr(self, spec.name) for spec in PROPERTIES}
        return {name: value for name, value in values.items() if value is not None and value != ()}

    def __repr__(self) -> str:
        # Authentication data may be a secret, and what is printed ends in logs.
        shown = (f"{n}={'…' if n == 'authentication_data' else repr(v)}" for n, v in self.present().items())
        return f"Properties({', '.join(shown)})"


#: Shared by every packet without properties.
NO_PROPERTIES: Final = Properties()


def spec_of(identifier: int, packet: int, sender: int) -> PropertySpec:
    """The row of a property found in `packet`; PeerError if it is unknown or may not stand there."""
    spec = _BY_ID.get(identifier)
    if spec is None:
        raise PeerError(MALFORMED_PACKET, f"0x{identifier:02X} is no property")
    if packet not in spec.packets or not spec.sender & sender:
        raise PeerError(MALFORMED_PACKET, f"property {spec.name} may not stand in {PACKET_NAMES[packet]}")
    if identifier == SUBSCRIPTION_IDENTIFIER and packet == PUBLISH and sender == CLIENT:  # [MQTT-3.3.4-6]
        raise PeerError(PROTOCOL_ERROR, "a client may not send a subscription identifier in PUBLISH")
    return spec


def properties_end(reader: ByteReader, packet: int) -> int:
    """Read the length in front of a property list; where the list ends."""
    length = reader.varint("the property length")
    end = reader.pos + length
    if end > reader.end:
        raise PeerError(MALFORMED_PACKET, f"the properties run past the end of {PACKET_NAMES[packet]}")
    return end


def decode_properties(reader: ByteReader, packet: int, sender: int) -> Properties:
    """Read a property list with its length; the reader then stands behind it."""
    end = properties_end(reader, packet)
    if end == reader.pos:
        return NO_PROPERTIES
    inside = ByteReader(reader.data, reader.pos, end)
    reader.pos = end
    values: dict[str, Any] = {}
    user_properties: list[tuple[str, str]] = []
    identifiers: list[int] = []
    while not inside.at_end():
        spec = spec_of(inside.varint("a property id"), packet, sender)
        if spec.identifier == USER_PROPERTY:
            key = inside.text("a user property's name")
            user_properties.append((key, inside.text("a user property's value")))
            check_count(len(user_properties))
            continue
        value = _decode_value(inside, spec)
        if spec.identifier == SUBSCRIPTION_IDENTIFIER and packet == PUBLISH:
            assert isinstance(value, int)
            identifiers.append(value)
            check_count(len(identifiers))
            continue
        if spec.name in values:
            raise stands_twice(spec.name)
        values[spec.name] = (value,) if spec.identifier == SUBSCRIPTION_IDENTIFIER else value
    if "authentication_data" in values and "authentication_method" not in values:
        raise PeerError(PROTOCOL_ERROR, "authentication data without an authentication method")
    if user_properties:
        values["user_properties"] = tuple(user_properties)
    if identifiers:
        values["subscription_identifiers"] = tuple(identifiers)
    return Properties(**values)


def stands_twice(name: str) -> PeerError:
    return PeerError(PROTOCOL_ERROR, f"property {name} stands twice")


def check_count(count: int) -> None:
    if count > MAX_REPEATED:
        raise PeerError(QUOTA_EXCEEDED, f"more than {MAX_REPEATED} user properties or subscription identifiers")


def check_response_topic(topic: bytes) -> None:
    """A response topic is published to, so it follows the rules of topic names [MQTT-3.3.2-14]."""
    try:
        check_topic_name(topic)
    except PeerError as error:
        raise PeerError(PROTOCOL_ERROR, f"response topic: {error.detail}") from None


def _decode_value(reader: ByteReader, spec: PropertySpec) -> int | str | bytes:
    kind = spec.kind
    if kind == TEXT:
        text = reader.text(spec.name)
        if spec.identifier == RESPONSE_TOPIC:
            check_response_topic(text.encode())
        return text
    if kind == BINARY:
        return reader.binary(spec.name)
    if kind == FLAG:
        value = reader.u8(spec.name)
        if value > 1:
            raise PeerError(PROTOCOL_ERROR, f"{spec.name} is {value}, only 0 and 1 are allowed")
    elif kind == U16_VALUE:
        value = reader.u16(spec.name)
    elif kind == U32_VALUE:
        value = reader.u32(spec.name)
    else:
        value = reader.varint(spec.name)
    if value == 0 and spec.nonzero:
        reason = TOPIC_ALIAS_INVALID if spec.identifier == TOPIC_ALIAS else PROTOCOL_ERROR  # [MQTT-3.3.2-8]
        raise PeerError(reason, f"{spec.name} is 0")
    return value


def encode_properties(properties: Properties, packet: int) -> bytes:
    """A property list with its length in front, in the order of the table.

    Requires: only properties that may stand in `packet` are set.
    """
    if properties is NO_PROPERTIES:
        return b"\0"
    body = encode_property_list(properties, packet)
    return encode_varint(len(body)) + body


def encode_property_list(properties: Properties, packet: int) -> bytes:
    """The same without the length."""
    allowed = {spec.name for spec in _BY_PACKET[packet]}
    misplaced = [name for name in properties.present() if name not in allowed]
    if misplaced:
        raise MisuseError(f"{', '.join(misplaced)} may not stand in {PACKET_NAMES[packet]}")
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise MisuseError("authentication data without an authentication method")
    parts: list[bytes] = []
    for spec in _BY_PACKET[packet]:
        if spec.identifier == USER_PROPERTY:
            parts.extend([b"\x26" + encode_text(key) + encode_text(text) for key, text in properties.user_properties])
        elif spec.identifier == SUBSCRIPTION_IDENTIFIER:
            if packet == SUBSCRIBE and len(properties.subscription_identifiers) > 1:
                raise MisuseError("SUBSCRIBE carries at most one subscription identifier")
            parts.extend([b"\x0b" + _encode_number(spec, number) for number in properties.subscription_identifiers])
        else:
            value = getattr(properties, spec.name)
            if value is not None:
                parts.append(bytes((spec.identifier,)) + _encode_value(spec, value))
    return b"".join(parts)


def _encode_value(spec: PropertySpec, value: object) -> bytes:
    if spec.kind == TEXT:
        assert isinstance(value, str)
        return encode_text(value)
    if spec.kind == BINARY:
        assert isinstance(value, bytes)
        return encode_binary(value)
    assert isinstance(value, int)
    return _encode_number(spec, value)


_LARGEST: Final = {FLAG: 1, U16_VALUE: MAX_U16, U32_VALUE: MAX_U32, VARINT: MAX_VARINT}


def _encode_number(spec: PropertySpec, value: int) -> bytes:
    kind = spec.kind
    if not (1 if spec.nonzero else 0) <= value <= _LARGEST[kind]:
        raise MisuseError(f"{spec.name} cannot be {value}")
    if kind == FLAG:
        return bytes((value,))
    if kind == U16_VALUE:
        return encode_u16(value)
    if kind == U32_VALUE:
        return value.to_bytes(4, "big")
    return encode_varint(value)
