"""Counts the system calls of a broker by `strace`: unlike rates they are the same on a busy machine.

A broker that is traced is slower, so more messages wait for each loop iteration than otherwise. Compare counts with
counts, not with rates.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.brokers.collect import Fleet, generate
from bench.brokers.peers import RELAY
from bench.brokers.processes import UnavailableError
from bench.brokers.scenarios import Scenario

#: Columns of the table, and what is counted in each. A wait is a loop iteration.
KINDS = {
    "waits": ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "select"),
    "received": ("recv", "recvfrom", "recvmsg", "read", "readv"),
    "sent": ("send", "sendto", "sendmsg", "write", "writev"),
    "synced": ("fsync", "fdatasync", "msync"),
    "futex": ("futex",),
}
_SECONDS = 1.0
_ATTACH_S = 10.0
NOT_HERE = "System calls are not counted: there is no strace here; apt install strace."


@dataclass(frozen=True)
class CallCount:
    """The system calls of a broker during a load of so many messages."""

    scenario: str
    peer: str
    messages: int
    by_name: dict[str, int]

    def each(self, names: Sequence[str] | None = None) -> float:
        """Calls a message, of these names or of all."""
        counted = [calls for name, calls in self.by_name.items() if names is None or name in names]
        return sum(counted) / max(self.messages, 1)


class TracedProcess:
    """`strace` at a process and its threads, from entering to leaving."""

    def __init__(self, pid: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-strace-")
        self._file = Path(self._folder.name) / "calls"
        command = ["strace", "-f", "-c", "-U", "name,calls", "-o", str(self._file), "-p", str(pid)]
        self._strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> TracedProcess:
        assert self._strace.stderr is not None
        line = self._strace.stderr.readline()
        if "attached" not in line:
            self._strace.wait(_ATTACH_S)
            raise UnavailableError(f"strace: {line.strip()}")
        return self

    def __exit__(self, *_unused: object) -> None:
        if self._strace.poll() is None:
            self._strace.send_signal(signal.SIGINT)
        self._strace.communicate(timeout=_ATTACH_S)

    def calls(self) -> dict[str, int]:
        """By name. Requires: it was left."""
        found = parse_counts(self._file.read_text(encoding="utf-8"))
        self._folder.cleanup()
        return found


def parse_counts(text: str) -> dict[str, int]:
    """The table of `strace -c -U name,calls`."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit() and row[0] != "total"}


def count(fleet: Fleet, scenarios: Sequence[Scenario]) -> tuple[list[CallCount], list[str]]:
    """One traced run of each scenario with messages on each peer, and why there is none."""
    if shutil.which("strace") is None:
        return [], [NOT_HERE]
    found: list[CallCount] = []
    for scenario in scenarios:
        if not scenario.job.publishers or scenario.fresh:
            continue
        for peer in fleet.peers:
            if peer.name == RELAY or peer.cannot(scenario.job):
                continue
            try:
                running = fleet.running(peer)
                seconds = min(scenario.job.seconds, _SECONDS)
                with TracedProcess(running.pid) as traced:
                    job = replace(scenario.job, ports=(running.port,), pids=(running.pid,), seconds=seconds)
                    outcome = generate(job)
            except UnavailableError as error:
                return found, [f"System calls are not counted: {error}."]
            calls = traced.calls()
            if "load" in outcome.parts:
                found.append(CallCount(scenario.label, peer.title, int(outcome.parts["load"]["count"]), calls))
    return found, []


def print_counts(found: Sequence[CallCount], console: Console) -> None:
    if not found:
        return
    table = Table(
        title="System calls a message",
        caption="Of a broker under strace, connecting included. A wait is a loop iteration.",
        caption_justify="left",
        header_style="bold",
    )
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("messages", "all", *KINDS):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        kinds = [f"{one.each(names):.3f}" for names in KINDS.values()]
        table.add_row(one.scenario, one.peer, f"{one.messages:,}", f"{one.each():.3f}", *kinds)
    console.print(table)


def as_rows(found: Sequence[CallCount]) -> list[dict[str, object]]:
    """For the report."""
    return [
        {"scenario": one.scenario, "peer": one.peer, "messages": one.messages, "calls": one.by_name} for one in found
    ]
