"""Patterns divide a lake so that a reader who skips one misses nothing."""

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.lake.lake_patterns import CATCH_ALL, PatternFinder, busiest_patterns, may_share
from holdfast.topics.filters import levels_match, parse_filter
from holdfast.topics.learned import LearnedPattern
from holdfast.topics.names import is_dollar

TOKENS = st.sampled_from(["a", "b", "", "$x"])
TOPICS = st.lists(TOKENS, min_size=1, max_size=4).map("/".join).filter(bool)
PATTERNS = st.lists(st.sampled_from(["a", "b", "+", "", "$x"]), min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *(["#"] if rest else [])]),
    st.lists(st.sampled_from(["a", "b", "+", "", "$x"]), max_size=4),
    st.booleans(),
).filter(bool)


@given(TOPICS, st.lists(PATTERNS, max_size=5), FILTERS)
def test_what_a_filter_finds_is_never_filed_where_it_does_not_look(
    topic: str, patterns: list[str], topic_filter: str
) -> None:
    finder = PatternFinder(patterns)
    filed = finder.texts[finder.numbers(pa.array([topic]))[0].as_py()]
    levels = parse_filter(topic_filter.encode()).levels

    if levels_match(levels, topic.encode().split(b"/"), dollar=is_dollar(topic.encode())):
        assert may_share(filed, levels)
    assert may_share(filed, ())


@pytest.mark.parametrize(
    ("pattern", "topic_filter", "shared"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a/b/d", False),
        ("a/+/c", "a/#", True),
        ("a/+/c", "a/+", False),
        ("a", "a/#", True),
        (CATCH_ALL, "x/y", True),
    ],
)
def test_a_pattern_is_skipped_by_filters_that_share_no_topic_with_it(
    pattern: str, topic_filter: str, shared: bool
) -> None:
    assert may_share(pattern, parse_filter(topic_filter.encode()).levels) is shared


def test_the_busiest_patterns_get_partitions() -> None:
    found = [
        LearnedPattern("a/+", 50),
        LearnedPattern("b/+", 900),
        LearnedPattern("a/+", 10),
        LearnedPattern("c", 3),
        LearnedPattern("#", 800),
    ]

    assert busiest_patterns(found) == ["b/+", "a/+"]
    assert busiest_patterns(found, most=1) == ["b/+"]
    assert busiest_patterns([LearnedPattern("é" * 100, 10)]) == []
