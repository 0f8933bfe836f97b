"""The power goes while batches are written. The file system then holds what was synced and little else."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.errors import PoisonedError
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.loop_sync import LoopSyncRule
from tests.crash.batches import FAMILY, batch, open_with_family, receipts, start_writer, stored
from tests.crash.disks import FragileDisk

RUNS = max(3, int(os.environ.get("HOLDFAST_CRASH_RUNS", "20")) // 4)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FragileDisk]:
    disk = FragileDisk(tmp_path)
    yield disk
    disk.close()


@pytest.mark.slow
def test_every_receipt_survives_a_power_loss(disk: FragileDisk) -> None:
    """L20: nobody has a receipt for what the disk does not have."""
    dice = random.Random(7)
    known: list[int] = []
    for run in range(RUNS):
        writer = start_writer(disk.folder / "data")
        assert writer.stdout is not None
        output = b"".join(writer.stdout.readline() for _ in range(dice.randrange(1, 60)))
        disk.cut_power()
        # Receipts that were given before the cut may still be in the pipe; after it every sync fails.
        writer.kill()
        output += writer.stdout.read()
        writer.stdout.close()
        writer.wait()
        given = receipts(output)
        disk.restart()
        engine = Engine.open(disk.folder / "data", reserve_bytes=0)
        try:
            numbers = stored(engine)
            assert engine.damage == [], f"run {run}"
            assert numbers == list(range(1, len(numbers) + 1)), f"run {run}: a hole"
            assert len(numbers) >= max([0, *given, *known]), f"run {run}: receipts up to {given[-1]}"
            known = numbers
        finally:
            engine.close()


@pytest.mark.slow
def test_what_a_start_calls_synced_survives_a_power_loss_right_after_it(disk: FragileDisk) -> None:
    """L20: a killed process leaves batches that only the page cache has. The next start shows them, so keeps them."""
    for _ in range(3):
        writer = start_writer(disk.folder / "data")
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        writer.kill()
        writer.stdout.close()
        writer.wait()
        engine = Engine.open(disk.folder / "data", reserve_bytes=0)
        shown = engine.synced
        assert shown == engine.written
        disk.cut_power()
        engine.close()
        disk.restart()
        engine = Engine.open(disk.folder / "data", reserve_bytes=0)
        assert stored(engine) == list(range(1, shown + 1))
        assert engine.damage == []
        engine.close()


def test_what_was_not_synced_may_be_gone_and_what_was_is_not(disk: FragileDisk) -> None:
    """Proves that the disk of these tests forgets: otherwise the test above could not fail."""
    engine = open_with_family(disk.folder / "data")
    for number in range(1, 11):
        engine.write(number, batch(number))
    engine.sync_now()
    for number in range(11, 21):
        engine.write(number, batch(number))
    disk.cut_power()
    with pytest.raises(PoisonedError):
        engine.close()
    disk.restart()
    engine = Engine.open(disk.folder / "data", reserve_bytes=0)
    assert stored(engine) == list(range(1, 11))
    assert engine.damage == []
    engine.close()


def test_what_was_synced_on_the_loop_survives_a_power_loss(disk: FragileDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """L20: such a commit has its receipt at once, so the disk must have it then."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.loop_sync.SLOW_S", 1e9)
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 1e6)
    engine = Engine.open(disk.folder / "data", reserve_bytes=0, loop_sync=LoopSyncRule())
    engine.create_family(FAMILY)
    for number in range(1, 11):
        engine.write(number, batch(number))
        assert engine.sync_on_loop(1)
    engine.write(11, batch(11))
    disk.cut_power()
    assert not engine.sync_on_loop(1)
    assert engine.synced == 10
    with pytest.raises(PoisonedError):
        engine.write(12, batch(12))
    engine.close()
    disk.restart()
    engine = Engine.open(disk.folder / "data", reserve_bytes=0)
    assert stored(engine) == list(range(1, 11))
    assert engine.damage == []
    engine.close()


def test_a_sync_that_fails_poisons(disk: FragileDisk) -> None:
    """After it nothing is written and no receipt is given, also when a later sync would succeed."""
    engine = open_with_family(disk.folder / "data")
    got: list[int] = []
    reasons: list[Exception] = []
    engine.on_synced(got.append)
    engine.on_poisoned(reasons.append)
    engine.write(1, batch(1))
    engine.sync_now()
    engine.write(2, batch(2))
    disk.cut_power()
    with pytest.raises(PoisonedError):
        engine.sync_now()
    with pytest.raises(PoisonedError, match="nothing is written any more"):
        engine.write(3, batch(3))
    assert got == [1]
    assert engine.synced == 1
    assert len(reasons) == 1
    engine.close()
