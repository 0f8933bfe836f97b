"""DISCONNECT and AUTH: a reason and properties, both left out if they are the defaults."""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import AUTH, DISCONNECT, SERVER, V5
from holdfast.model.reasons import PROTOCOL_ERROR, SUCCESS
from holdfast.wire.acks import encode_reason_and_properties, read_reason
from holdfast.wire.packets import Auth, Disconnect
from holdfast.wire.primitives import ByteReader, encode_frame
from holdfast.wire.properties import NO_PROPERTIES, decode_properties

#: The DISCONNECT of MQTT 3, which has no reason.
_WORDLESS: Final = Disconnect()


def decode_disconnect(reader: ByteReader, version: int, sender: int) -> Disconnect:
    if version != V5:
        if sender == SERVER:
            raise PeerError(PROTOCOL_ERROR, "an MQTT 3 server does not send DISCONNECT")
        return _WORDLESS
    reason = read_reason(reader, DISCONNECT, sender, "DISCONNECT")  # [MQTT-3.14.2-1]
    properties = NO_PROPERTIES if reader.at_end() else decode_properties(reader, DISCONNECT, sender)
    if sender == SERVER and properties.session_expiry_interval is not None:  # [MQTT-3.14.2-2]
        raise PeerError(PROTOCOL_ERROR, "a server may not send a session expiry interval in DISCONNECT")
    return Disconnect(reason, properties)


def encode_disconnect(packet: Disconnect, version: int) -> bytes:
    body = encode_reason_and_properties(packet.reason, packet.properties, DISCONNECT) if version == V5 else b""
    return encode_frame(DISCONNECT << 4, body)


def decode_auth(reader: ByteReader, sender: int) -> Auth:
    reason = read_reason(reader, AUTH, sender, "AUTH")  # [MQTT-3.15.2-1]
    properties = NO_PROPERTIES if reader.at_end() else decode_properties(reader, AUTH, sender)
    if properties.authentication_method is None and reason != SUCCESS:
        raise PeerError(PROTOCOL_ERROR, "AUTH without an authentication method")
    return Auth(reason, properties)


def encode_auth(packet: Auth, version: int) -> bytes:
    if version != V5:
        raise MisuseError("AUTH exists in MQTT 5 only")
    return encode_frame(AUTH << 4, encode_reason_and_properties(packet.reason, packet.properties, AUTH))
