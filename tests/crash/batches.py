"""Numbered batches that can be checked for being whole, and the child process that writes them until it dies."""

import os
import subprocess
import sys
from pathlib import Path

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.engine.engine import Engine

FAMILY = "log-00001-00000001"
KEYS_IN_BATCH = 5


def batch(number: int, value_bytes: int = 200) -> Changes:
    """Keys in two families, all naming the batch, so that half a batch shows."""
    changes = Changes()
    log = changes.into(FAMILY)
    for index in range(KEYS_IN_BATCH):
        log.put(number.to_bytes(8, "big") + bytes([index]), os.urandom(value_bytes))
    changes.into("meta").put(b"last", number.to_bytes(8, "big"))
    return changes


def open_with_family(folder: Path, *, reserve_bytes: int = 0) -> Engine:
    engine = Engine.open(folder, reserve_bytes=reserve_bytes)
    if FAMILY not in engine.families():
        engine.create_family(FAMILY)
    return engine


def stored(engine: Engine) -> list[int]:
    """The numbers of the batches that are stored. Fails when one is there in part."""
    if FAMILY not in engine.families():
        return []
    keys: dict[int, int] = {}
    for key in list(engine.family(FAMILY).keys()):
        assert isinstance(key, bytes)
        number = int.from_bytes(key[:8], "big")
        keys[number] = keys.get(number, 0) + 1
    torn = {number: count for number, count in keys.items() if count != KEYS_IN_BATCH}
    assert not torn, f"batches that are there in part: {torn}"
    numbers = sorted(keys)
    last = engine.family("meta").get(b"last")
    assert int.from_bytes(last if isinstance(last, bytes) else b"", "big") == (numbers[-1] if numbers else 0)
    assert engine.written == (numbers[-1] if numbers else 0)
    return numbers


def start_writer(folder: Path, value_bytes: int = 200) -> subprocess.Popen[bytes]:
    """A process that writes batches for ever and prints the number of each receipt, one per line."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.batches", str(folder), str(value_bytes)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )


def receipts(output: bytes) -> list[int]:
    """Whole lines only: the last one may be cut by the kill."""
    return [int(line) for line in output.split(b"\n")[:-1]]


def _write_for_ever(folder: Path, value_bytes: int) -> None:
    engine = open_with_family(folder)
    engine.on_synced(lambda number: print(number, flush=True))
    print(0, flush=True)
    number = engine.written
    while True:
        number += 1
        engine.write(number, batch(number, value_bytes))
        engine.request_sync()


if __name__ == "__main__":
    _write_for_ever(Path(sys.argv[1]), int(sys.argv[2]))
