"""Spark standalone on loopback: a master and two workers from the PySpark package, which cannot see a folder.

    hidden/      an empty file system of its own in front of it, in the mount namespace of each worker
    shared/      what driver and workers see alike: lakes, checkpoints, tables

Executors are processes of their own below their worker: they are found there, and no others.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import IO, Any, Final, Self

import psutil  # type: ignore[import-untyped]
import pyspark
import pytest

import holdfast
from holdfast.pipeline import java_home
from tests.history.processes import until

DRIVER: Final = "tests.spark.standalone_driver"
_ROOT: Final = Path(__file__).parents[2]
_LOOPBACK: Final = "127.0.0.1"
_WORKERS: Final = 2
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_PYTHON: Final = "pyspark.daemon"
_PATIENCE_S: Final = 300.0
#: Of a processor: more than an executor uses that has nothing to do.
_WORK_S: Final = 0.1
_LATER_S: Final = 0.5
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
#: What Spark's own scripts give to each of its programs.
_OPEN: Final = ("java.base/java.lang", "java.base/java.nio", "java.base/java.util", "java.base/sun.nio.ch")
#: With more kills than Spark allows a task or a stage: an operator of machines that come and go sets these, too.
MANY_KILLS: Final = {
    "spark.task.maxFailures": "1000",
    "spark.stage.maxConsecutiveAttempts": "1000",
    # How long a task waits for a block that a killed executor had: two minutes each time, otherwise.
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "15s",
}


def mount_namespace() -> list[str]:
    """What a command begins with that is to have mounts of its own; without the right to do so the test is skipped,
    or fails where CI is set.
    """
    unshare = shutil.which("unshare")
    for words in ([unshare, "--mount"], [unshare, "--mount", "--map-root-user"]) if unshare else ():
        tried = [*words, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return [str(word) for word in words]
    message = "a worker has to be kept from the data folder: run as root, or allow user namespaces (unshare --mount)"
    if "CI" in os.environ:
        pytest.fail(message)
    pytest.skip(message)


def spark_environment(local: Path) -> dict[str, str]:
    """Of Spark's programs: the Python and the modules of this test, on loopback; `local` is for what Spark spills."""
    home = Path(pyspark.__file__).parent
    [core] = home.glob("jars/spark-core_*.jar")
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(holdfast.__file__).parents[1]), str(_ROOT)]),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_LOCAL_DIRS": str(local),
        # Spark's scripts find it out; workers want it to start executors.
        "SPARK_SCALA_VERSION": core.name.split("_")[1].split("-")[0],
    }


def spark_program(class_name: str, words: list[str], memory: str = "256m") -> list[str]:
    """The command of a program of Spark."""
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN]
    java = [str(java_home() / "bin" / "java"), f"-Xmx{memory}", *opened]
    jars = Path(pyspark.__file__).parent / "jars"
    return [*java, "-cp", f"{jars}/*", f"org.apache.spark.{class_name}", *words]


