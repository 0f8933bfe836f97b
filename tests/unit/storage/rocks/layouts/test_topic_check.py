"""Whether a stored topic matches a filter, for many messages and one filter."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import encode_message
from holdfast.storage.rocks.layouts.layout import NOTHING_YET
from holdfast.storage.rocks.layouts.topic_check import filter_check, only


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", ["a", "a/b", "$x"], []),
        ("a/b", ["a/b"], ["a", "a/b/c"]),
        ("a/+", ["a/b", "a/"], ["a", "b/b", "a/b/c"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["b", "$a/b"]),
        ("#", ["a", "a/b"], ["$x", "$x/y"]),
    ],
)
def test_a_filter_is_checked_level_by_level(text: str, matching: list[str], others: list[str]) -> None:
    check = filter_check(tuple(text.encode().split(b"/")) if text else ())
    for _again in range(2):
        assert all(check(topic.encode()) for topic in matching)
        assert not any(check(topic.encode()) for topic in others)


def test_a_reader_hears_of_a_long_stretch_without_a_match() -> None:
    def values(count: int, topic: bytes) -> list[bytes]:
        return [encode_message(Message(topic, b"", 1, ClientId("c"), 0), at, at) for at in range(1, count + 1)]

    found = list(only(iter([*values(2_500, b"other"), *values(1, b"a")]), filter_check((b"a",))))
    assert found == [NOTHING_YET, NOTHING_YET, *values(1, b"a")]
