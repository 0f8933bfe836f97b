"""Cursors: what was encoded comes back, and anything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.past.cursors import TimeCursor, decode_cursor, encode_cursor
from holdfast.history.past.questions import QuestionError

CURSOR = TimeCursor((1_700_000_000_000_000, 3), {0: [0, 1], 1_699_999_999_000_000: [2]})


@given(
    st.integers(0, 2**62), st.integers(0, 2**16), st.dictionaries(st.integers(0, 2**62), st.lists(st.integers(0, 9)))
)
def test_a_cursor_comes_back(position_us: int, shard: int, borders: dict[int, list[int]]) -> None:
    cursor = TimeCursor((position_us, shard), borders)
    assert decode_cursor(encode_cursor(cursor), TimeCursor) == cursor


@given(st.data())
def test_a_cursor_that_was_cut_or_mistyped_is_refused(data: st.DataObject) -> None:
    text = encode_cursor(CURSOR)
    at = data.draw(st.integers(0, len(text) - 1))
    wrong = data.draw(st.sampled_from([text[:at], text[:at] + "~" + text[at + 1 :], text + "AAAA"]))
    with pytest.raises(QuestionError) as refused:
        decode_cursor(wrong, TimeCursor)
    assert (refused.value.status, refused.value.parameter) == (400, "cursor")


@pytest.mark.parametrize("text", ["", "q1-", "c1-abc", encode_cursor("a topic"), encode_cursor([1, 2, 3]), "é" * 10])
def test_a_cursor_of_another_question_is_refused(text: str) -> None:
    with pytest.raises(QuestionError):
        decode_cursor(text, TimeCursor)
