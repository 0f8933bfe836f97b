"""Brokers on copies of one data folder, with a console or without, as `holdfast serve` runs them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench.brokers import processes
from bench.brokers.peers import ACCESS, IN_FLIGHT
from bench.brokers.processes import Running
from bench.console.api import Api
from bench.console.children import environment, wait_for
from bench.ports import free_port
from holdfast.cli.options.control_client import ControlClient
from holdfast.control.words import Nothing, Stats
from holdfast.files.socket_path import find_socket
from holdfast.files.token_file import add_token
from holdfast.model.roles import ADMIN
from holdfast.node.processes.console_main import ADDRESS_FILE
from holdfast.node.processes.console_supervisor import STATE_FOLDER

#: Modules of the processes beside a broker.
CONSOLE, HISTORY = "holdfast.node.processes.console_main", "holdfast.node.processes.history_main"
PROGRAM = "from holdfast.cli.main import main; main()"
#: Rules for the load, for bystanders, and for clients that only are there.
_ACCESS = f"{ACCESS}topic readwrite bystander/#\ntopic readwrite press/#\n"


class Node:
    """A broker that serves, with its console if it has one."""

    def __init__(self, running: Running, data: Path, token: str) -> None:
        self.running = running
        self.data = data
        self.token = token
        self.url = ""

    @property
    def port(self) -> int:
        return self.running.port

    def find_console(self) -> None:
        """Wait until the console serves, and knows its broker."""
        address = self.data / STATE_FOLDER / ADDRESS_FILE
        wait_for("the console serves", address.exists)
        self.url = json.loads(address.read_text(encoding="utf-8"))["url"]
        with self.api() as api:
            wait_for("the console knows its broker", lambda: api.value("/api/v1/stats")["as_of_us"] is not None)

    def api(self) -> Api:
        return Api(self.url, self.token)

    @contextmanager
    def control(self) -> Iterator[ControlClient]:
        client = ControlClient(find_socket(self.data))
        try:
            yield client
        finally:
            client.close()

    def stats(self) -> Stats:
        with self.control() as client:
            return client.ask("stats", Nothing(), Stats)

    def broker(self) -> psutil.Process:
        return psutil.Process(self.running.pid)

    def child(self, module: str) -> psutil.Process:
        """The process beside the broker that runs a module."""
        for process in self.broker().children(recursive=True):
            if module in process.cmdline():
                return process
        raise SystemExit(f"{module} does not run")


def start(name: str, prepared: Path, *, console: bool) -> Node:
    """Start a broker on a copy of `prepared`."""
    made: list[tuple[Path, str]] = []

    def command(folder: Path, port: int) -> list[str]:
        data = folder / "data"
        shutil.copytree(prepared, data, copy_function=_copy)
        (folder / "access").write_text(_ACCESS, encoding="utf-8")
        made.append((data, add_token(folder / "tokens", "bench", role=ADMIN)))
        settings = [
            f"storage.data={data}",
            "storage.retention_s=0",
            "storage.min_free_bytes=0",
            f"security.acl_file={folder / 'access'}",
            "security.allow_anonymous=true",
            "log.level=error",
            f"mqtt.max_inflight={IN_FLIGHT}",
            "limits.max_connections=0",
            f"console.enabled={'true' if console else 'false'}",
            f"console.port={free_port()}",
            f"console.token_file={folder / 'tokens'}",
        ]
        words = [word for setting in settings for word in ("--set", setting)]
        return [sys.executable, "-c", PROGRAM, "serve", "--port", str(port), *words]

    running = processes.start(f"console-{name}", command, environment())
    node = Node(running, *made[0])
    try:
        if console:
            node.find_console()
    except BaseException:
        running.stop()
        raise
    return node


def _copy(source: str, target: str) -> str:
    """Table files never change, so their copies can be links."""
    if source.endswith(".sst"):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)
