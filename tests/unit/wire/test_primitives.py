"""The data types of MQTT: integers, variable byte integers, strings, binary data."""

import pytest

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import MAX_VARINT
from holdfast.model.reasons import MALFORMED_PACKET
from holdfast.wire.primitives import (
    ByteReader,
    encode_binary,
    encode_frame,
    encode_text,
    encode_u16,
    encode_varint,
)

pytestmark = pytest.mark.compiled

#: From the table of the standard, 1.5.5.
VARINTS = [
    (0, b"\x00"),
    (127, b"\x7f"),
    (128, b"\x80\x01"),
    (16_383, b"\xff\x7f"),
    (16_384, b"\x80\x80\x01"),
    (2_097_151, b"\xff\xff\x7f"),
    (2_097_152, b"\x80\x80\x80\x01"),
    (268_435_455, b"\xff\xff\xff\x7f"),
]


def reader(data: bytes) -> ByteReader:
    return ByteReader(data, 0, len(data))


@pytest.mark.parametrize(("value", "encoded"), VARINTS)
def test_a_variable_byte_integer_has_the_bytes_of_the_standard(value: int, encoded: bytes) -> None:
    assert encode_varint(value) == encoded
    assert reader(encoded).varint("a length") == value


@pytest.mark.parametrize("encoded", [b"\x80\x00", b"\xff\x80\x00", b"\x80\x80\x80\x80\x01", b"\x80", b""])
def test_a_variable_byte_integer_is_short_and_complete(encoded: bytes) -> None:
    """[MQTT-1.5.5-1]"""
    with pytest.raises(PeerError) as refused:
        reader(encoded).varint("a length")
    assert refused.value.reason == MALFORMED_PACKET


def test_fields_are_read_one_after_the_other() -> None:
    fields = reader(b"\x07\x01\x02\x00\x01\x00\x02\x00\x02\xc3\xa9\x00\x01\xffrest")

    assert fields.u8("one byte") == 7
    assert fields.u16("two bytes") == 0x0102
    assert fields.u32("four bytes") == 0x00010002
    assert fields.text("a text") == "é"
    assert fields.binary("some bytes") == b"\xff"
    assert not fields.at_end()
    assert fields.rest() == b"rest"
    assert fields.at_end()


@pytest.mark.parametrize("data", [b"\x00\x02a", b"\x00"])
def test_a_field_that_runs_past_the_packet_is_malformed(data: bytes) -> None:
    with pytest.raises(PeerError, match="the packet ends within a topic"):
        reader(data).binary("a topic")


def test_what_is_encoded_has_its_length_in_front() -> None:
    assert encode_text("é") == b"\x00\x02\xc3\xa9"
    assert encode_binary(b"") == b"\x00\x00"
    assert encode_u16(65_535) == b"\xff\xff"
    assert encode_frame(0x30, b"x" * 200) == b"\x30\xc8\x01" + b"x" * 200


def test_what_does_not_fit_is_our_own_mistake() -> None:
    for wrong in (-1, 65_536):
        with pytest.raises(MisuseError, match="does not fit into two bytes"):
            encode_u16(wrong)
    with pytest.raises(MisuseError, match="variable byte integer"):
        encode_varint(MAX_VARINT + 1)
    with pytest.raises(MisuseError, match="65536 bytes do not fit"):
        encode_binary(b"x" * 65_536)
    for text in ("a\0b", "\ud800"):
        with pytest.raises(MisuseError):
            encode_text(text)
