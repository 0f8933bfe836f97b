"""Marks of heads in memory: only those count that follow each other."""

import pytest

from holdfast.records.head_marks import MARK_BYTES, HeadMark, HeadMarks, encode_mark

pytestmark = pytest.mark.compiled

MINUTE_US = 60_000_000


def content(*marks: tuple[int, int]) -> bytes:
    return b"".join(encode_mark(*mark) for mark in marks)


def read(bytes_: bytes) -> list[HeadMark]:
    marks = HeadMarks(bytes_)
    return [marks.mark(number) for number in range(len(marks))]


@pytest.mark.parametrize("torn", range(MARK_BYTES))
def test_a_torn_end_is_passed_over(torn: int) -> None:
    whole = content((1, 1), (2, 1), (3, 5))
    assert read(whole + bytes(torn)) == [(1, 1), (2, 1), (3, 5)]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param((0, 0), id="zeros, as a file system leaves them after a power loss"),
        pytest.param((2, 9), id="the position of the mark before"),
        pytest.param((9, 0), id="a serial that goes back"),
        pytest.param((-5, 2**63), id="numbers that are none"),
    ],
)
def test_nothing_counts_from_the_first_mark_on_that_does_not_follow(wrong: tuple[int, int]) -> None:
    assert read(content((1, 1), (2, 1), wrong, (50, 50))) == [(1, 1), (2, 1)]
    assert read(content(wrong)[:MARK_BYTES]) in ([], [wrong])


def test_an_empty_file_has_no_marks() -> None:
    assert read(b"") == []


def test_marks_above_a_serial_or_in_the_future_are_not_covered() -> None:
    marks = HeadMarks(content((10, 1), (20, 5), (30, 5), (40, 8)))
    assert marks.count_covered(8, 100) == 4
    assert marks.count_covered(7, 100) == 3
    assert marks.count_covered(8, 30) == 2
    assert marks.count_covered(0, 100) == 0
    assert [marks.count_until(position_us) for position_us in (9, 10, 25, 40)] == [0, 1, 2, 4]


def test_half_a_million_marks_are_found_by_position() -> None:
    count = 500_000
    marks = HeadMarks(content(*[(MINUTE_US * (number + 1), 3 * number) for number in range(count)]))
    assert len(marks) == count
    assert marks.count_until(MINUTE_US * 777 + 5) == 777
