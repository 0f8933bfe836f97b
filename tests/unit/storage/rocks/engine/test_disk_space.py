"""Watermarks: where a state begins, and that it does not flutter."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import SettingsError
from holdfast.storage.rocks.engine.disk_space import DiskState, DiskWatch, FreeSpace, Watermarks, next_state

TOTAL = 1_000_000
MARKS = Watermarks(low_bytes=0, full_bytes=0, low_percent=10, full_percent=3, margin_percent=1)


def states(*free: int) -> list[DiskState]:
    state, seen = DiskState.OK, []
    for free_bytes in free:
        state = next_state(state, free_bytes, TOTAL, MARKS)
        seen.append(state)
    return seen


def test_states_follow_the_free_space_down_and_up() -> None:
    ok, low, full = DiskState.OK, DiskState.LOW, DiskState.FULL
    assert states(500_000, 99_999, 29_999, 45_000, 200_000) == [ok, low, full, low, ok]


def test_a_state_is_left_only_above_its_margin() -> None:
    ok, low, full = DiskState.OK, DiskState.LOW, DiskState.FULL
    assert states(99_999, 100_001, 109_999, 110_000) == [low, low, low, ok]
    assert states(29_999, 30_001, 39_999, 40_000) == [full, full, full, low]


def test_the_larger_of_bytes_and_percent_counts() -> None:
    marks = Watermarks(low_bytes=200_000, full_bytes=50_000, low_percent=10, full_percent=3)
    assert (marks.low(TOTAL), marks.full(TOTAL)) == (200_000, 50_000)
    assert (marks.low(10 * TOTAL), marks.full(10 * TOTAL)) == (1_000_000, 300_000)


def test_a_small_disk_can_be_ok() -> None:
    assert next_state(DiskState.FULL, TOTAL, TOTAL, Watermarks()) is DiskState.OK


@given(
    st.sampled_from(DiskState),
    st.integers(0, TOTAL),
    st.integers(0, TOTAL),
)
def test_less_room_is_never_a_better_state(state: DiskState, one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert next_state(state, less, TOTAL, MARKS) >= next_state(state, more, TOTAL, MARKS)


@pytest.mark.parametrize(
    "arguments",
    [{"low_bytes": 1, "full_bytes": 2}, {"low_percent": 1.0, "full_percent": 2.0}, {"margin_percent": -1.0}],
)
def test_marks_that_contradict_each_other_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="disk"):
        Watermarks(**arguments)  # type: ignore[arg-type]


def test_the_watch_reads_the_real_disk(tmp_path: Path) -> None:
    watch = DiskWatch(tmp_path, Watermarks(low_bytes=0, full_bytes=0, low_percent=0, full_percent=0))
    assert watch.check() is DiskState.OK
    assert 0 < watch.free_bytes <= watch.total_bytes


class FakeDisk:
    """Counts how often the file system is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_bytes = 100 << 20
        self.asked = 0
        monkeypatch.setattr("os.fstatvfs", self._fstatvfs)

    def _fstatvfs(self, _descriptor: int) -> os.statvfs_result:
        self.asked += 1
        return os.statvfs_result((1, 1, 0, 0, self.free_bytes, 0, 0, 0, 0, 255))


def test_a_reading_of_free_space_is_good_for_a_moment_and_for_some_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FakeDisk(monkeypatch)
    free = FreeSpace(0)
    assert free.read(1.0, 0) == 100 << 20
    free.use(1 << 20)
    assert free.read(1.04, 0) == 99 << 20, "what was written since is taken off"
    assert disk.asked == 1
    free.read(1.06, 0)
    assert disk.asked == 2
    free.use(8 << 20)
    free.read(1.07, 0)
    assert disk.asked == 3
    free.forget()
    free.read(1.07, 0)
    assert disk.asked == 4


def test_free_space_that_does_not_suffice_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FakeDisk(monkeypatch)
    free = FreeSpace(0)
    disk.free_bytes = 10
    assert free.read(1.0, 50) == 10
    disk.free_bytes = 60
    assert free.read(1.0, 50) == 60
