"""Topic names: what may be published to."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR
from holdfast.topics.names import check_topic_name, is_dollar

pytestmark = pytest.mark.compiled

GOOD = ["a", "/", "//", "/a", "a/", "a//b", "$SYS/x", "größe/😀", "a b", "a" * 65_535, "\ufeffa", "\u0001"]

BAD = [
    pytest.param(b"", PROTOCOL_ERROR, "empty", id="MQTT-4.7.3-1 empty"),
    pytest.param(b"a/+", MALFORMED_PACKET, "wildcard", id="MQTT-3.3.2-2 plus"),
    pytest.param(b"a/#", MALFORMED_PACKET, "wildcard", id="MQTT-3.3.2-2 hash"),
    pytest.param(b"a+b", MALFORMED_PACKET, "wildcard", id="MQTT-4.7.0-1 plus inside a level"),
    pytest.param(b"a\0b", MALFORMED_PACKET, "U+0000", id="MQTT-4.7.3-2 NUL"),
    pytest.param(b"a\xff", MALFORMED_PACKET, "UTF-8", id="MQTT-1.5.4-1 not UTF-8"),
    pytest.param(b"\xed\xa0\x80", MALFORMED_PACKET, "UTF-8", id="MQTT-1.5.4-1 surrogate"),
    pytest.param(b"\xc0\x80", MALFORMED_PACKET, "UTF-8", id="MQTT-1.5.4-1 overlong"),
    pytest.param(b"a" * 65_536, MALFORMED_PACKET, "65536", id="MQTT-4.7.3-3 too long"),
]


@pytest.mark.parametrize("name", GOOD, ids=lambda name: name[:10])
def test_odd_but_valid_names_are_accepted(name: str) -> None:
    """L6: empty levels, `$`-topics, Unicode and the longest topic are topics."""
    check_topic_name(name.encode())
    assert is_dollar(name.encode()) == name.startswith("$")


@pytest.mark.parametrize(("raw", "reason", "word"), BAD)
def test_bad_names_are_refused_with_a_reason_that_says_why(raw: bytes, reason: int, word: str) -> None:
    with pytest.raises(PeerError) as caught:
        check_topic_name(raw)
    assert caught.value.reason == reason
    assert word in caught.value.detail
