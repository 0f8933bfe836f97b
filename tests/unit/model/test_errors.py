"""Errors: a family for each thing a caller can do about it."""

import pytest

from holdfast.model.errors import (
    HoldfastError,
    MisuseError,
    PeerError,
    PermanentError,
    PoisonedError,
    SettingsError,
    TransientError,
)
from holdfast.model.reasons import MALFORMED_PACKET
from holdfast.model.text import decode_text

pytestmark = pytest.mark.compiled

FAMILIES = [PeerError, MisuseError, TransientError, PermanentError, PoisonedError, SettingsError]


def test_a_peer_error_says_its_reason_by_name_and_number() -> None:
    error = PeerError(0x81, "the topic name is not valid UTF-8")

    assert str(error) == "Malformed Packet (0x81): the topic name is not valid UTF-8"
    assert (error.reason, error.detail) == (0x81, "the topic name is not valid UTF-8")


def test_a_peer_error_with_an_unknown_reason_can_still_be_printed() -> None:
    assert str(PeerError(0x7F, "odd")) == "Unknown reason (0x7F): odd"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_caught_neither_with_another_nor_by_chance(family: type[HoldfastError]) -> None:
    assert issubclass(family, HoldfastError)
    assert not issubclass(family, OSError | ValueError | AssertionError)
    assert [other for other in FAMILIES if issubclass(family, other)] == [family]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\xff", "the client id is not valid UTF-8"),
        (b"a\x00", "the client id contains U+0000"),
        (b"\xed\xa0\x80", "the client id is not valid UTF-8"),
        (b"\xc0\x80", "the client id is not valid UTF-8"),
        (b"\xe2\x82", "the client id is not valid UTF-8"),
    ],
)
def test_bad_text_is_malformed_and_named(raw: bytes, says: str) -> None:
    with pytest.raises(PeerError) as caught:
        decode_text(raw, "the client id")

    assert (caught.value.reason, caught.value.detail) == (MALFORMED_PACKET, says)


def test_a_byte_order_mark_is_part_of_the_text() -> None:
    assert decode_text(b"\xef\xbb\xbfa", "x") == "\ufeffa"  # [MQTT-1.5.4-3]
    assert decode_text(b"", "x") == ""
