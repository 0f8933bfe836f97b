"""The codec: any packet, any version, either direction.

`decode` is strict. Whatever bytes it is given, it returns a packet that the standard allows at this
place, or raises PeerError with the reason to answer with; nothing else.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import (
    AUTH,
    CLIENT,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PACKET_NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
)
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR
from holdfast.wire.acks import (
    decode_ack,
    decode_auth,
    decode_disconnect,
    encode_ack,
    encode_auth,
    encode_disconnect,
)
from holdfast.wire.connect import decode_connack, decode_connect, encode_connack, encode_connect
from holdfast.wire.framing import Framer
from holdfast.wire.packets import (
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from holdfast.wire.primitives import ByteReader
from holdfast.wire.publish import decode_publish, encode_publish
from holdfast.wire.subscribe import (
    decode_suback,
    decode_subscribe,
    decode_unsuback,
    decode_unsubscribe,
    encode_suback,
    encode_subscribe,
    encode_unsuback,
    encode_unsubscribe,
)

_FROM_CLIENT_ONLY: Final = (CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ)
_FROM_SERVER_ONLY: Final = (CONNACK, SUBACK, UNSUBACK, PINGRESP)

PINGREQ_FRAME: Final = b"\xc0\x00"
PINGRESP_FRAME: Final = b"\xd0\x00"


def decode(data: bytes, first: int, body: int, end: int, version: int, sender: int) -> Packet:
    """The packet whose body lies at data[body:end].

    Requires: `first` was accepted by a `Framer`. `version` is the connection's; CONNECT states its own.
    """
    kind = first >> 4
    if kind in (_FROM_SERVER_ONLY if sender == CLIENT else _FROM_CLIENT_ONLY):
        side = "client" if sender == CLIENT else "server"
        raise PeerError(PROTOCOL_ERROR, f"{PACKET_NAMES[kind]} sent by a {side}")
    if kind == PUBLISH:
        return decode_publish(data, first, body, end, version, sender)
    reader = ByteReader(data, body, end)
    packet = _decode_body(reader, kind, version, sender)
    if not reader.at_end():
        raise PeerError(MALFORMED_PACKET, f"{end - reader.pos} bytes too many in {PACKET_NAMES[kind]}")
    return packet


def _decode_body(reader: ByteReader, kind: int, version: int, sender: int) -> Packet:
    if PUBACK <= kind <= PUBCOMP:
        return decode_ack(reader, kind, version, sender)
    if kind == CONNECT:
        return decode_connect(reader)
    if kind == CONNACK:
        return decode_connack(reader, version)
    if kind == SUBSCRIBE:
        return decode_subscribe(reader, version)
    if kind == SUBACK:
        return decode_suback(reader, version)
    if kind == UNSUBSCRIBE:
        return decode_unsubscribe(reader, version)
    if kind == UNSUBACK:
        return decode_unsuback(reader, version)
    if kind == PINGREQ:
        return Pingreq()
    if kind == PINGRESP:
        return Pingresp()
    if kind == DISCONNECT:
        return decode_disconnect(reader, version, sender)
    if kind == AUTH and version == V5:
        return decode_auth(reader, sender)
    raise PeerError(MALFORMED_PACKET, f"there is no packet of type {kind} in MQTT 3")


def decode_all(framer: Framer, chunk: bytes, version: int, sender: int) -> list[Packet]:
    """Feed a chunk and decode every packet it completes."""
    framer.feed(chunk)
    packets: list[Packet] = []
    while framer.advance():
        packets.append(decode(framer.data, framer.first, framer.body, framer.end, version, sender))
    return packets


def encode(packet: Packet, version: int) -> bytes:
    """The shortest form of a packet that the standard allows [MQTT-1.5.5-1].

    Requires: the packet may be sent in this version; properties that it cannot carry are not set.
    """
    if isinstance(packet, Publish):
        return encode_publish(packet, version)
    if isinstance(packet, Ack):
        return encode_ack(packet, version)
    if isinstance(packet, Connect):
        return encode_connect(packet)
    if isinstance(packet, Connack):
        return encode_connack(packet, version)
    if isinstance(packet, Subscribe):
        return encode_subscribe(packet, version)
    if isinstance(packet, Suback):
        return encode_suback(packet, version)
    if isinstance(packet, Unsubscribe):
        return encode_unsubscribe(packet, version)
    if isinstance(packet, Unsuback):
        return encode_unsuback(packet, version)
    if isinstance(packet, Pingreq):
        return PINGREQ_FRAME
    if isinstance(packet, Pingresp):
        return PINGRESP_FRAME
    if isinstance(packet, Disconnect):
        return encode_disconnect(packet, version)
    if isinstance(packet, Auth):
        return encode_auth(packet, version)
    raise MisuseError(f"{packet!r} is no packet")
