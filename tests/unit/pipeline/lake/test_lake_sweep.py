"""A sweep finds every message of its ranges once, in order, in bounded memory, however the files lie."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.lake_page import LakeQuestion
from holdfast.pipeline.lake import lake_sweep
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.swept_lake import compacted, everything, fill, question_of, swept


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Not to be changed, no more than the lakes."""
    log = Log(tmp_path_factory.mktemp("log"), shards=3)
    yield log
    log.close()


@pytest.fixture(scope="module")
def lake(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the log has, as it was archived."""
    path = tmp_path_factory.mktemp("lake") / "lake"
    fill(log, path)
    return path


@pytest.fixture(scope="module")
def compacted_lake(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compacted") / "lake"
    shutil.copytree(lake, path)
    compacted(path)
    return path


@pytest.mark.parametrize("text", ["#", "+/#", "plant/#", "plant/+/temp", "no/+"])
@pytest.mark.parametrize("kind", ["lake", "compacted_lake"])
def test_a_sweep_finds_what_a_walk_through_the_log_finds(
    log: Log, kind: str, text: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(kind)
    assert swept(path, question_of(log, text)) == everything(log, text)


# With one byte the lake is read again for each position, so a stretch of it is enough.
@pytest.mark.parametrize(("held_bytes", "stretch"), [(1, slice(350, 550)), (3_000, slice(None)), (40_000, slice(None))])
def test_a_sweep_with_little_memory_reads_more_often_and_finds_the_same(
    log: Log, compacted_lake: Path, held_bytes: int, stretch: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [row[1] for row in everything(log)][stretch]
    first_us, before_us = positions[0], positions[-1] + 1
    assert before_us - first_us > 60_000_000, "of two generations"
    most = 0
    trim = lake_sweep._Pool._trim

    def watched(pool: "lake_sweep._Pool") -> None:
        nonlocal most
        trim(pool)
        most = max(most, pool._held_bytes)

    monkeypatch.setattr(lake_sweep._Pool, "_trim", watched)
    question = question_of(log, "#", first_us, before_us)
    assert swept(compacted_lake, question, held_bytes) == everything(log, "#", first_us, before_us)
    # What has one position is kept together, which is a message of each shard at most.
    assert 0 < most <= max(held_bytes, 3_000)


def test_ranges_are_those_of_each_shard(log: Log, lake: Path) -> None:
    positions = sorted(row[1] for row in everything(log))
    early, late = positions[400], positions[1_200]
    question = LakeQuestion((b"#",), {0: (early, late), 2: (0, early)})
    right = [
        row for row in everything(log) if (row[0] == 0 and early <= row[1] < late) or (row[0] == 2 and row[1] < early)
    ]
    assert swept(lake, question) == right
