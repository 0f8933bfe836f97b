"""The live matcher finds every subscription that a topic reaches; see also tests/property/test_matching.py."""

import pytest

from holdfast.topics.filters import parse_filter
from holdfast.topics.matcher import Matcher

pytestmark = pytest.mark.compiled

FILTERS = ["plant/1/temp", "plant/+/temp", "plant/#", "#", "+/1/#", "$SYS/#"]


def matcher_of(*filters: str) -> Matcher[str, str]:
    matcher: Matcher[str, str] = Matcher()
    for text in filters:
        assert matcher.subscribe(parse_filter(text.encode()), "client", text)
    matcher.check_invariants()
    return matcher


@pytest.mark.parametrize(
    ("topic", "reached"),
    [
        (b"plant/1/temp", ["#", "+/1/#", "plant/#", "plant/+/temp", "plant/1/temp"]),
        (b"plant", ["#", "plant/#"]),
        (b"plant/1", ["#", "+/1/#", "plant/#"]),
        (b"other", ["#"]),
        (b"$SYS/uptime", ["$SYS/#"]),
    ],
)
def test_a_topic_reaches_the_filters_that_match_it(topic: bytes, reached: list[str]) -> None:
    """[MQTT-4.7.2-1]: a wildcard at the first level does not reach topics that begin with `$`."""
    assert sorted(matcher_of(*FILTERS).match(topic)) == reached


@pytest.mark.parametrize("text", ["a/b", "a/+", "a/#"])
def test_a_key_has_one_value_for_each_filter(text: str) -> None:
    matcher = matcher_of()
    topic_filter = parse_filter(text.encode())

    assert matcher.subscribe(topic_filter, "one", "first")
    assert not matcher.subscribe(topic_filter, "one", "second")
    assert matcher.subscribe(topic_filter, "two", "other")
    assert len(matcher) == 2
    assert sorted(matcher.match(b"a/b")) == ["other", "second"]


@pytest.mark.parametrize("text", ["a/b", "a/+", "a/#"])
def test_nothing_stays_behind_when_everything_is_unsubscribed(text: str) -> None:
    matcher = matcher_of(text)
    topic_filter = parse_filter(text.encode())
    matcher.subscribe(topic_filter, "other", text)

    assert not matcher.unsubscribe(topic_filter, "stranger")
    assert matcher.unsubscribe(topic_filter, "client")
    assert matcher.match(b"a/b") == [text]
    assert matcher.unsubscribe(topic_filter, "other")
    assert matcher.match(b"a/b") == []
    assert len(matcher) == 0
    matcher.check_invariants()
