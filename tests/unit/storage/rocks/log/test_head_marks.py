"""Marks of heads in files: they fit the log whatever happens to it, and stay few."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.records.head_marks import MARK_BYTES, HeadMark, encode_mark
from holdfast.storage.rocks.log.head_marks import (
    FOLDER_NAME,
    INTERVAL_US,
    MAX_AGE_US,
    MarkFiles,
    MinuteMarks,
    ShardEnd,
    ShardMark,
    open_marks,
    read_marks,
)
from tests.unit.storage.rocks.log.store import Store

FAR = ShardEnd(2**62, 2**62)


def marks_in(folder: Path, shard: int = 0) -> list[HeadMark]:
    found = read_marks(folder, shard)
    return [found.mark(number) for number in range(len(found))]


def files(folder: Path, end: ShardEnd = FAR) -> MarkFiles:
    return MarkFiles(folder, {0: end})


def append(made: MarkFiles, *marks: tuple[int, int], keep_from_us: int = 0) -> None:
    made.append([ShardMark(0, position_us, serial, keep_from_us) for position_us, serial in marks])


class TestFiles:
    def test_marks_of_each_shard_have_a_file(self, tmp_path: Path) -> None:
        made = files(tmp_path)
        made.append([ShardMark(0, 10, 1, 0), ShardMark(7, 20, 2, 0)])
        made.append([ShardMark(0, 30, 3, 0)])
        assert (marks_in(tmp_path), marks_in(tmp_path, 7)) == ([(10, 1), (30, 3)], [(20, 2)])
        assert marks_in(tmp_path, 8) == []

    @pytest.mark.parametrize("torn", [1, 15, 17])
    def test_a_torn_end_is_cut_when_the_file_is_opened(self, tmp_path: Path, torn: int) -> None:
        append(files(tmp_path), (10, 1), (20, 2))
        path = tmp_path / FOLDER_NAME / "0"
        path.write_bytes((path.read_bytes() + bytes(MARK_BYTES))[: 2 * MARK_BYTES + torn])
        append(files(tmp_path), (30, 3))
        assert path.read_bytes() == b"".join(encode_mark(*mark) for mark in ((10, 1), (20, 2), (30, 3)))

    @pytest.mark.parametrize("end", [ShardEnd(2, 2**62), ShardEnd(9, 30)])
    def test_what_a_power_loss_took_has_no_mark(self, tmp_path: Path, end: ShardEnd) -> None:
        """The serial 3 comes again, at another position; or the clock was set back."""
        append(files(tmp_path), (10, 1), (20, 2), (30, 3), (40, 9))
        append(files(tmp_path, end), (25, 2))
        assert marks_in(tmp_path) == [(10, 1), (20, 2), (25, 2)]

    def test_a_mark_that_does_not_follow_is_not_written(self, tmp_path: Path) -> None:
        made = files(tmp_path)
        append(made, (10, 5), (10, 6), (20, 4), (30, 5))
        assert marks_in(tmp_path) == [(10, 5), (30, 5)]

    def test_a_write_that_fails_leaves_no_half_mark_behind_it(self, tmp_path: Path) -> None:
        made = files(tmp_path)
        append(made, (10, 1))
        path = tmp_path / FOLDER_NAME / "0"
        path.write_bytes(path.read_bytes() + b"\xff" * 7)  # what a full disk let through
        append(made, (20, 2))
        assert path.read_bytes() == encode_mark(10, 1) + encode_mark(20, 2)

    def test_a_file_that_has_doubled_loses_its_oldest_marks(self, tmp_path: Path) -> None:
        made = files(tmp_path)
        size = 0
        for minute in range(1, 10_000):
            append(made, (minute, minute), keep_from_us=minute - 100)
            size = max(size, (tmp_path / FOLDER_NAME / "0").stat().st_size)
        found = marks_in(tmp_path)
        assert found[-1] == (9_999, 9_999)
        assert found[0].position_us <= 9_899
        assert [mark.position_us for mark in found] == list(range(found[0].position_us, 10_000))
        assert size <= 1_440 * MARK_BYTES


class TestLog:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = Store(tmp_path / "data", default=Zone("default", shards=1, layout="paged"))
        yield store
        store.close()

    @staticmethod
    def marks_of(store: Store) -> MinuteMarks:
        return open_marks(store.log, store.clock.monotonic_us)

    def test_there_is_one_mark_a_minute_messages_or_not(self, store: Store) -> None:
        marks = self.marks_of(store)
        store.publish("a", "b")
        store.clock.advance(1_000)
        for _second in range(181):
            marks.look()
            store.clock.advance(1_000_000)
        found = marks_in(store.folder)
        assert [mark.serial for mark in found] == [2, 2, 2, 2]
        steps = [one.position_us - other.position_us for one, other in zip(found[1:], found, strict=False)]
        assert steps == [INTERVAL_US] * 3

    def test_no_message_that_comes_later_is_at_or_below_a_mark_even_if_the_clock_goes_back(self, store: Store) -> None:
        marks = self.marks_of(store)
        store.publish("a")
        store.clock.advance(INTERVAL_US)
        marks.write()
        store.clock.step_wall(-30_000_000)
        store.publish("b")
        mark = marks_in(store.folder)[-1]
        assert [message.position_us <= mark.position_us for message in store.written] == [True, False]
        assert mark.serial == 1

    def test_what_waits_for_its_receipt_is_in_no_mark(self, store: Store) -> None:
        marks = self.marks_of(store)
        store.publish("a")
        store.write(store.message("b"))
        store.clock.advance(INTERVAL_US)
        marks.write()
        assert marks_in(store.folder) == [(store.written[0].position_us, 1)]

    def test_marks_are_kept_as_long_as_the_retention_and_400_days_at_most(self, tmp_path: Path) -> None:
        forever = Zone("default", shards=1, layout="paged", retention_s=0)
        store = Store(tmp_path / "data", default=forever)
        try:
            marks = self.marks_of(store)
            for _month in range(20):
                store.clock.advance(30 * 24 * 3600 * 1_000_000)
                (taken,) = marks._take()
            now_us = store.clock.wall_us()
            assert taken.keep_from_us == now_us - MAX_AGE_US
        finally:
            store.close()
