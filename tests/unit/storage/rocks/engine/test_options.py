"""The settings that the design depends on are really in force."""

import configparser
import os
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.engine.engine import Engine

LOG = "log-00001-00000001"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> configparser.ConfigParser:
    """What RocksDB itself wrote down."""
    folder = tmp_path_factory.mktemp("data")
    engine = Engine.open(folder)
    engine.create_family(LOG)
    engine.close()
    newest = max((folder / "rocks").glob("OPTIONS-*"))
    parser = configparser.ConfigParser()
    parser.read_string(newest.read_text())
    return parser


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_total_wal_size", str(128 << 20)),
        ("wal_recovery_mode", "kAbsoluteConsistency"),
        ("max_background_jobs", "2"),
        ("recycle_log_file_num", "0"),
        ("manual_wal_flush", "false"),
        ("keep_log_file_num", "4"),
        ("max_log_file_size", str(8 << 20)),
        ("avoid_flush_during_recovery", "false"),
        ("paranoid_checks", "true"),
        ("max_open_files", "512"),
    ],
)
def test_the_database(stored: configparser.ConfigParser, name: str, value: str) -> None:
    assert stored["DBOptions"][name] == value


@pytest.mark.parametrize("family", [LOG, "meta", "sessions", "retained"])
def test_every_family_is_compressed_and_writes_no_blobs(stored: configparser.ConfigParser, family: str) -> None:
    section = stored[f'CFOptions "{family}"']
    assert section["compression"] == "kLZ4Compression"
    assert section["bottommost_compression"] == "kZSTD"
    assert section["enable_blob_files"] == "false"


def test_only_families_that_are_asked_by_key_have_filters(stored: configparser.ConfigParser) -> None:
    def table_filter(family: str) -> str:
        return stored[f'TableOptions/BlockBasedTable "{family}"']["filter_policy"]

    assert table_filter(LOG) == "nullptr"
    assert [table_filter(name).startswith("bloom") for name in ("meta", "sessions", "retained")] == [True] * 3


def test_the_log_diary_of_rocksdb_is_bounded(tmp_path: Path) -> None:
    for _ in range(8):
        Engine.open(tmp_path).close()
    assert len(list((tmp_path / "rocks").glob("LOG*"))) <= 4


def test_blocks_of_files_that_are_gone_leave_the_cache(tmp_path: Path) -> None:
    """Sessions are overwritten all the time: memory would grow to the cache's limit, whatever they take themselves."""
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    sessions = engine.family("sessions")
    cache = engine._opened()._shared.lookup_cache
    keys = [b"%04d" % number for number in range(1_000)]
    for written in range(1, 31):
        changes = Changes()
        for key in keys:
            changes.into("sessions").put(key, os.urandom(1_000))
        engine.write(written, changes)
        sessions.flush()
        assert all(sessions.get(key) for key in keys)
    sessions.compact_range(None, None)
    used_bytes = cache.get_usage()
    engine.close()
    assert used_bytes < 4 << 20, "a megabyte is stored, thirty were"


def test_a_look_up_among_many_keys_reads_a_part_of_the_filter_only(tmp_path: Path) -> None:
    """A filter that is read as a whole takes turns with others in the cache: each look-up read half a megabyte."""
    changes = Changes()
    for number in range(200_000):
        changes.into("sessions").put(b"%08d" % number, b"")
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    engine.write(1, changes)
    engine.family("sessions").flush()
    engine.family("sessions").compact_range(None, None)
    engine.close()
    before = _bytes_read()
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    sessions = engine.family("sessions")
    assert sessions.get(b"%08d absent" % 150_000) is None
    read_bytes = _bytes_read() - before
    engine.close()
    assert 0 < read_bytes < 200_000 * 10 // 8, "the filter alone has ten bits for each key"


def _bytes_read() -> int:
    """What this process has asked the system to read so far."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])
