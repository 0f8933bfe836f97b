"""A broker and a history process, to be killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

import holdfast
from bench.ports import free_port

#: Seconds until something has to have happened. Generous: machines that test are busy.
DEADLINE_S = 60.0

_PROGRAM = "from holdfast.cli.main import main; main()"


def until(true: Callable[[], Any], what: str, limit_s: float = DEADLINE_S) -> None:
    """Wait for it."""
    deadline_s = time.monotonic() + limit_s
    pause = threading.Event()
    while not true():
        assert time.monotonic() < deadline_s, f"not within {limit_s} s: {what}"
        pause.wait(0.02)


class Program:
    """`holdfast VERB`, again and again, on the same ports."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        self._arguments = arguments
        self.environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *self._arguments], stdout=log, stderr=log, env=self.environment
            )

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(DEADLINE_S)
        finally:
            process.kill()

    def log(self) -> list[dict[str, Any]]:
        """Lines of its log; what is no JSON is a line of its own."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return [json.loads(line) if line.startswith("{") else {"event": line} for line in lines]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == event]


class Broker(Program):
    """With history beside it, unless told otherwise."""

    def __init__(self, folder: Path, *settings: str, history: bool = True) -> None:
        self.data = folder / "data"
        self.port, self.flight_port, self.http_port = free_port(), free_port(), free_port()
        own = (
            f"history.enabled={'true' if history else 'false'}",
            f"history.flight_port={self.flight_port}",
            f"history.http_port={self.http_port}",
            "sys.interval_s=0",
            "storage.min_free_bytes=0",
        )
        given = [word for setting in (*own, *settings) for word in ("--set", setting)]
        super().__init__(folder / "broker.log", "serve", "--port", str(self.port), "--data", str(self.data), *given)
        self.endpoint = f"grpc://127.0.0.1:{self.flight_port}"

    def history_pids(self) -> list[int]:
        """Of every history process that there was, the last one at the end."""
        return [line["pid"] for line in self.said("history is served")]

    def publish(self, topic: str, payloads: list[bytes]) -> None:
        """Ensures: all are acknowledged. The broker may still be starting."""
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="publisher")
        until(lambda: self._connects(client), "the broker takes connections")
        client.loop_start()
        for sent in [client.publish(topic, payload, qos=1) for payload in payloads]:
            sent.wait_for_publish(DEADLINE_S)
            assert sent.is_published()
        client.disconnect()
        client.loop_stop()

    def _connects(self, client: paho.Client) -> bool:
        try:
            client.connect("127.0.0.1", self.port)
        except OSError:
            return False
        return True


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that nobody has waited for yet has ended all the same.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
