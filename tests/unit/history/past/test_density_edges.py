"""When the broker did not run, as marks of heads tell it."""

from pathlib import Path

from holdfast.history.past.density_edges import covered_marks, gaps, longest_marks
from holdfast.history.reader.view import View
from holdfast.model.time import MINUTE_US
from holdfast.records.head_marks import HeadMarks, encode_mark
from holdfast.storage.rocks.log.head_marks import MarkFiles, ShardMark
from holdfast.storage.rocks.log.published_heads import Head

END_US = 1_000 * MINUTE_US


def marks(*minutes: int) -> HeadMarks:
    return HeadMarks(b"".join(encode_mark(minute * MINUTE_US, 1) for minute in minutes))


def minutes(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(begin_us // MINUTE_US, end_us // MINUTE_US) for begin_us, end_us in found]


def test_marks_that_are_more_than_two_minutes_apart_make_a_gap() -> None:
    found = marks(1, 2, 4, 7, 8, 20, 21)
    assert minutes(gaps(found, 0, END_US, 21 * MINUTE_US)) == [(4, 7), (8, 20)]


def test_a_gap_ends_with_the_picture() -> None:
    found = marks(1, 100)
    assert minutes(gaps(found, 10 * MINUTE_US, 30 * MINUTE_US, 100 * MINUTE_US)) == [(10, 30)]
    assert gaps(found, 100 * MINUTE_US, END_US, 100 * MINUTE_US) == []


def test_a_broker_without_marks_up_to_now_does_not_run() -> None:
    assert gaps(marks(1, 2), 0, END_US, 4 * MINUTE_US) == []
    assert minutes(gaps(marks(1, 2), 0, END_US, 9 * MINUTE_US)) == [(2, 9)]


def test_nothing_is_told_of_the_time_before_the_first_mark() -> None:
    assert gaps(marks(), 0, END_US, END_US) == []
    assert gaps(marks(500), 0, END_US, 501 * MINUTE_US) == []


def test_the_shard_with_marks_for_longest_tells_for_all(tmp_path: Path) -> None:
    """A zone that came later has no marks before, and one that has nothing left gets none any more."""
    view = View({shard: Head(END_US, 1) for shard in range(4)}, {}, {}, {})
    assert len(longest_marks(tmp_path, view)) == 0
    for shard, found in enumerate([(1, 2), (11, 12), (1, 2, 10, 11, 12)]):
        marked = [ShardMark(shard, minute * MINUTE_US, 1, 0) for minute in found]
        MarkFiles(tmp_path, {}).append(marked)
    assert minutes(gaps(longest_marks(tmp_path, view), 0, END_US, 12 * MINUTE_US)) == [(2, 10)]


def test_marks_above_the_durable_head_do_not_count(tmp_path: Path) -> None:
    MarkFiles(tmp_path, {}).append([ShardMark(0, minute, minute, 0) for minute in range(1, 9)])
    view = View({0: Head(5, 5)}, {}, {}, {})
    assert list(covered_marks(tmp_path, view, 0).serials) == [1, 2, 3, 4, 5]
