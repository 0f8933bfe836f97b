"""A broker that is written to, and what its log holds afterwards."""

import subprocess
import time
from pathlib import Path
from typing import Any

from holdfast.history.reader.reader import HistoryReader
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.spark.publishers import SETTINGS


class WrittenBroker:
    """`holdfast serve` that can be killed and started again on the same port."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self._settings = SETTINGS + more
        self.running = RunningBroker(folder, self._settings)
        self.port = self.running.ports["tcp"]
        self._settings = self._settings.replace("port = 0", f"port = {self.port}", 1)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """With what it has not written yet."""
        self.running.process.kill()
        self.running.process.wait(DEADLINE_S)
        self.running._reader.join(DEADLINE_S)
        assert self.running.process.stderr is not None
        self.running.process.stderr.close()

    def start(self) -> None:
        self.running = RunningBroker(self.folder, self._settings)

    def stop(self) -> None:
        self.running.stop()

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """What the log holds, in the order of time."""
        with HistoryReader.open(self.folder / "data") as reader:
            batches = [
                batch
                for part in reader.parts(0, 1 << 62)
                for batch in reader.batches(part, (), ["offset", *columns], in_order=True)
            ]
        found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        return [row[1:] for row in sorted(found, key=lambda row: row[0])]

    def payloads(self) -> list[bytes]:
        return [payload for (payload,) in self.rows("payload")]


def wait_for_files(
    folder: Path, pattern: str, count: int, process: "subprocess.Popen[str] | None" = None
) -> list[Path]:
    """Wait until so many files are there; a process that is meant to write them has to live."""
    ends = time.monotonic() + DEADLINE_S * 10
    while len(found := sorted(folder.glob(pattern))) < count:
        assert process is None or process.poll() is None, "it ended too early"
        assert time.monotonic() < ends, f"only {len(found)} files are there"
        time.sleep(0.02)
    return found
