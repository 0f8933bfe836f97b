"""Golden bytes of the marks of heads."""

import pytest

from holdfast.records.head_marks import HeadMark, HeadMarks, encode_mark
from tests.formats.golden_records import T, spaced

pytestmark = pytest.mark.compiled

#: Position T with serial 7, then a minute later the same serial, then one beyond 32 bits.
MARKS_BYTES = spaced("""
    00 40 1e 18 24 0a 06 00   07 00 00 00 00 00 00 00
    00 c7 b1 1b 24 0a 06 00   07 00 00 00 00 00 00 00
    00 4e 45 1f 24 0a 06 00   00 00 00 00 00 01 00 00
""")
MARKS = [HeadMark(T, 7), HeadMark(T + 60_000_000, 7), HeadMark(T + 120_000_000, 2**40)]


def test_marks_are_written_as_their_golden_bytes() -> None:
    assert b"".join(encode_mark(*mark) for mark in MARKS).hex(" ") == MARKS_BYTES.hex(" ")


def test_golden_marks_are_read() -> None:
    marks = HeadMarks(MARKS_BYTES)
    assert [marks.mark(number) for number in range(len(marks))] == MARKS
