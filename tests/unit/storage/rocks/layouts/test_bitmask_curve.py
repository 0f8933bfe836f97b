"""The bits of the bitmask layouts: filters as masks, and jumps to the next code that can match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.rocks.layouts.bitmask_curve import Curve, interleaved, next_match, shifted, z_order
from tests.property.test_matching import brute_force

CURVES = [shifted(3, 4), shifted(1, 16), z_order(3, 4), z_order(4, 7), interleaved(3, 4), interleaved(2, 32)]
LEVELS = ["a", "b", "", "$s", "+x"]


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_the_next_code_is_the_smallest_that_can_match(code: int, query: int, mask: int) -> None:
    """L4: a jump that went too far would skip messages."""
    query &= mask
    wanted = [other for other in range(code, 256) if other & mask == query]
    assert next_match(code, query, mask, 8) == (wanted[0] if wanted else -1)


@pytest.mark.parametrize("curve", CURVES)
@given(
    topic=st.lists(st.sampled_from(LEVELS[:4]), min_size=1, max_size=6).map("/".join).filter(bool),
    levels=st.lists(st.sampled_from(["a", "b", "", "$s", "+", "+"]), max_size=5),
    rest=st.booleans(),
    offset_us=st.integers(0, 2**32 - 1),
)
def test_the_code_of_a_matching_topic_passes_the_mask(
    curve: Curve, topic: str, levels: list[str], rest: bool, offset_us: int
) -> None:
    """L4, L6: at every depth, for missing and for joined levels, at any time."""
    text = "/".join([*levels, "#"] if rest or not levels else levels) or "/"
    query, mask = curve.query(tuple(text.encode().split(b"/")))
    code = curve.topic_bits(topic.encode()) | curve.time_bits(offset_us)
    assert query & ~mask == 0
    assert code < 1 << 8 * curve.width_bytes
    if brute_force(text, topic):
        assert code & mask == query


@pytest.mark.parametrize("curve", [shifted(4, 16), z_order(4, 16), interleaved(4, 16)])
def test_the_mask_tells_most_topics_apart(curve: Curve) -> None:
    """L8: level by level, a shorter and a longer topic included; `+` fixes nothing, `#` nothing from there on."""
    code = curve.topic_bits(b"plant/7/temp")
    for text in (b"plant/7/temp", b"plant/+/temp", b"+/7/+", b"plant/#", b"#", b"plant/7/temp/#"):
        query, mask = curve.query(tuple(text.split(b"/")))
        assert code & mask == query, text
    for text in (b"plant/8/temp", b"plant/+/hum", b"+/7", b"+/7/+/x", b"other/#", b"+/8/#", b"+/+/+/x"):
        query, mask = curve.query(tuple(text.split(b"/")))
        assert code & mask != query, text


def test_the_bits_stand_where_the_curve_puts_them() -> None:
    """Never change: these are keys."""
    code = shifted(2, 8).topic_bits(b"a/b")
    assert code == int("408400000000", 16)
    assert code | 0xFFFFFFFF == shifted(2, 8).topic_bits(b"a/b") | shifted(2, 8).time_bits(2**32 - 1)
    assert z_order(2, 8).topic_bits(b"a/b") == int("601000000000", 16)
    assert interleaved(2, 8).topic_bits(b"a/b") == int("200080200000", 16)
