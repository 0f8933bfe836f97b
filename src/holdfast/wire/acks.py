"""PUBACK, PUBREC, PUBREL and PUBCOMP: one shape.

packet id │ reason* │ properties*      both optional ones may be left out when they say "success" and nothing
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import CLIENT, PACKET_NAMES, PUBREL, SERVER, V5
from holdfast.model.reasons import PROTOCOL_ERROR, SUCCESS, allowed_reasons
from holdfast.wire.packets import Ack
from holdfast.wire.primitives import U16, ByteReader, encode_frame
from holdfast.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties


def read_packet_id(reader: ByteReader) -> int:
    packet_id = reader.u16("the packet id")
    if packet_id == 0:  # [MQTT-2.2.1-3] [MQTT-2.2.1-4]
        raise PeerError(PROTOCOL_ERROR, "packet id 0")
    return packet_id


def write_packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id < len(U16):
        raise MisuseError(f"{packet_id} is no packet id (1 to 65535)")
    return U16[packet_id]


def read_reason(reader: ByteReader, kind: int, sender: int, name: str) -> int:
    """The reason; one that was left out means success."""
    reason = SUCCESS if reader.at_end() else reader.u8("the reason")
    if reason not in allowed_reasons(kind, sender):
        side = "client" if sender == CLIENT else "server"
        raise PeerError(PROTOCOL_ERROR, f"0x{reason:02X} is no reason for {name} from a {side}")
    return reason


def check_reason(reason: int, kind: int) -> None:
    """MisuseError unless a packet of type `kind` may carry `reason`."""
    if reason not in allowed_reasons(kind, CLIENT) and reason not in allowed_reasons(kind, SERVER):
        raise MisuseError(f"{reason} is no reason for {PACKET_NAMES[kind]}")


def encode_reason_and_properties(reason: int, properties: Properties, kind: int) -> bytes:
    """The shortest form: both left out, the properties left out, or both written."""
    if reason != SUCCESS:  # every packet may carry that
        check_reason(reason, kind)
    if properties == NO_PROPERTIES:
        return b"" if reason == SUCCESS else bytes((reason,))
    return bytes((reason,)) + encode_properties(properties, kind)


_NAMES: Final = {4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP"}


def first_byte(kind: int) -> int:
    """PUBREL has the flags 0010 [MQTT-3.6.1-1], the others none."""
    return kind << 4 | (2 if kind == PUBREL else 0)


def decode_ack(reader: ByteReader, kind: int, version: int, sender: int) -> Ack:
    packet_id = read_packet_id(reader)
    if version != V5 or reader.at_end():
        return Ack(kind, packet_id)
    # [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
    reason = read_reason(reader, kind, sender, _NAMES[kind])
    properties = NO_PROPERTIES if reader.at_end() else decode_properties(reader, kind, sender)
    return Ack(kind, packet_id, reason, properties)


def encode_ack(packet: Ack, version: int) -> bytes:
    body = write_packet_id(packet.packet_id)
    if version == V5:
        body += encode_reason_and_properties(packet.reason, packet.properties, packet.kind)
    return encode_frame(first_byte(packet.kind), body)
