"""Bytes that flip, tear or vanish in each kind of file (L21): never shorter in silence, and the node starts."""

import json
import os
import random
import resource
import shutil
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.checking.verify_report import CheckedReader, VerifyReport
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import UnreadableError
from holdfast.storage.rocks.engine.wal_scan import wal_files
from tests.crash.batches import FAMILY, KEYS_IN_BATCH, batch, open_with_family, stored

pytestmark = pytest.mark.slow

BATCHES = 300
#: From this batch on, the WAL alone has them; those before are in tables.
IN_WAL_FROM = 101
FUZZ_RUNS = int(os.environ.get("HOLDFAST_CRASH_RUNS", "20"))
#: RocksDB's WAL: blocks, and the header of a frame.
BLOCK_BYTES = 32_768
FRAME_BYTES = 7


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A data folder as kill -9 leaves it: tables, a WAL, everything synced."""
    engine = open_with_family(tmp_path / "live")
    for number in range(1, IN_WAL_FROM):
        engine.write(number, batch(number))
    engine.flush()
    for number in range(IN_WAL_FROM, BATCHES + 1):
        engine.write(number, batch(number))
    engine.sync_now()
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    engine.close()
    return tmp_path / "killed"


def wal(folder: Path) -> Path:
    return max(wal_files(folder / "rocks"), key=lambda path: path.stat().st_size)


def tables(folder: Path) -> list[Path]:
    return sorted((folder / "rocks").glob("*.sst"), key=lambda path: path.stat().st_size)


def manifest(folder: Path) -> Path:
    return folder / "rocks" / (folder / "rocks" / "CURRENT").read_text().strip()


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def reports(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for path in sorted((folder / "quarantine").glob("*/report.json")):
        found += json.loads(path.read_text())
    return found


def check_second_start_is_clean(folder: Path, numbers: list[int]) -> None:
    """What was lost is reported once; then the node works as before."""
    engine = Engine.open(folder)
    assert engine.damage == []
    assert stored(engine) == numbers
    engine.write(engine.written + 1, batch(engine.written + 1))
    engine.sync_now()
    engine.close()


def test_an_untouched_folder_has_no_damage(killed: Path) -> None:
    engine = Engine.open(killed)
    assert (engine.damage, engine.torn_tail) == ([], None)
    assert stored(engine) == list(range(1, BATCHES + 1))
    assert not (killed / "quarantine").exists()
    engine.close()


@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_a_flipped_bit_in_the_synced_wal_is_reported_with_the_batches_it_cost(killed: Path, share: float) -> None:
    """L21. The last case is the last record: without the mark it would pass for a torn tail."""
    path = wal(killed)
    original = path.read_bytes()
    flip(path, int(len(original) * share))
    damaged = path.read_bytes()
    engine = Engine.open(killed)
    numbers = stored(engine)
    assert numbers == list(range(1, len(numbers) + 1))
    assert IN_WAL_FROM - 1 <= len(numbers) < BATCHES
    [damage] = engine.damage
    assert damage.kind == "lost records"
    assert damage.file == path.name
    assert damage.lost_range == (len(numbers) + 1, BATCHES + 1)
    assert [report["lost_range"] for report in reports(killed)] == [[len(numbers) + 1, BATCHES + 1]]
    [kept] = (killed / "quarantine").glob(f"*/{path.name}")
    assert kept.read_bytes() == damaged
    engine.close()
    check_second_start_is_clean(killed, numbers)


@pytest.mark.parametrize("cut_bytes", [1, 100, 3_000])
def test_a_wal_that_ends_before_the_last_sync_is_damage(killed: Path, cut_bytes: int) -> None:
    """L21: the same bytes missing behind the sync would be no damage."""
    os.truncate(wal(killed), wal(killed).stat().st_size - cut_bytes)
    engine = Engine.open(killed)
    [damage] = engine.damage
    assert damage.lost_range is not None
    assert damage.lost_range[1] == BATCHES + 1
    assert stored(engine) == list(range(1, damage.lost_range[0]))
    engine.close()


def test_a_wal_cut_exactly_between_two_records_is_damage(killed: Path) -> None:
    """L21: RocksDB sees a perfect file that is merely shorter."""
    path = wal(killed)
    content = path.read_bytes()
    at = content.rindex((BATCHES - 10).to_bytes(8, "big"))
    os.truncate(path, at + 8)
    engine = Engine.open(killed)
    assert engine.written == BATCHES - 10
    [damage] = engine.damage
    assert damage.lost_range == (BATCHES - 9, BATCHES + 1)
    engine.close()


def test_a_missing_wal_is_damage(killed: Path) -> None:
    """L21: RocksDB opens without a word."""
    wal(killed).unlink()
    engine = Engine.open(killed)
    numbers = stored(engine)
    assert len(numbers) < BATCHES
    [damage] = engine.damage
    assert damage.lost_range == (len(numbers) + 1, BATCHES + 1)
    engine.close()
    check_second_start_is_clean(killed, numbers)


def test_a_zeroed_block_in_the_wal_is_damage(killed: Path) -> None:
    """L21: RocksDB takes zeros for space that was never used, and goes on behind them."""
    path = wal(killed)
    with path.open("r+b") as file:
        file.seek(2 * 32_768)
        file.write(b"\0" * 32_768)
    engine = Engine.open(killed)
    numbers = stored(engine)
    assert numbers == list(range(1, len(numbers) + 1))
    [damage] = engine.damage
    assert damage.lost_range == (len(numbers) + 1, BATCHES + 1)
    engine.close()
    check_second_start_is_clean(killed, numbers)


def test_zeros_that_cover_whole_records_are_damage(tmp_path: Path) -> None:
    """L21: here RocksDB opens without a word, and keeps batches behind the hole."""
    engine = open_with_family(tmp_path / "live")
    engine.write(1, batch(1))
    engine.write(2, padded(2, 20_000))
    path = wal(tmp_path / "live")
    overhead = padded_record_bytes(engine, path, 3, 20_000) - 20_000
    engine.write(4, padded(4, 2 * BLOCK_BYTES - path.stat().st_size % BLOCK_BYTES - overhead - FRAME_BYTES))
    assert path.stat().st_size % BLOCK_BYTES == 0, "from here on a record fills a block"
    hole = path.stat().st_size
    for number in range(5, 10):
        engine.write(number, padded(number, BLOCK_BYTES - overhead))
    assert path.stat().st_size == hole + 5 * BLOCK_BYTES
    engine.sync_now()
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    engine.close()
    with wal(tmp_path / "killed").open("r+b") as file:
        file.seek(hole + BLOCK_BYTES)
        file.write(bytes(2 * BLOCK_BYTES))
    engine = Engine.open(tmp_path / "killed")
    assert stored(engine) == [1, 2, 3, 4, 5]
    [damage] = engine.damage
    assert damage.lost_range == (6, 10)
    assert "sequence numbers" in damage.detail
    engine.close()


def padded(number: int, padding_bytes: int) -> Changes:
    changes = batch(number, 10)
    changes.into("sessions").put(b"padding", bytes(padding_bytes))
    return changes


def padded_record_bytes(engine: Engine, path: Path, number: int, padding_bytes: int) -> int:
    """What such a batch takes in the WAL when it lies in one block."""
    before = path.stat().st_size
    engine.write(number, padded(number, padding_bytes))
    after = path.stat().st_size
    return after - before - (FRAME_BYTES if before // BLOCK_BYTES != (after - 1) // BLOCK_BYTES else 0)


@pytest.mark.parametrize("tail", [b"", b"\0" * 5_000, b"\xa5" * 40_000], ids=["cut", "zeros", "garbage"])
def test_a_torn_tail_behind_the_last_sync_is_no_damage(tmp_path: Path, tail: bytes) -> None:
    """L21: nobody had a receipt for it."""
    engine = open_with_family(tmp_path / "live")
    for number in range(1, 51):
        engine.write(number, batch(number))
    engine.sync_now()
    synced_bytes = wal(tmp_path / "live").stat().st_size
    for number in range(51, 61):
        engine.write(number, batch(number))
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    engine.close()
    path = wal(tmp_path / "killed")
    os.truncate(path, (synced_bytes + path.stat().st_size) // 2)
    with path.open("ab") as file:
        file.write(tail)
    engine = Engine.open(tmp_path / "killed")
    numbers = stored(engine)
    assert engine.damage == []
    assert engine.torn_tail is not None or tail[:1] == b"\0"
    assert numbers == list(range(1, len(numbers) + 1))
    assert 50 <= len(numbers) < 60
    assert reports(tmp_path / "killed") == []
    engine.close()


@pytest.mark.parametrize("content", [b"", b"garbage", b"MANIFEST-999999\n"])
def test_a_bad_current_file_is_mended_without_loss(killed: Path, content: bytes) -> None:
    """L21"""
    (killed / "rocks" / "CURRENT").write_bytes(content)
    engine = Engine.open(killed)
    assert [damage.kind for damage in engine.damage] == ["bad CURRENT"]
    assert stored(engine) == list(range(1, BATCHES + 1))
    engine.close()
    check_second_start_is_clean(killed, list(range(1, BATCHES + 1)))


def test_a_flipped_bit_in_the_manifest_is_repaired_without_loss(killed: Path) -> None:
    """L21: tables and WAL hold everything; every family has a table, so the repair knows them all."""
    path = manifest(killed)
    flip(path, path.stat().st_size // 2)
    engine = Engine.open(killed)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert stored(engine) == list(range(1, BATCHES + 1))
    assert list((killed / "quarantine").glob(f"*/{path.name}"))
    engine.close()
    check_second_start_is_clean(killed, list(range(1, BATCHES + 1)))


def test_a_missing_manifest_is_repaired_without_loss(killed: Path) -> None:
    """L21"""
    manifest(killed).unlink()
    engine = Engine.open(killed)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert engine.families() == [FAMILY, "meta", "retained", "sessions"]
    assert stored(engine) == list(range(1, BATCHES + 1))
    engine.close()


def test_a_young_node_without_its_manifest_is_repaired_without_loss(tmp_path: Path) -> None:
    """L21: everything is in the WAL, which names families by numbers that only the MANIFEST and tables explain."""
    engine = open_with_family(tmp_path / "live")
    for number in range(1, 51):
        engine.write(number, batch(number))
    engine.sync_now()
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    engine.close()
    manifest(tmp_path / "killed").unlink()
    engine = Engine.open(tmp_path / "killed")
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert stored(engine) == list(range(1, 51))
    engine.close()


@pytest.mark.parametrize("cut_bytes", [3, 60, 200])
def test_a_manifest_that_became_shorter_does_not_cost_its_tables(killed: Path, cut_bytes: int) -> None:
    """L21: RocksDB takes the shorter one for the truth and deletes the tables that it does not name."""
    path = manifest(killed)
    os.truncate(path, path.stat().st_size - cut_bytes)
    engine = Engine.open(killed)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert stored(engine) == list(range(1, BATCHES + 1))
    engine.close()
    check_second_start_is_clean(killed, list(range(1, BATCHES + 1)))


def test_a_manifest_that_ends_in_zeros_does_not_cost_its_tables(killed: Path) -> None:
    """L21: RocksDB takes zeros from the beginning of a record on for space that was never used."""
    path = manifest(killed)
    content = path.read_bytes()
    at = records = 0
    while at < len(content) // 2:
        at += FRAME_BYTES + int.from_bytes(content[at + 4 : at + 6], "little")
        records += 1
    assert records > 3
    path.write_bytes(content[:at] + bytes(len(content) - at))
    engine = Engine.open(killed)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert stored(engine) == list(range(1, BATCHES + 1))
    engine.close()
    check_second_start_is_clean(killed, list(range(1, BATCHES + 1)))


def test_a_table_that_was_cut_is_given_up_kept_and_reported(killed: Path) -> None:
    """L21: a repair opens the rest."""
    path = tables(killed)[-1]
    os.truncate(path, path.stat().st_size // 2)
    engine = Engine.open(killed)
    assert "repaired" in [damage.kind for damage in engine.damage]
    assert any(path.name in damage.detail for damage in engine.damage)
    [kept] = (killed / "quarantine").glob(f"*/{path.name}")
    assert kept.stat().st_size > 0
    assert engine.written == BATCHES
    keys = len(list(engine.family(FAMILY).keys()))
    assert keys >= (BATCHES - IN_WAL_FROM + 1) * KEYS_IN_BATCH
    engine.close()


def test_a_missing_table_is_reported_and_the_rest_opens(killed: Path) -> None:
    """L21"""
    path = tables(killed)[-1]
    path.unlink()
    engine = Engine.open(killed)
    assert any("repaired" in damage.kind and path.name in str(damage) for damage in engine.damage)
    assert engine.written == BATCHES
    engine.close()


def test_a_flipped_bit_inside_a_table_is_found_by_reading_everything(killed: Path) -> None:
    """L21: no read returns the bad bytes, and the reader of `verify` names the file."""
    path = tables(killed)[-1]
    flip(path, path.stat().st_size // 3)
    engine = Engine.open(killed)
    assert engine.damage == []
    report = VerifyReport()
    for family in engine.families():
        for _item in CheckedReader(report, None).items(family, engine.family(family)):
            pass
    [problem] = report.problems
    assert problem.where == FAMILY
    assert path.name in problem.what
    engine.close()


def test_a_folder_whose_database_is_gone_says_what_it_lost(killed: Path) -> None:
    """L21"""
    shutil.rmtree(killed / "rocks")
    engine = Engine.open(killed)
    [damage] = engine.damage
    assert damage.lost_range == (1, BATCHES + 1)
    engine.close()


def test_no_damage_to_one_file_is_ever_silent(killed: Path, tmp_path: Path) -> None:
    """L21: at random places of WAL, MANIFEST and CURRENT, bytes flip, vanish at the end, or become zeros."""
    dice = random.Random(21)
    everything = list(range(1, BATCHES + 1))
    for run in range(FUZZ_RUNS):
        folder = tmp_path / f"run-{run}"
        shutil.copytree(killed, folder)
        path = dice.choice([wal(folder), manifest(folder), folder / "rocks" / "CURRENT"])
        at = dice.randrange(path.stat().st_size)
        act = dice.choice(["flip", "cut", "zero"])
        if act == "flip":
            flip(path, at)
        elif act == "cut":
            os.truncate(path, at)
        else:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes(min(dice.randrange(1, 9_000), path.stat().st_size - at)))
        engine = Engine.open(folder)
        numbers = stored(engine)
        assert engine.damage or numbers == everything, (
            f"run {run}: {act} {path.name} at {at}: {len(numbers)} in silence"
        )
        assert numbers == everything[: len(numbers)], f"run {run}: {act} {path.name} at {at}: a hole"
        engine.close()
        check_second_start_is_clean(folder, numbers)
        shutil.rmtree(folder)


def test_want_of_descriptors_is_no_reason_for_a_repair(killed: Path) -> None:
    """A repair would give up tables that it cannot open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 4, hard))
    try:
        with pytest.raises((UnreadableError, OSError), match="Too many open files"):
            Engine.open(killed)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    engine = Engine.open(killed)
    assert engine.damage == []
    assert stored(engine) == list(range(1, BATCHES + 1))
    engine.close()
