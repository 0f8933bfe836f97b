"""Two filters compared without a topic; tests/property/test_overlap.py compares with all short topics."""

import pytest

from holdfast.topics.overlap import covers, overlap

pytestmark = pytest.mark.compiled


def levels(text: str) -> tuple[bytes, ...]:
    return tuple(text.encode().split(b"/"))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a/+", "+/b", True),
        ("a/b", "a/c", False),
        ("a/#", "a", True),
        ("a/+", "a", False),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
    ],
)
def test_filters_overlap_if_some_topic_matches_both(one: str, other: str, expected: bool) -> None:
    assert overlap(levels(one), levels(other)) is expected
    assert overlap(levels(other), levels(one)) is expected


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("a/#", "a/+/c", True),
        ("a/+/c", "a/#", False),
        ("a/#", "a", True),
        ("+/b", "a/b", True),
        ("+/b", "+/b", True),
        ("#", "$SYS/#", False),
        ("a", "a/b", False),
    ],
)
def test_a_filter_covers_another_if_it_matches_all_of_its_topics(wide: str, narrow: str, expected: bool) -> None:
    assert covers(levels(wide), levels(narrow)) is expected
