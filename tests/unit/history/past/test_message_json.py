"""A message as JSON: bytes of any kind come back, cut ones between two characters."""

from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.past.message_json import message_fields, payload_fields, text_or_base64
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import PUBLISH
from holdfast.wire.properties import Properties, encode_property_list

_payloads = st.one_of(st.binary(max_size=40), st.text(max_size=40).map(lambda text: text.encode(errors="ignore")))


@given(_payloads)
def test_bytes_are_shown_as_text_or_base64_and_come_back(data: bytes) -> None:
    fields = text_or_base64(data)
    if "text" in fields:
        assert fields["text"].encode() == data
        assert all(
            character in "\t\n\r" or character.isprintable() or ord(character) > 0x9F for character in data.decode()
        )
    else:
        assert b64decode(fields["base64"]) == data


@given(_payloads, st.integers(4, 30))
def test_a_long_payload_is_cut_between_two_characters(data: bytes, most: int) -> None:
    fields = payload_fields(data, most)
    if len(data) <= most:
        assert "cut" not in fields
        return
    assert (fields["cut"], fields["bytes"]) == (True, len(data))
    shown = fields["text"].encode() if "text" in fields else b64decode(fields["base64"])
    assert data.startswith(shown)
    assert most - 3 <= len(shown) <= most


def test_properties_have_their_names_in_mqtt_and_an_expiry_is_a_time() -> None:
    properties = Properties(
        content_type="application/json",
        response_topic="answers",
        correlation_data=b"\x00\xff",
        user_properties=(("a", "1"), ("a", "2")),
        payload_format_indicator=1,
    )
    raw = encode_property_list(properties, PUBLISH)
    message = Message(b"t", b"", 1, ClientId("c"), 5, properties=raw, expires_us=9)
    assert message_fields(message, 7, "0/7/1", "default")["properties"] == {
        "payload_format_indicator": 1,
        "content_type": "application/json",
        "response_topic": "answers",
        "correlation_data": {"base64": "AP8="},
        "user_properties": (("a", "1"), ("a", "2")),
        "expires_us": 9,
    }


def test_properties_that_cannot_be_read_are_shown_as_bytes() -> None:
    message = Message(b"t", b"", 1, ClientId("c"), 5, properties=b"\x99\x01")
    assert message_fields(message, 7, None, None)["properties"] == {"undecoded": {"base64": "mQE="}}
