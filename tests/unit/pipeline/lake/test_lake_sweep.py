"""A sweep finds every message of its ranges once, in order, in bounded memory, however the files lie."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.lake_page import LakeQuestion
from holdfast.pipeline.lake import lake_sweep
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.swept_lake import compacted, everything, fill, question_of, swept


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, shards=3)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.mark.parametrize("text", ["#", "+/#", "plant/#", "plant/+/temp", "no/+"])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_sweep_finds_what_a_walk_through_the_log_finds(log: Log, lake: Path, text: str, *, compacts: bool) -> None:
    fill(log, lake)
    if compacts:
        compacted(lake)
    assert swept(lake, question_of(log, text)) == everything(log, text)


@pytest.mark.parametrize("held_bytes", [1, 3_000, 40_000])
def test_a_sweep_with_little_memory_reads_more_often_and_finds_the_same(
    log: Log, lake: Path, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, lake)
    compacted(lake)
    most = 0
    trim = lake_sweep._Pool._trim

    def watched(pool: "lake_sweep._Pool") -> None:
        nonlocal most
        trim(pool)
        most = max(most, pool._held_bytes)

    monkeypatch.setattr(lake_sweep._Pool, "_trim", watched)
    assert swept(lake, question_of(log), held_bytes) == everything(log)
    # What has one position is kept together, which is a message of each shard at most.
    assert 0 < most <= max(held_bytes, 3_000)


def test_ranges_are_those_of_each_shard(log: Log, lake: Path) -> None:
    fill(log, lake)
    positions = sorted(row[1] for row in everything(log))
    early, late = positions[400], positions[1_200]
    question = LakeQuestion((b"#",), {0: (early, late), 2: (0, early)})
    right = [
        row for row in everything(log) if (row[0] == 0 and early <= row[1] < late) or (row[0] == 2 and row[1] < early)
    ]
    assert swept(lake, question) == right
