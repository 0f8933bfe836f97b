"""A foreign server on loopback, to be started, stopped and killed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

#: Seconds until something has to have happened. Generous: machines that test are busy.
DEADLINE_S = 60.0
#: Looked up before anything forks.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for it."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not true():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"not within {DEADLINE_S:.0f} s: {what}")
        time.sleep(0.02)


def _end_with_parent() -> None:
    """A server must not outlive a test that was killed. Where there is no such call, it may."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A program with its folder, which is removed with it."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        # Not a test's own folder: a server may run as a user who cannot get there.
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-", dir=folder))
        self.folder.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None

    def _launch(
        self, command: list[str], user: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        with (self.folder / "out.log").open("ab") as log:
            # In a separate process group: Ctrl-C is for the benchmark, which then ends its servers.
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=user,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def lines(self) -> str:
        """What it had to say."""
        return (self.folder / "out.log").read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """As a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
