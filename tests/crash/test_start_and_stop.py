"""Starts that must not happen, and ends that sync: with processes of their own."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.ports import free_port
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.synced_mark import SyncedMark
from tests.crash.broker_process import BrokerProcess
from tests.mqtt.raw import RawClient

pytestmark = pytest.mark.slow


def serve(data: Path) -> subprocess.CompletedProcess[str]:
    """A start that is refused."""
    program = "from holdfast.cli.main import main; main()"
    command = (sys.executable, "-c", program, "serve", "--port", str(free_port()), "--data", str(data))
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_a_second_process_on_the_same_data_is_locked_out_and_told_so(tmp_path: Path) -> None:
    """M4."""
    lock = FolderLock.acquire(tmp_path)
    refused = serve(tmp_path)
    lock.release()
    assert refused.returncode not in (0, -signal.SIGKILL)
    told = refused.stdout + refused.stderr
    assert f"is in use by pid {os.getpid()}" in " ".join(told.split())
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "told"),
    [("data", "which is not a folder"), ("data/rocks", "data/rocks cannot be opened, and a repair would not help")],
)
def test_data_that_cannot_be_opened_refuses_the_start_and_says_why(tmp_path: Path, name: str, told: str) -> None:
    """M4: a file stands where a folder should be, and stays as it is."""
    wrong = tmp_path / name
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_text("not a folder")
    refused = serve(tmp_path / "data")
    assert refused.returncode not in (0, -signal.SIGKILL)
    said = " ".join((refused.stdout + refused.stderr).split())
    assert told in said
    assert "Traceback" not in said
    assert wrong.read_text() == "not a folder"


def unsynced_batches(data: Path) -> int:
    """How many batches were written that no sync had covered when the process ended."""
    mark = SyncedMark(data)
    synced = 0 if mark.last is None else mark.last.batch
    mark.close()
    engine = Engine.open(data, reserve_bytes=0)
    written = engine.written
    engine.close()
    return written - synced


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_broker_that_is_told_to_stop_syncs_what_nobody_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """M9: by SIGTERM and by SIGINT. SIGKILL shows that there was something to sync."""
    monkeypatch.setenv("HOLDFAST__STORAGE__DURABILITY", "os")
    monkeypatch.setenv("HOLDFAST__STORAGE__SYNC_INTERVAL_S", "3600")
    data = tmp_path / "data"

    async def run() -> int:
        broker = BrokerProcess(data, tmp_path / "log")
        await broker.start()
        await broker.listening()
        await asyncio.to_thread(publish, broker.port)
        return await broker.end(number)

    assert asyncio.run(run()) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    unsynced = unsynced_batches(data)
    assert unsynced > 0 if number is signal.SIGKILL else unsynced == 0


def publish(port: int) -> None:
    with RawClient(port) as client:
        client.connect("w")
        for _message in range(5):
            client.publish("a", b"x", 1)
