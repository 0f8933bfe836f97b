"""Metadata of a table are on the disk, with their names, before a catalog hears of them."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io import load_file_io

from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.iceberg.metadata_files import METADATA_FILES
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.iceberg_tables import ADDRESS, catalog_options, catalog_variables
from tests.unit.pipeline.local_archive import archive


def test_what_is_written_is_read_and_removed(tmp_path: Path) -> None:
    files = load_file_io({"py-io-impl": METADATA_FILES})
    for location in (f"file://{tmp_path}/a/one", f"{tmp_path}/a/two"):
        with files.new_output(location).create() as stream:
            stream.write(b"abc")
            stream.write(b"def")
        with files.new_input(location).open() as found:
            assert found.read() == b"abcdef"
        assert len(files.new_output(location)) == 6
        files.delete(location)
        assert not files.new_input(location).exists()


def test_a_file_that_fails_is_not_there(tmp_path: Path) -> None:
    files = load_file_io({"py-io-impl": METADATA_FILES})

    with pytest.raises(ZeroDivisionError), files.new_output(f"{tmp_path}/one").create() as stream:
        stream.write(bytes([1 // 0]))

    assert list(tmp_path.iterdir()) == []


def test_everything_is_synced_before_the_catalog_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in catalog_variables(catalog_options(tmp_path)).items():
        monkeypatch.setenv(name, value)
    log = Log(tmp_path)
    try:
        log.fill(20)
        archive(log.path, ADDRESS)
    finally:
        log.close()
    lake = IcebergLake.open(ADDRESS)
    synced: set[str] = set()
    real_sync = os.fsync

    def sync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    before = set(lake.store.list_paths("metadata"))
    real = lake.table.catalog.commit_table
    seen: list[set[str]] = []

    def commit(*given: Any) -> Any:
        seen.append(set(synced))
        return real(*given)

    monkeypatch.setattr(lake.table.catalog, "commit_table", commit)
    lake.commit(
        {shard: offset._replace(position_us=offset.position_us + 1) for shard, offset in lake.offsets.items()}, [], {}
    )

    new = {lake.store.location(path) for path in set(lake.store.list_paths("metadata")) - before}
    manifests = {path for path in new if path.endswith(".avro")}
    assert manifests
    assert manifests <= seen[0], "a snapshot names them"
    assert new <= synced
    assert lake.store.location("metadata") in seen[0], "the names are, too"
    assert load_catalog("main", **catalog_options(tmp_path)).load_table(("plant", "messages")).current_snapshot()
