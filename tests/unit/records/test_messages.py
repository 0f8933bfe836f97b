"""Stored messages: everything comes back, and damage is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import StoredMessage, decode_message, encode_message, stored_payload, stored_topic
from tests.unit.records.stored_messages import stored_messages

pytestmark = pytest.mark.compiled


@given(stored_messages())
def test_everything_of_a_message_comes_back(stored: StoredMessage) -> None:
    value = encode_message(stored.message, stored.position_us, stored.serial)

    assert decode_message(value) == stored
    assert stored_topic(value) == stored.message.topic
    assert stored_payload(value) == stored.message.payload


def test_the_longest_topic_and_client_id_fit() -> None:
    message = Message(b"t" * 65_535, b"", 0, ClientId("c" * 65_535), 1)

    assert decode_message(encode_message(message, 1, 1)).message == message


@pytest.mark.parametrize(
    ("left_us", "expiry_us"), [(1, 1), (2, 1_000_000), (1_000_000, 1_000_000), (1_000_001, 2_000_000)]
)
def test_an_expiry_between_two_seconds_becomes_the_later_one(left_us: int, expiry_us: int) -> None:
    message = Message(b"t", b"", 0, ClientId("c"), 5_000_000, expires_us=5_000_000 + left_us)

    assert decode_message(encode_message(message, 1, 1)).message.expires_us == 5_000_000 + expiry_us


@pytest.mark.parametrize(
    ("topic", "position_us", "serial"), [(b"t" * 65_536, 1, 1), (b"t", 2**63, 1), (b"t", 1, -1), (b"t", 1, 2**64)]
)
def test_what_does_not_fit_is_our_own_mistake(topic: bytes, position_us: int, serial: int) -> None:
    with pytest.raises(MisuseError, match="does not fit"):
        encode_message(Message(topic, b"", 0, ClientId("c"), 1), position_us, serial)


VALUE = encode_message(Message(b"a/b", b"payload", 1, ClientId("dev"), 1), 2, 3)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(b"", "0 bytes, its header alone has 42", id="nothing"),
        pytest.param(VALUE[:41], "41 bytes", id="half a header"),
        pytest.param(VALUE[:-1], "add up to 55", id="cut"),
        pytest.param(VALUE + b"x", "add up to 55", id="too long"),
        pytest.param(b"\x02" + VALUE[1:], "version 2", id="of the future"),
        pytest.param(VALUE[:1] + b"\x03" + VALUE[2:], "flags 0x03", id="QoS 3"),
        pytest.param(VALUE[:1] + b"\x10" + VALUE[2:], "flags 0x10", id="unknown flag"),
        pytest.param(VALUE[:45] + b"\xff" + VALUE[46:], "not UTF-8", id="publisher"),
    ],
)
def test_damage_is_named(value: bytes, words: str) -> None:
    with pytest.raises(PermanentError, match=words):
        decode_message(value)


@given(st.binary(max_size=120))
def test_no_bytes_make_decoding_fail_in_another_way(value: bytes) -> None:
    try:
        stored = decode_message(value)
    except PermanentError:
        return
    assert len(encode_message(stored.message, stored.position_us, stored.serial)) == len(value)
