"""Starts a broker with history on prepared data, scans it, and watches a bystander; takes the medians of the rounds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from rich.progress import Progress

import holdfast
from bench.brokers.processes import Running, start
from bench.brokers.usage import process_cpu_s
from bench.checkout import ROOT
from bench.history import rows
from bench.history.bystander import waits_ms
from bench.ports import free_port
from bench.storage.store import Store
from holdfast.history.flight.client import FlightHistory
from holdfast.storage.rocks.bench.layout_workload import Workload

#: Values by key (see `rows.keys`).
Results = dict[str, float]

#: The module of the history process, by which it is told from others of the broker.
_HISTORY = "holdfast.node.processes.history_main"
_PROGRAM = "from holdfast.cli.main import main; main()"


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    stored: int = 1_000_000
    devices: int = 10_000
    watch_s: float = 10.0


QUICK = Amounts(stored=4_000, devices=100, watch_s=0.5)


class Served:
    """A broker with its history process."""

    def __init__(self, running: Running, flight_port: int, data: Path) -> None:
        self.running = running
        self.data = data
        self.endpoint = f"grpc://127.0.0.1:{flight_port}"

    def history_cpu_s(self) -> float:
        """Of the history process, so far."""
        children = psutil.Process(self.running.pid).children()
        [history] = [child for child in children if _HISTORY in child.cmdline()]
        return process_cpu_s(history.pid)


@contextmanager
def served(amounts: Amounts) -> Iterator[Served]:
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    flight_port = free_port()
    assignments = ["history.enabled=true", f"history.flight_port={flight_port}", "history.http_port=0"]
    assignments += ["sys.interval_s=0", "storage.retention_s=0", "storage.min_free_bytes=0"]

    folders: list[Path] = []

    def command(folder: Path, port: int) -> list[str]:
        folders.append(folder / "data")
        store = Store(folder / "data")
        store.fill(Workload(amounts.stored, amounts.devices, 64).messages_in_order(), lambda _done: None)
        store.close()
        given = [word for assignment in assignments for word in ("--set", assignment)]
        serve = ["serve", "--port", str(port), "--data", str(folder / "data"), *given]
        return [sys.executable, "-c", _PROGRAM, *serve]

    running = start("history", command, environment)
    try:
        yield Served(running, flight_port, folders[-1])
    finally:
        running.stop()


def scan(place: Served, wanted: rows.Scan, stored: int) -> dict[str, float]:
    with FlightHistory(place.endpoint) as history:
        parts = history.parts()
        cpu_s, began_s = place.history_cpu_s(), time.perf_counter()
        count = sum(
            batch.num_rows
            for part in parts
            for batch in history.batches(part, (), wanted.columns, in_order=wanted.in_order)
        )
        took_s = time.perf_counter() - began_s
        cpu_s = place.history_cpu_s() - cpu_s
    if count < stored:
        raise SystemExit(f"{count} messages were read, and {stored} are stored")
    # The system counts in steps of 10 ms.
    return {"rate": count / took_s, "cpu_us": max(cpu_s, 0.01) / count * 1e6}


@contextmanager
def scanning(place: Served) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    command = [sys.executable, "-m", "bench.history.scanner", place.endpoint]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as child:  # type: ignore[call-overload]
        try:
            assert child.stdout.readline() == b"ready\n"
            yield
        finally:
            child.stdin.close()
            read = child.stdout.read()
    if not int(read or 0):
        raise SystemExit("nothing was read while the bystander was watched")


def watch(place: Served, duration_s: float) -> dict[str, float]:
    found = waits_ms(place.running.port, duration_s)
    return {"p50_ms": found[len(found) // 2], "p99_ms": found[len(found) * 99 // 100], "max_ms": found[-1]}


def one_round(amounts: Amounts, progress: Progress) -> Iterator[tuple[str, float]]:
    """Every key with its value."""
    task = progress.add_task("preparing", total=len(rows.SCANS) + len(rows.MOMENTS))
    with served(amounts) as place:
        for wanted in rows.SCANS:
            progress.update(task, description=wanted.label)
            for key, value in scan(place, wanted, amounts.stored).items():
                yield f"scan/{wanted.key}/{key}", value
            progress.advance(task)
        progress.update(task, description="bystander")
        for key, value in watch(place, amounts.watch_s).items():
            yield f"bystander/alone/{key}", value
        progress.advance(task)
        with scanning(place):
            for key, value in watch(place, amounts.watch_s).items():
                yield f"bystander/scanned/{key}", value
        progress.advance(task)
