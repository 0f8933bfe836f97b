"""PUBACK, PUBREC, PUBREL and PUBCOMP: one shape; and DISCONNECT and AUTH, which have it without the packet id.

packet id │ reason* │ properties*      both optional ones may be left out when they say "success" and nothing
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import AUTH, CLIENT, DISCONNECT, PACKET_NAMES, PUBREL, SERVER, V5
from holdfast.model.reasons import PROTOCOL_ERROR, SUCCESS, allowed_reasons
from holdfast.wire.packets import Ack, Auth, Disconnect
from holdfast.wire.primitives import U16, ByteReader, encode_frame
from holdfast.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties

#: The DISCONNECT of MQTT 3, which has no reason.
_WORDLESS: Final = Disconnect()


def read_packet_id(reader: ByteReader) -> int:
    packet_id = reader.u16("the packet id")
    if packet_id == 0:  # [MQTT-2.2.1-3] [MQTT-2.2.1-4]
        raise PeerError(PROTOCOL_ERROR, "packet id 0")
    return packet_id


def write_packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id < len(U16):
        raise MisuseError(f"{packet_id} is no packet id (1 to 65535)")
    return U16[packet_id]


def _read_reason_and_properties(reader: ByteReader, kind: int, sender: int) -> tuple[int, Properties]:
    """A reason that was left out means success."""
    reason = SUCCESS if reader.at_end() else reader.u8("the reason")
    if reason not in allowed_reasons(kind, sender):
        side = "client" if sender == CLIENT else "server"
        raise PeerError(PROTOCOL_ERROR, f"0x{reason:02X} is no reason for {PACKET_NAMES[kind]} from a {side}")
    return reason, NO_PROPERTIES if reader.at_end() else decode_properties(reader, kind, sender)


def check_reason(reason: int, kind: int) -> None:
    """MisuseError unless a packet of type `kind` may carry `reason`."""
    if reason not in allowed_reasons(kind, CLIENT) and reason not in allowed_reasons(kind, SERVER):
        raise MisuseError(f"{reason} is no reason for {PACKET_NAMES[kind]}")


def _encode_reason_and_properties(reason: int, properties: Properties, kind: int) -> bytes:
    """The shortest form: both left out, the properties left out, or both written."""
    if reason != SUCCESS:  # every packet may carry that
        check_reason(reason, kind)
    if properties == NO_PROPERTIES:
        return b"" if reason == SUCCESS else bytes((reason,))
    return bytes((reason,)) + encode_properties(properties, kind)


def decode_ack(reader: ByteReader, kind: int, version: int, sender: int) -> Ack:
    packet_id = read_packet_id(reader)
    if version != V5 or reader.at_end():
        return Ack(kind, packet_id)
    # [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
    reason, properties = _read_reason_and_properties(reader, kind, sender)
    return Ack(kind, packet_id, reason, properties)


def encode_ack(packet: Ack, version: int) -> bytes:
    body = write_packet_id(packet.packet_id)
    if version == V5:
        body += _encode_reason_and_properties(packet.reason, packet.properties, packet.kind)
    # PUBREL has the flags 0010 [MQTT-3.6.1-1], the others none.
    return encode_frame(packet.kind << 4 | (2 if packet.kind == PUBREL else 0), body)


def decode_disconnect(reader: ByteReader, version: int, sender: int) -> Disconnect:
    if version != V5:
        if sender == SERVER:
            raise PeerError(PROTOCOL_ERROR, "an MQTT 3 server does not send DISCONNECT")
        return _WORDLESS
    reason, properties = _read_reason_and_properties(reader, DISCONNECT, sender)  # [MQTT-3.14.2-1]
    if sender == SERVER and properties.session_expiry_interval is not None:  # [MQTT-3.14.2-2]
        raise PeerError(PROTOCOL_ERROR, "a server may not send a session expiry interval in DISCONNECT")
    return Disconnect(reason, properties)


def encode_disconnect(packet: Disconnect, version: int) -> bytes:
    body = _encode_reason_and_properties(packet.reason, packet.properties, DISCONNECT) if version == V5 else b""
    return encode_frame(DISCONNECT << 4, body)


def decode_auth(reader: ByteReader, sender: int) -> Auth:
    reason, properties = _read_reason_and_properties(reader, AUTH, sender)  # [MQTT-3.15.2-1]
    if properties.authentication_method is None and reason != SUCCESS:
        raise PeerError(PROTOCOL_ERROR, "AUTH without an authentication method")
    return Auth(reason, properties)


def encode_auth(packet: Auth, version: int) -> bytes:
    if version != V5:
        raise MisuseError("AUTH exists in MQTT 5 only")
    return encode_frame(AUTH << 4, _encode_reason_and_properties(packet.reason, packet.properties, AUTH))
