"""The scripts under examples/, as modules and as processes that can be killed."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> Path:
    return ROOT / "examples" / f"{name}.py"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, script(name))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RunningExample:
    """`python examples/NAME.py`, with its Java and its workers."""

    def __init__(self, log: Path, name: str, *arguments: str) -> None:
        self._log = log
        with log.open("w") as out:
            command = [sys.executable, str(script(name)), *arguments]
            self._process = subprocess.Popen(command, start_new_session=True, stdout=out, stderr=out)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of all of it. It has to run still."""
        assert self.runs, self.log()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self.runs:
            self.kill()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")
