"""DISCONNECT and AUTH: who may send them, and with what."""

import pytest

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import CLIENT, SERVER, V5, V311
from holdfast.model.reasons import PROTOCOL_ERROR
from holdfast.wire.acks import decode_auth, decode_disconnect, encode_auth, encode_disconnect
from holdfast.wire.packets import Auth, Disconnect
from holdfast.wire.primitives import ByteReader

pytestmark = pytest.mark.compiled


def reader(body: bytes) -> ByteReader:
    return ByteReader(body, 0, len(body))


def test_reason_and_properties_may_be_left_out() -> None:
    assert decode_disconnect(reader(b""), V5, CLIENT) == Disconnect()
    assert encode_disconnect(Disconnect(), V5) == b"\xe0\x00"
    assert encode_disconnect(Disconnect(0x8B), V5) == b"\xe0\x01\x8b"


def test_mqtt_3_has_no_reason() -> None:
    assert encode_disconnect(Disconnect(0x8B), V311) == b"\xe0\x00"


def test_an_mqtt_3_server_sends_no_disconnect() -> None:
    with pytest.raises(PeerError) as refused:
        decode_disconnect(reader(b""), V311, SERVER)
    assert refused.value.reason == PROTOCOL_ERROR


def test_a_server_sends_no_session_expiry() -> None:
    """[MQTT-3.14.2-2]"""
    body = b"\x00\x05\x11\x00\x00\x00\x01"

    assert decode_disconnect(reader(body), V5, CLIENT).properties.session_expiry_interval == 1
    with pytest.raises(PeerError, match="session expiry interval"):
        decode_disconnect(reader(body), V5, SERVER)


def test_auth_needs_a_method_and_mqtt_5() -> None:
    with pytest.raises(PeerError, match="without an authentication method"):
        decode_auth(reader(b"\x18\x00"), CLIENT)
    with pytest.raises(MisuseError, match="MQTT 5 only"):
        encode_auth(Auth(), V311)
