"""Questions and pages between a broker and its history process."""

import pytest

from holdfast.durable.lake_page import LakeEnd, LakeQuestion, decode_page, encode_page, parse_ranges
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import ArchivedMessage, Message
from holdfast.records.messages import encode_message

pytestmark = pytest.mark.compiled

RECORD = encode_message(Message(b"a/b", b"x" * 300, 1, ClientId("p"), 17, properties=b"\x01\x00"), 99, 5)


def test_a_page_is_read_as_it_was_written() -> None:
    page = decode_page(encode_page([(3, RECORD), (70, RECORD)], 1234, {3: LakeEnd(99, 7), 70: LakeEnd(0, 0)}))
    assert [(type(one), one.shard, one.position_us) for one in page.messages] == [
        (ArchivedMessage, 3, 99),
        (ArchivedMessage, 70, 99),
    ]
    assert page.messages[0] == Message(b"a/b", b"x" * 300, 1, ClientId("p"), 17, properties=b"\x01\x00")
    assert (page.up_to_us, page.ends) == (1234, {3: LakeEnd(99, 7), 70: LakeEnd(0, 0)})
    assert decode_page(encode_page([], 0, None)).ends is None


@pytest.mark.parametrize("cut", [0, 5, 10, 18, 20, -1, -300])
def test_a_page_that_is_cut_off_is_refused(cut: int) -> None:
    whole = encode_page([(3, RECORD)], 1234, None)
    with pytest.raises(PermanentError):
        decode_page(whole[:cut])


def test_what_is_left_of_a_question_begins_behind_what_was_answered() -> None:
    question = LakeQuestion((b"a", b"#"), {1: (10, 20), 2: (15, 40), 3: (30, 50)})
    assert question.behind(19).ranges == {2: (20, 40), 3: (30, 50)}
    assert question.behind(49).ranges == {}


def test_a_question_is_read_as_it_was_written() -> None:
    question = LakeQuestion((b"a", b"+", b"#"), {1: (10, 20), 22: (0, 2**63 - 1)})
    found = dict(question.parameters())
    assert found["filter"] == "a/+/#"
    assert parse_ranges(found["ranges"]) == question.ranges


@pytest.mark.parametrize("text", ["", "1", "1:2", "1:5:5", "-1:1:2", "1:2:3,", "a:1:2", "1:2:3:4"])
def test_ranges_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid|values"):
        parse_ranges(text)
