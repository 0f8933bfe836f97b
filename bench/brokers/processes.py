"""Brokers as processes: started in a folder of their own, waited for, and stopped with all they left."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench.ports import free_port

_START_S = 20.0
_STOP_S = 10.0


class UnavailableError(Exception):
    """A broker that cannot be measured here, and why."""


class Running:
    """A broker that accepts connections."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.port = port
        self.pid = process.pid

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def alive(self) -> bool:
        return self._process.poll() is None


def start(name: str, command: Callable[[Path, int], list[str]], environment: Mapping[str, str]) -> Running:
    """Run `command(folder, port)`, and wait until it accepts connections. UnavailableError if it does not."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    log = folder / "log"
    port = free_port()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command(folder, port), cwd=folder, env=dict(environment), stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise UnavailableError(str(error)) from None
    running = Running(process, port, folder)
    deadline = time.monotonic() + _START_S
    while not listens(process.pid, port):
        if not running.alive() or time.monotonic() > deadline:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            running.stop()
            raise UnavailableError(f"does not start: {lines[-1] if lines else 'it says nothing'}")
        time.sleep(0.05)
    return running


def listens(pid: int, port: int) -> bool:
    """Whether this very process listens there. An answer is not enough: another process may give it."""
    try:
        main = psutil.Process(pid)
        found = [entry for one in (main, *main.children(recursive=True)) for entry in one.net_connections("tcp")]
    except psutil.NoSuchProcess:
        return False
    return any(entry.status == psutil.CONN_LISTEN and entry.laddr.port == port for entry in found)
