"""A broker in a process of its own, on one data folder and one port for all its lives."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import holdfast
from bench.ports import free_port

#: Seconds that a start or a clean stop may take. Generous: machines that test are busy.
DEADLINE_S = 60.0

_PROGRAM = "from holdfast.cli.main import main; main()"


class BrokerProcess:
    """`holdfast serve`, again and again."""

    def __init__(self, data: Path, log: Path, assignments: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self.starts = 0
        self._log = log
        sets = [word for assignment in assignments for word in ("--set", assignment)]
        self._command: tuple[str, ...]
        self._command = (sys.executable, "-c", _PROGRAM, "serve", "--port", str(self.port), "--data", str(data), *sets)
        #: The broker is of the same tree as its clients.
        self._environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
        # As in the tests, also where a run is begun by hand: a console costs each life of a broker a process.
        self._environment.setdefault("HOLDFAST__CONSOLE__ENABLED", "false")
        self._process: asyncio.subprocess.Process | None = None

    def assign(self, assignment: str) -> None:
        """One more setting, from the next start on."""
        self._command = (*self._command, "--set", assignment)

    async def start(self) -> None:
        """Returns before it listens: clients try until it does."""
        assert self._process is None
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=log, stderr=log, env=self._environment
            )

    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def kill(self, *, dead_or_alive: bool = False) -> None:
        """kill -9. Unless told otherwise, it has to be alive."""
        assert dead_or_alive or self.alive(), f"it ended by itself:\n{self.log_text()[-3000:]}"
        await self.end(signal.SIGKILL)

    async def stop(self) -> None:
        """As an operator would: it ends in peace."""
        assert self.alive(), f"it ended by itself:\n{self.log_text()[-3000:]}"
        status = await self.end(signal.SIGTERM)
        assert status == 0, f"it ended with status {status}:\n{self.log_text()[-3000:]}"

    async def end(self, number: int) -> int:
        """By a signal; its status."""
        assert self._process is not None
        process, self._process = self._process, None
        if process.returncode is None:
            process.send_signal(number)
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise

    async def listening(self) -> None:
        """Wait until it accepts connections."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                assert self.alive(), f"it ended by itself:\n{self.log_text()[-3000:]}"
                try:
                    _reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    await writer.wait_closed()
                    return

    def log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def complaints(self) -> list[str]:
        """What in its log should not be there."""
        # A kill may come between a line and its end.
        return [line for line in self.log_text().replace("}{", "}\n{").splitlines() if _complains(line)]


def _complains(line: str) -> bool:
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return bool(line.strip())
    return entry.get("level") in ("error", "critical") or "exception" in entry or entry.get("event") == "writing waits"
