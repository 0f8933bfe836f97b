"""A stream of Spark in a process of its own, publishers that count, and ways to kill whatever has a part in it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO

import paho.mqtt.client as paho
import psutil  # type: ignore[import-untyped]
from paho.mqtt.enums import CallbackAPIVersion

from tests.history.processes import Broker, until

PROGRAM = Path(__file__).with_name("stream_program.py")
#: What a process of Spark is called by its command line.
_WORKERS = ("pyspark.daemon", "pyspark.worker")
_EXECUTOR = ("org.apache.spark.executor.CoarseGrainedExecutorBackend",)

#: Messages between two looks whether the reader follows.
_LOOK_EVERY = 50


class Publisher:
    """Publishes numbers with QoS 1 until it is told to stop; what was not acknowledged is sent again.

    It pauses while `is_ahead`: a busy machine reads more slowly than this publishes, and would never catch up.
    """

    def __init__(
        self, name: str, port: int, seed: int, pace_s: float, is_ahead: Callable[[], bool] = lambda: False
    ) -> None:
        self.name = name
        self._is_ahead = is_ahead
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self._dice = Random(seed)
        self._pace_s = pace_s
        self._port = port
        self._stop = threading.Event()
        self._waiting: dict[int, bytes] = {}
        #: Packet ids of acknowledgements, from the client's own thread; it holds a lock of its own meanwhile.
        self._news: deque[int] = deque()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self._client.on_publish = self._published
        self._client.reconnect_delay_set(1, 1)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Ensures: everything that was sent is acknowledged."""
        self._stop.set()
        self._thread.join()
        until(lambda: self._taken() == self.sent, f"{self.name}: everything is acknowledged")
        self._client.disconnect()
        self._client.loop_stop()

    def _run(self) -> None:
        self._client.connect_async("127.0.0.1", self._port)
        self._client.loop_start()
        while not self._stop.wait(self._pace_s * self._dice.random()):
            # A broker that is away for long would find too much in front of its door.
            if len(self.sent) - len(self._taken()) > 500:
                continue
            if len(self.sent) % _LOOK_EVERY == 0 and self._is_ahead():
                continue
            payload = f"{self.name} {len(self.sent)} ".encode()
            self.sent.add(payload)
            size = self._dice.choice((0, 100, 8_000))
            message = self._client.publish(f"plant/{len(self.sent) % 30}/temp", payload + bytes(size), qos=1)
            self._waiting[message.mid] = payload

    def _taken(self) -> set[bytes]:
        """What is acknowledged by now."""
        while self._news:
            self.acknowledged.add(self._waiting.pop(self._news.popleft()))
        return self.acknowledged

    def _published(self, _client: object, _data: object, mid: int, *_more: object) -> None:
        self._news.append(mid)


class Driver:
    """The stream's process, with its JVM and its workers; started again on the same checkpoint."""

    def __init__(self, folder: Path, master: str, options: dict[str, str]) -> None:
        self.folder = folder
        self.starts = 0
        self._master = master
        self._options = [f"{name}={value}" for name, value in options.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def start(self, mode: str = "follow") -> None:
        self.starts += 1
        self._log = (self.folder / "driver.log").open("ab")
        command = [sys.executable, str(PROGRAM), mode, self._master, str(self.folder), *self._options]
        environment = {**os.environ, "SPARK_WORKER_DIR": str(self.folder / "work"), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def finish(self) -> int:
        """Wait until it has ended by itself; its status."""
        assert self._process is not None
        try:
            return self._process.wait(600)
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9 of all of it."""
        assert self._process is not None
        found = self._family() if self._process.poll() is None else []
        for process in [*found, self._process]:
            _kill(process.pid)
        self._process.wait()
        psutil.wait_procs(found, 60)
        if self._log is not None:
            self._log.close()

    def kill_worker(self) -> bool:
        """One of the Python processes that read, if there is one."""
        forked = [found for found in self._named(_WORKERS) if any(word in _words(found.parent()) for word in _WORKERS)]
        return _kill_last(forked)

    def kill_executor(self) -> bool:
        """One of the JVMs beside the driver's."""
        return _kill_last(self._named(_EXECUTOR))

    def commits(self) -> int:
        """Batches that are through."""
        names = [path.name for path in (self.folder / "checkpoint" / "commits").glob("*")]
        return max([0, *[int(name) + 1 for name in names if name.isdigit()]])

    def committed(self) -> dict[int, int]:
        """Up to which serial of each shard that is."""
        if not self.commits():
            return {}
        planned = self.folder / "checkpoint" / "offsets" / str(self.commits() - 1)
        offsets = json.loads(planned.read_text(encoding="utf-8").splitlines()[-1])
        return {int(shard): serial for shard, (_position_us, serial) in offsets.items() if serial}

    def log(self) -> str:
        """What it has printed, without the calls inside Java."""
        text = (self.folder / "driver.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))

    def _family(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            found: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return found

    def _named(self, words: tuple[str, ...]) -> list[psutil.Process]:
        return [process for process in self._family() if all(word in _words(process) for word in words)]


def kill_history(broker: Broker) -> bool:
    """Whichever runs now; the broker starts another."""
    pids = broker.history_pids()
    return bool(pids) and _kill(pids[-1])


def _words(process: psutil.Process | None) -> str:
    try:
        return "" if process is None else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill_last(processes: list[psutil.Process]) -> bool:
    return bool(processes) and _kill(processes[-1].pid)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
