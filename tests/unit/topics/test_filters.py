"""Topic filters: wildcards, `$share`, `$replay`."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.reasons import MALFORMED_PACKET, TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    ("text", "levels", "group", "since"),
    [
        ("a/b", ["a", "b"], "", ""),
        ("#", ["#"], "", ""),
        ("+/+/#", ["+", "+", "#"], "", ""),
        ("/", ["", ""], "", ""),
        ("$SYS/#", ["$SYS", "#"], "", ""),
        ("$shared/x", ["$shared", "x"], "", ""),
        ("$share/g/a/+", ["a", "+"], "g", ""),
        ("$share/g//", ["", ""], "g", ""),
        ("$replay/-2h/plant/+/temp", ["plant", "+", "temp"], "", "-2h"),
        ("$replay/2026-07-01T00:00:00Z/#", ["#"], "", "2026-07-01T00:00:00Z"),
        ("$share/g/$replay/earliest/a", ["a"], "g", "earliest"),
    ],
)
def test_filters_are_taken_apart(text: str, levels: list[str], group: str, since: str) -> None:
    found = parse_filter(text.encode())
    assert [level.decode() for level in found.levels] == levels
    assert (found.group, found.since) == (group, since)
    assert found.inner().decode() == "/".join(levels)
    assert found.wildcard == ("+" in levels or "#" in levels)
    assert found.raw == text.encode()


@pytest.mark.parametrize(
    ("raw", "reason", "word"),
    [
        pytest.param(b"", MALFORMED_PACKET, "empty", id="MQTT-4.7.3-1 empty"),
        pytest.param(b"a/#/b", MALFORMED_PACKET, "'#'", id="MQTT-4.7.1-1 hash in the middle"),
        pytest.param(b"a#", MALFORMED_PACKET, "'#'", id="MQTT-4.7.1-1 hash behind a name"),
        pytest.param(b"##", MALFORMED_PACKET, "'#'", id="MQTT-4.7.1-1 two hashes"),
        pytest.param(b"a+/b", MALFORMED_PACKET, "'+'", id="MQTT-4.7.1-2 plus behind a name"),
        pytest.param(b"a/+b", MALFORMED_PACKET, "'+'", id="MQTT-4.7.1-2 plus before a name"),
        pytest.param(b"a/\0", MALFORMED_PACKET, "U+0000", id="MQTT-4.7.3-2 NUL"),
        pytest.param(b"\xc3\x28", MALFORMED_PACKET, "UTF-8", id="MQTT-1.5.4-1 not UTF-8"),
        pytest.param(b"a" * 65_536, MALFORMED_PACKET, "65536", id="MQTT-4.7.3-3 too long"),
        pytest.param(b"$share", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-2 share alone"),
        pytest.param(b"$share/g", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-2 no filter"),
        pytest.param(b"$share/g/", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-2 empty filter"),
        pytest.param(b"$share//a", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-1 empty name"),
        pytest.param(b"$share/g+/a", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-2 plus in name"),
        pytest.param(b"$share/#/a", MALFORMED_PACKET, "$share/<group>/<filter>", id="MQTT-4.8.2-2 hash in name"),
        pytest.param(b"$share/g/a/#/b", MALFORMED_PACKET, "'#'", id="MQTT-4.7.1-1 hash in a shared filter"),
        pytest.param(b"$replay", TOPIC_FILTER_INVALID, "$replay/<since>/<filter>", id="replay alone"),
        pytest.param(b"$replay/-2h", TOPIC_FILTER_INVALID, "$replay/<since>/<filter>", id="replay without filter"),
        pytest.param(b"$replay//a", TOPIC_FILTER_INVALID, "$replay/<since>/<filter>", id="replay without start"),
        pytest.param(b"$replay/-2h/$share/g/a", TOPIC_FILTER_INVALID, "combination", id="share inside replay"),
        pytest.param(b"$share/g/$share/h/a", TOPIC_FILTER_INVALID, "combination", id="share inside share"),
        pytest.param(b"$replay/-2h/$replay/-1h/a", TOPIC_FILTER_INVALID, "combination", id="replay inside replay"),
    ],
)
def test_bad_filters_are_refused_with_a_reason_that_says_why(raw: bytes, reason: int, word: str) -> None:
    with pytest.raises(PeerError) as caught:
        parse_filter(raw)
    assert caught.value.reason == reason
    assert word in caught.value.detail


@pytest.mark.parametrize(
    ("text", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$SYS/+", "$SYS/x", True),
        ("ACCOUNTS", "Accounts", False),
    ],
)
def test_the_standards_own_examples(text: str, topic: str, expected: bool) -> None:
    """L7: wildcards at the first level leave out `$`-topics [MQTT-4.7.2-1]."""
    assert parse_filter(text.encode()).matches(topic.encode()) is expected


def test_equal_filters_are_equal_and_hash_alike() -> None:
    assert parse_filter(b"a/+") == parse_filter(b"a/+")
    assert len({parse_filter(b"a/+"), parse_filter(b"a/+"), parse_filter(b"a/#")}) == 2
