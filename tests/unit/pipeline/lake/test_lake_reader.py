"""Files of a lake are left out only if they hold nothing that is asked for."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.durable.log import NO_END
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_reader import files_for
from holdfast.pipeline.lake.upkeep import compact
from holdfast.pipeline.lake.writer import lock_folder
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, here


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


def held(lake: Lake, paths: list[str]) -> list[tuple[str, int]]:
    """Topics and positions in some files."""
    rows = [row for path in paths for row in lake.store.parquet(path).read(["topic", "offset"]).to_pylist()]
    return [(row["topic"], row["offset"]) for row in rows]


@pytest.mark.parametrize("compacted", [False, True])
def test_every_message_is_in_a_file_that_is_read_for_its_time_and_topic(
    log: Log, tmp_path: Path, compacted: bool
) -> None:
    for run in range(5):
        for number in range(12):
            log.publish(f"plant/{number}/temp", f"hall/{number}/a")
            log.node.clock.advance(7)
        if run == 0:
            log.rotate()
        archive(log.path, tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    if compacted:
        with lock_folder(tmp_path / "lake"):
            assert compact(lake, here, today=datetime.now(UTC) + timedelta(days=2)) > 0
    everything = held(lake, files_for(lake, (), 0, NO_END))
    assert len(everything) == 120

    for topic, position_us in everything:
        paths = files_for(lake, tuple(topic.encode().split(b"/")), position_us, position_us + 1)
        assert (topic, position_us) in held(lake, paths)


def test_files_of_other_times_and_patterns_are_left_out(log: Log, tmp_path: Path) -> None:
    for _run in range(3):
        log.publish(*[f"plant/{number}/temp" for number in range(40)], *[f"hall/{number}/a" for number in range(40)])
        archive(log.path, tmp_path / "lake")
        log.node.clock.advance(3_600_000_000)
    lake = Lake.open(tmp_path / "lake")
    every = files_for(lake, (), 0, NO_END)

    assert 0 < len(files_for(lake, (b"hall", b"+", b"a"), 0, NO_END)) < len(every)
    assert 0 < len(files_for(lake, (), log.now_us - 2 * 3_600_000_000, NO_END)) < len(every)
    assert files_for(lake, (), log.now_us + 1, NO_END) == []
    assert files_for(lake, (), 0, 1_600_000_000_000_000) == []
