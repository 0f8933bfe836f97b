"""`holdfast serve` as a process of its own, on the modules under test: started, watched through its log, stopped."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Seconds that anything may take which is expected to happen. Generous: machines that test are busy.
DEADLINE_S = 30.0

_PROGRAM = "from holdfast.cli.main import main; main()"


class RunningBroker:
    """A broker process. Its log is read all the time, or it would stop when the pipe is full."""

    def __init__(
        self, folder: Path, settings_toml: str, arguments: tuple[str, ...] = (), *, sabotage: str = ""
    ) -> None:
        """Start it in `folder`, and wait until it listens everywhere; `sabotage` is Python that runs first."""
        config = folder / "holdfast.toml"
        config.write_text(settings_toml, encoding="utf-8")
        command = [sys.executable, "-c", f"{sabotage}\n{_PROGRAM}", "serve", "--config", str(config), *arguments]
        self.folder = folder
        # Nothing on disk, unless the test says so: most tests start a broker and stop it again.
        environment = {"HOLDFAST__STORAGE__DURABILITY": "memory"} if "[storage]" not in settings_toml else {}
        self.process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
        )
        #: Lines of its standard error, so far.
        self.lines: list[str] = []
        #: Events on level error that a test provokes; any other makes `stop` fail.
        self.expected_errors: set[str] = set()
        # Reentrant: whoever waits for news also looks at the lines.
        self._news = threading.Condition(threading.RLock())
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ports = self._wait_until_listening(settings_toml)

    @property
    def pid(self) -> int:
        return self.process.pid

    def events(self, name: str, **fields: str) -> list[dict[str, Any]]:
        """The log lines of one event with these fields, so far. Those of earlier tests may still come."""
        wanted = {"event": name, **fields}
        with self._news:
            return [entry for entry in map(_entry, self.lines) if wanted.items() <= entry.items()]

    def wait_for(self, name: str, count: int = 1, **fields: str) -> list[dict[str, Any]]:
        """Wait until an event with these fields was logged `count` times."""
        ends = time.monotonic() + DEADLINE_S
        with self._news:
            while len(found := self.events(name, **fields)) < count:
                self._wait(ends, f"{name!r}, {count} times")
        return found

    def reload(self) -> None:
        """Send SIGHUP, and wait until passwords and rules were read, or refused."""
        before = self._reloads()
        self.process.send_signal(signal.SIGHUP)
        ends = time.monotonic() + DEADLINE_S
        with self._news:
            while self._reloads() == before:
                self._wait(ends, "a reload")

    def _wait(self, ends: float, what: str) -> None:
        """Wait for another line."""
        left_s = ends - time.monotonic()
        assert not self._ended, f"the broker ended before {what}:\n{''.join(self.lines)}"
        assert left_s > 0, f"no {what} in:\n{''.join(self.lines)}"
        self._news.wait(left_s)

    def stop(self) -> None:
        """Stop it as an operator would: it ends in peace, and complained of nothing."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(DEADLINE_S)
            assert self.process.stderr is not None
            self.process.stderr.close()
        log = "".join(self.lines)
        assert status == 0, f"it ended with status {status}:\n{log}"
        assert self.complaints() == [], log

    def complaints(self) -> list[str]:
        """What in its log should not be there."""
        return [line for line in list(self.lines) if self._complains(line)]

    def _complains(self, line: str) -> bool:
        entry = _entry(line)
        if entry.get("event") in self.expected_errors:
            return False
        return not entry or entry.get("level") in ("error", "critical") or "Traceback" in line

    def _reloads(self) -> int:
        names = ("reloaded", "not reloaded, the old one stays")
        return sum(entry.get("what") == "certificates" for name in names for entry in self.events(name))

    def _wait_until_listening(self, settings_toml: str) -> Mapping[str, int]:
        wanted = max(1, settings_toml.count("[listeners."))
        try:
            return {entry["listener"]: entry["port"] for entry in self.wait_for("listening", wanted)}
        except AssertionError:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            assert self.process.stderr is not None
            self.process.stderr.close()
            raise

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def _entry(line: str) -> dict[str, Any]:
    """A log line as a table; empty if it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
