"""How a client is told no, in what its version has for it."""

from holdfast.exchange.channel import Channel
from holdfast.model.protocol import CONNACK, DISCONNECT, SERVER, V5, V311
from holdfast.model.reasons import (
    SERVER_SHUTTING_DOWN,
    SERVER_UNAVAILABLE,
    UNSPECIFIED_ERROR,
    allowed_reasons,
    connack_v3,
)
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Disconnect
from holdfast.wire.properties import NO_PROPERTIES, Properties


def refusal(channel: Channel, reason: int, detail: str, *, explain: bool) -> bytes:
    """The CONNACK that refuses; empty where the standard has the connection just closed."""
    version = channel.version
    if version == 0:
        return b""
    if version == V5:
        if reason == SERVER_SHUTTING_DOWN:
            reason = SERVER_UNAVAILABLE  # what CONNACK has for it
        reason = reason if reason in allowed_reasons(CONNACK, SERVER) else UNSPECIFIED_ERROR
        frame = encode(Connack(reason, properties=Properties(reason_string=detail) if explain else NO_PROPERTIES), V5)
        if len(frame) > channel.max_packet_bytes:  # [MQTT-3.2.2-19]
            frame = encode(Connack(reason), V5)
        return frame if len(frame) <= channel.max_packet_bytes else b""  # [MQTT-3.1.2-24]
    code = connack_v3(reason)
    return encode(Connack(code), V311) if code > 0 else b""


def goodbye(channel: Channel, reason: int, detail: str, *, explain: bool) -> bytes:
    """The DISCONNECT that a server sends before it closes; MQTT 3 has none."""
    if channel.version != V5:
        return b""
    reason = reason if reason in allowed_reasons(DISCONNECT, SERVER) else UNSPECIFIED_ERROR
    frame = encode(Disconnect(reason, Properties(reason_string=detail) if explain and detail else NO_PROPERTIES), V5)
    if len(frame) > channel.max_packet_bytes:  # [MQTT-3.14.2-3]
        frame = encode(Disconnect(reason), V5)
    return frame if len(frame) <= channel.max_packet_bytes else b""  # [MQTT-3.1.2-24]
