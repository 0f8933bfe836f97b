"""UTF-8 strings as MQTT defines them."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.reasons import MALFORMED_PACKET
from holdfast.model.text import decode_text

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("text", ["", "a", "größe/😀", "\ufeffa", "\u0001"])
def test_well_formed_text_is_decoded(text: str) -> None:
    assert decode_text(text.encode(), "a topic") == text


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (b"\xff", "a topic is not valid UTF-8"),
        (b"\xed\xa0\x80", "a topic is not valid UTF-8"),
        (b"\xc0\x80", "a topic is not valid UTF-8"),
        (b"a\0b", "a topic contains U.0000"),
    ],
    ids=["MQTT-1.5.4-1 no UTF-8", "MQTT-1.5.4-1 surrogate", "MQTT-1.5.4-1 overlong", "MQTT-1.5.4-2"],
)
def test_other_bytes_are_malformed(raw: bytes, wrong: str) -> None:
    with pytest.raises(PeerError, match=wrong) as refused:
        decode_text(raw, "a topic")
    assert refused.value.reason == MALFORMED_PACKET
