"""Marks of heads as a broker writes them: while it runs, at its end, and after a restart."""

from itertools import pairwise
from pathlib import Path

from holdfast.records.head_marks import HeadMark
from holdfast.storage.rocks.log.head_marks import GAP_US, read_marks
from tests.disk_world import DiskWorld, publish

START_US = 1_700_000_000_000_000


def marks_of(folder: Path, shard: int = 0) -> list[HeadMark]:
    found = read_marks(folder, shard)
    return [found.mark(number) for number in range(len(found))]


def test_a_broker_writes_a_mark_a_minute_and_one_at_its_end(tmp_path: Path) -> None:
    with DiskWorld(tmp_path / "data", start_us=START_US) as world:
        world.tick()
        publish(world, ("a", b""), ("b", b""))
        for _second in range(125):
            world.tick()
        publish(world, ("c", b""))
        world.settle()
    serials = [mark.serial for mark in marks_of(tmp_path / "data")]
    assert serials == [0, 2, 2, 3]


def test_a_time_in_which_the_broker_did_not_run_is_a_gap_between_marks(tmp_path: Path) -> None:
    for start_us in (START_US, START_US + 3_600_000_000):
        with DiskWorld(tmp_path / "data", start_us=start_us) as world:
            for _second in range(150):
                world.tick()
            publish(world, ("a", b""))
    found = [mark.position_us for mark in marks_of(tmp_path / "data")]
    steps = [later - before for before, later in pairwise(found)]
    assert [step > GAP_US for step in steps].count(True) == 1
    # From the end of the first life to the beginning of the second one, whatever the minute was.
    assert max(steps) == 3_600_000_000 - 150_000_000