class Standalone:
    """A master, and workers with one core each."""

    def __init__(self, folder: Path) -> None:
        self.hidden: Final = folder / "hidden"
        self.shared: Final = folder / "shared"
        self._folder: Final = folder
        self._namespace: Final = mount_namespace()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self._dice: Final = Random(1)
        for place in (self.hidden, self.shared, folder / "local"):
            place.mkdir(0o700)

    def __enter__(self) -> Self:
        listen = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
        try:
            self._start("master", [], "master.Master", listen)
            until(lambda: _MASTER.search(self._log("master")), "the master listens", _PATIENCE_S)
            for number in range(_WORKERS):
                name = f"worker-{number}"
                script = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
                kept_out = [*self._namespace, "sh", "-c", script, str(self.hidden)]
                room = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name)]
                self._start(name, kept_out, "worker.Worker", [*listen, *room, self.url])
            until(self._is_complete, "workers are registered", _PATIENCE_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            family = _children(process.pid)
            for one in [*family, process]:
                _kill(one.pid)
            process.wait()
            psutil.wait_procs(family, 60)
        for log in self._logs:
            log.close()

    @property
    def url(self) -> str:
        found = _MASTER.search(self._log("master"))
        assert found is not None
        return found[1]

    @property
    def environment(self) -> dict[str, str]:
        return spark_environment(self._folder / "local")

    def _start(self, name: str, before: list[str], class_name: str, words: list[str]) -> None:
        log = (self._folder / f"{name}.log").open("wb")
        self._logs.append(log)
        command = [*before, *spark_program(f"deploy.{class_name}", words)]
        self._processes.append(
            subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, cwd=self._folder)
        )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _is_complete(self) -> bool:
        return all("Successfully registered" in self._log(f"worker-{number}") for number in range(_WORKERS))

    # ---- executors

    def executors(self, *, at_work: bool = False) -> list[psutil.Process]:
        """All of them, or those that have started a Python, which they do for their first task."""
        found = [one for process in self._processes for one in _children(process.pid) if _EXECUTOR in _words(one)]
        return [one for one in found if not at_work or any(_PYTHON in _words(child) for child in _children(one.pid))]

    @contextmanager
    def kills(self, count: int, longest_s: float = _LATER_S) -> Iterator[list[int]]:
        """kill -9 of so many executors, one after the other, each within `longest_s` after it began to work.

        Gives the processes that were killed. Ensures: there were as many, unless the block raises.
        """
        killed: list[int] = []
        ended = threading.Event()
        idle = {one.pid: _seconds(one) for one in self.executors()}

        def kill_all() -> None:
            while len(killed) < count and not ended.wait(0.01):
                working = [one for one in self.executors(at_work=True) if one.pid not in killed]
                # Those of an earlier job have a Python already, and work when they use a processor.
                busy = [one for one in working if _seconds(one) - idle.get(one.pid, 0.0) > _WORK_S]
                if not busy or ended.wait(longest_s * self._dice.random() ** 2):
                    continue
                pid = self._dice.choice(busy).pid
                if _kill(pid):
                    killed.append(pid)

        thread = threading.Thread(target=kill_all)
        thread.start()
        try:
            yield killed
        finally:
            ended.set()
            thread.join()
        assert len(killed) == count, f"the job was over after {len(killed)} of {count} kills"


class Driver:
    """A process with one session of Spark, which runs what it is told, one after the other."""

    def __init__(self, world: Standalone, settings: dict[str, str] | None = None) -> None:
        self._world: Final = world
        self._settings: Final = settings or {}

    def __enter__(self) -> Self:
        conf = self._world.shared / f"conf-{os.getpid()}-{id(self)}"
        conf.mkdir()
        lines = [f"{name} {value}\n" for name, value in self._settings.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
        self._log = (conf / "driver.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", DRIVER, self._world.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**self._world.environment, "SPARK_CONF_DIR": str(conf)},
            cwd=self._world.shared,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        family = _children(self._process.pid)
        self._process.kill()
        for one in family:
            _kill(one.pid)
        self._process.wait()
        psutil.wait_procs(family, 60)
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()

    def ask(self, act: str, **given: Any) -> Any:
        """What a function of the program returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"act": act, **given}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                told = json.loads(line)
                assert "failed" not in told, without_calls(told["failed"])
                return told["found"]
        self._log.seek(0)
        raise AssertionError(f"the driver has ended:\n{without_calls(self._log.read())}")

    def command(self, *words: str) -> str:
        """Standard output of `holdfast spark …` on this cluster, which has to be well."""
        told = self.ask("command", words=words)
        assert told["code"] == 0, without_calls(told["output"])
        return str(told["stdout"])

    def refusal(self, *words: str) -> str:
        """What a command says that does not go well."""
        told = self.ask("command", words=words)
        assert told["code"] != 0, told["output"]
        return str(told["output"])


def without_calls(text: str) -> str:
    """The end of what a program of Spark said, without the calls inside Java."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))[-6000:]


def _children(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _seconds(process: psutil.Process) -> float:
    """Of a processor, that it and its Pythons have used."""
    used = 0.0
    for one in [process, *_children(process.pid)]:
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        used += times.user + times.system
    return used


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
