"""Filters compared with each other give what trying every topic of a small universe gives."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.topics.filters import levels_match
from holdfast.topics.overlap import covers, overlap

pytestmark = pytest.mark.compiled

# A filter below names three levels at most. So topics of up to four levels show every difference there can be,
# provided that they also use names that no filter has: `z`, and `$z` at the start.
NAMED = [b"a", b"b", b"", b"$s"]
UNIVERSE = [
    levels for count in range(1, 5) for levels in product([*NAMED, b"z", b"$z"], repeat=count) if levels != (b"",)
]

Levels = tuple[bytes, ...]


@st.composite
def filters(draw: st.DrawFn) -> Levels:
    levels = draw(st.lists(st.sampled_from([*NAMED, b"+", b"+"]), max_size=3))
    if not levels or levels == [b""] or draw(st.booleans()):
        levels.append(b"#")
    return tuple(levels)


def topics_of(levels: Levels) -> set[Levels]:
    """Every topic of the universe that matches, one by one."""
    return {topic for topic in UNIVERSE if levels_match(levels, list(topic), dollar=topic[0].startswith(b"$"))}


@given(filters(), filters())
@example((b"#",), (b"$s", b"#"))
@example((b"+", b"a"), (b"$s", b"a"))
@example((b"a", b"#"), (b"a",))
@example((b"a", b"+"), (b"a",))
@example((b"+",), (b"#",))
@example((b"", b"#"), (b"+",))
def test_filters_overlap_exactly_if_a_topic_matches_both(a: Levels, b: Levels) -> None:
    wanted = bool(topics_of(a) & topics_of(b))
    assert overlap(a, b) == wanted
    assert overlap(b, a) == wanted


@given(filters(), filters())
@example((b"+", b"#"), (b"#",))
@example((b"#",), (b"+", b"#"))
@example((b"#",), (b"$s",))
@example((b"a", b"#"), (b"a",))
@example((b"a", b"+", b"#"), (b"a", b"#"))
@example((b"", b"+", b"#"), (b"", b"#"))
@example((b"+", b"+", b"#"), (b"", b"#"))
def test_a_filter_covers_another_exactly_if_it_matches_all_its_topics(a: Levels, b: Levels) -> None:
    assert covers(a, b) == (topics_of(b) <= topics_of(a))


@given(filters())
def test_a_filter_overlaps_and_covers_itself(levels: Levels) -> None:
    assert overlap(levels, levels)
    assert covers(levels, levels)
