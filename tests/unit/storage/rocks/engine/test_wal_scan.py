"""Frames of a WAL: what RocksDB wrote is read back, and what it would pass over is found."""

from pathlib import Path

import pytest
from rocksdict import Options, Rdict, WriteBatch

from holdfast.storage.rocks.engine.wal_scan import find_gap, wal_files


def make_wal(folder: Path, sizes: list[int]) -> Path:
    """One record for each size, as RocksDB writes them."""
    database = Rdict(str(folder), Options(raw_mode=True))
    for number, size in enumerate(sizes):
        batch = WriteBatch(raw_mode=True)
        batch.put(b"%04d" % number, bytes(size))
        database.write(batch)
    [path] = wal_files(folder)
    copy = folder / "000001.copy"
    copy.write_bytes(path.read_bytes())
    database.close()
    return copy


@pytest.mark.parametrize("last", range(32_725, 32_772))
def test_a_record_that_begins_at_the_end_of_a_block_is_no_gap(tmp_path: Path, last: int) -> None:
    """Its first bytes may be split over two frames, and the first of them may be empty."""
    assert find_gap([make_wal(tmp_path, [last - 30, 100, 70_000, 5])]) is None


def test_zeros_between_records_are_a_gap(tmp_path: Path) -> None:
    path = make_wal(tmp_path, [1_000] * 200)
    content = bytearray(path.read_bytes())
    content[65_536:98_304] = bytes(32_768)
    path.write_bytes(content)
    gap = find_gap([path])
    assert gap is not None
    assert gap.file == path
    assert 32_768 < gap.end <= 65_536
    path.write_bytes(content[: gap.end])
    assert find_gap([path]) is None
    assert 60 < gap.lo < gap.hi < 110


def test_a_file_that_is_missing_between_others_is_a_gap(tmp_path: Path) -> None:
    one = make_wal(tmp_path / "one", [10] * 5)
    other = make_wal(tmp_path / "other", [10] * 9)
    content = other.read_bytes()
    record = len(content) // 9
    other.write_bytes(content[7 * record :])
    gap = find_gap([one, other])
    assert gap is not None
    assert (gap.file, gap.end, gap.lo, gap.hi) == (other, 0, 6, 8)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 100_000, b"abc"])
def test_what_is_no_wal_has_no_gap(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "000001.log"
    path.write_bytes(content)
    assert find_gap([path]) is None


def test_files_are_ordered_by_their_number(tmp_path: Path) -> None:
    for name in ("1000000.log", "000009.log", "000010.log", "LOG"):
        (tmp_path / name).touch()
    assert [path.name for path in wal_files(tmp_path)] == ["000009.log", "000010.log", "1000000.log"]
