"""Messages that are encoded for publishing."""

import pytest

from holdfast.client.message import encode_message
from holdfast.model.errors import MisuseError
from holdfast.model.protocol import PUBLISH, V5, V311
from holdfast.wire.properties import Properties, encode_property_list


def test_a_message_is_encoded_but_for_its_packet_id() -> None:
    properties = Properties(content_type="x")
    message = encode_message("a/ü", b"1", 2, V5, retain=True, properties=properties)
    assert message == (0x35, "a/ü".encode(), encode_property_list(properties, PUBLISH), b"1")
    assert message.qos == 2
    assert encode_message("a", b"", 0, V311) == (0x30, b"a", b"", b"")


def test_what_mqtt_cannot_carry_is_refused() -> None:
    with pytest.raises(MisuseError, match="there is no QoS 3"):
        encode_message("t", b"", 3, V5)
    with pytest.raises(MisuseError, match="contains a wildcard"):
        encode_message("a/#", b"", 0, V5)
    with pytest.raises(MisuseError, match="properties need MQTT 5"):
        encode_message("a", b"", 0, V311, properties=Properties(content_type="x"))
