"""Offsets of a stream, as they stand in a checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.source.offsets import Offset, from_json, parse_offsets, to_json

OFFSETS = st.dictionaries(
    st.integers(0, 65_535), st.builds(Offset, st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1)), max_size=20
)


@given(OFFSETS)
def test_offsets_come_back_from_a_checkpoint(offsets: dict[int, Offset]) -> None:
    assert parse_offsets(json.dumps(to_json(offsets))) == offsets


def test_equal_offsets_are_equal_texts() -> None:
    """Spark compares texts to find out whether there is something new."""
    one, other = {10: Offset(5, 1), 9: Offset(4, 1)}, {9: Offset(4, 1), 10: Offset(5, 1)}

    assert json.dumps(to_json(one)) == json.dumps(to_json(other)) == '{"9": [4, 1], "10": [5, 1]}'


@pytest.mark.parametrize("pair", [[1], [1, 2, 3], [-2, 0], [0, -2], ["1", "2"], [1.0, 2], [True, 1], {}, None, 7])
def test_what_is_no_offset_is_refused(pair: object) -> None:
    with pytest.raises(ValueError, match="is not an offset"):
        from_json({"0": pair})


@pytest.mark.parametrize("text", ["", "newest", "[1, 2]", "7", "{"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of: earliest, latest, offsets like"):
        parse_offsets(text)
