"""A lake has one writer, no orphaned files, and few small ones."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.model.errors import SettingsError
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import lock_folder
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_sweeping_spares_what_readers_may_be_at(log: Log, lake: Path) -> None:
    for _run in range(4):
        log.fill(50)
        archive(log.path, lake)
    reader = DeltaTable(str(lake)).to_pyarrow_dataset()
    with lock_folder(lake):
        opened = Lake.open(lake)
        assert compact(opened, today=EPOCH + timedelta(days=30_000)) > 0
        assert remove_orphans(opened) == 0

    assert reader.count_rows() == 200


def test_two_writers_are_one_too_many(log: Log, lake: Path) -> None:
    log.fill(10)
    with lock_folder(lake), pytest.raises(SettingsError, match="another archive is writing to"):
        archive(log.path, lake)


def test_compaction_keeps_every_row_and_how_far_it_is(log: Log, lake: Path) -> None:
    for _run in range(5):
        log.fill(40)
        archive(log.path, lake)
    before, offsets = sorted(map(str, rows(lake))), Lake.open(lake).offsets
    count = len(DeltaTable(str(lake)).file_uris())

    outcome = archive(log.path, lake, compacts=True)

    assert outcome.compacted > 0
    assert len(DeltaTable(str(lake)).file_uris()) < count
    assert sorted(map(str, rows(lake))) == before
    assert Lake.open(lake).offsets == offsets
    log.fill(40)
    archive(log.path, lake)
    assert archived(lake) == sorted(log.walk())
