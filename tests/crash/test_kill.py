"""A process that writes is killed at a random instant, again and again on the same folder.

HOLDFAST_CRASH_RUNS=1000 digs deeper.
"""

import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.engine import Engine
from tests.crash.batches import receipts, start_writer, stored

#: Quick runs by default.
CRASH_RUNS = int(os.environ.get("HOLDFAST_CRASH_RUNS", "20"))
#: At most so many receipts are waited for before the kill.
_MOST_RECEIPTS = 60


def kill_after(writer: subprocess.Popen[bytes], count: int) -> list[int]:
    """Reads `count` receipts, kills, and returns every receipt that was given."""
    assert writer.stdout is not None
    output = b"".join(writer.stdout.readline() for _ in range(count + 1))
    writer.kill()
    output += writer.stdout.read()
    writer.stdout.close()
    writer.wait()
    assert output, "the writer died by itself"
    return receipts(output)


@pytest.mark.slow
@pytest.mark.parametrize("value_bytes", [200, 300_000], ids=["small batches", "batches of several appends"])
def test_every_receipt_survives_kill_9_and_no_batch_is_there_in_part(tmp_path: Path, value_bytes: int) -> None:
    """L20, L21: what was acknowledged is there, in order and without a hole, and a torn end is not called damage."""
    dice = random.Random(value_bytes)
    known: list[int] = []
    for run in range(CRASH_RUNS // 2):
        given = kill_after(start_writer(tmp_path / "data", value_bytes), dice.randrange(_MOST_RECEIPTS))
        assert given == sorted(set(given)), "receipts come in order, each once"
        engine = Engine.open(tmp_path / "data")
        try:
            numbers = stored(engine)
            assert engine.damage == [], f"run {run}"
            assert not (tmp_path / "data" / "quarantine").exists() or not any(
                (tmp_path / "data" / "quarantine").iterdir()
            )
            assert numbers == list(range(1, len(numbers) + 1)), f"run {run}: a hole"
            assert numbers[: len(known)] == known, f"run {run}: an earlier run's batch is gone"
            assert len(numbers) >= max(given), f"run {run}: receipt {max(given)}, stored {len(numbers)}"
            known = numbers
        finally:
            engine.close()
    assert known
