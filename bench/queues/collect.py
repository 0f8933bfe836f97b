"""Measures backend after backend, and takes the medians of the rounds."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis
from rich.progress import Progress

import holdfast
from bench.checkout import ROOT
from bench.queues import rows, tbmq_algorithm
from bench.queues.backends import Servers, available, backend, servers
from bench.queues.broker_throughput import backends, measure
from bench.queues.workload import append_all, calls, drain
from holdfast.durable.queues.queue_store import QueueStore

#: Values by key (see `rows.keys`).
Results = dict[str, float]
#: A number far above those of the gathered messages.
_LATER = 1 << 40


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    clients: tuple[int, ...] = (1, 1_000, 100_000)
    messages: int = 50_000
    awaited: int = 1_000
    #: Clients that are drained, of those that there are.
    drained: int = 5_000
    #: Pairs of clients on a broker, and for how long they send.
    pairs: tuple[int, ...] = (100, 1_000, 10_000)
    seconds: float = 4.0
    written: int = 50_000
    written_queues: int = 100


QUICK = Amounts(
    clients=(1, 10, 200),
    messages=400,
    awaited=5,
    drained=50,
    pairs=(4,),
    seconds=0.1,
    written=1_000,
    written_queues=10,
)


class Bench:
    """One run over all backends."""

    def __init__(self, amounts: Amounts, running: Servers, progress: Progress) -> None:
        self._amounts = amounts
        self._running = running
        self._progress = progress
        brokers = len(backends(running, "")) * len(amounts.pairs)
        total = len(available()) * len(amounts.clients) + brokers + len(rows.WRITERS)
        self._task = progress.add_task("", total=total)
        self._run_number = 0

    async def round(self) -> list[tuple[str, float]]:
        """Every key with its value."""
        self._progress.reset(self._task)
        found: list[tuple[str, float]] = []
        for clients in self._amounts.clients:
            for name in available():
                self._tell(f"{rows.BACKENDS[name]}, {clients:,} clients")
                found += await self._measure_backend(name, clients)
            if self._running.redis is not None:
                found += await self._tbmq(clients)
        self._run_number += 1
        found += measure(self._running, str(self._run_number), self._amounts.pairs, self._amounts.seconds, self._tell)
        for writer in rows.WRITERS:
            self._tell(f"what is written by {rows.WRITERS[writer]}")
            found += [(f"written/{writer}/{key}", value) for key, value in self._written(writer).items()]
        return found

    def _tell(self, words: str) -> None:
        self._progress.update(self._task, description=words)
        self._progress.advance(self._task)

    async def _measure_backend(self, name: str, clients: int) -> list[tuple[str, float]]:
        amounts = self._amounts
        self._run_number += 1
        messages = max(amounts.messages, clients)
        prepared = list(calls(clients, messages, 1))
        single = list(calls(min(clients, amounts.awaited), amounts.awaited, _LATER, 1))
        found: list[tuple[str, float]] = []
        async with backend(name, self._running, f"run-{self._run_number}") as store:
            await store.size("")  # connections and tables are there
            with counted_syncs() as syncs:
                rate, commands = await self._counted(name, store, prepared)
            if name == "journal":
                found.append((f"journal/{clients}/syncs", syncs[0] / messages))
            if name == "redis":
                found.append((f"redis/{clients}/commands", commands / messages))
            found += [
                (f"{name}/{clients}/batched", rate),
                (f"{name}/{clients}/awaited", await append_all(store, single)),
                (f"{name}/{clients}/drained", await drain(store, min(clients, amounts.drained))),
            ]
        self._clear()
        return found

    async def _counted(self, name: str, store: QueueStore, prepared: list[Any]) -> tuple[float, int]:
        if name != "redis":
            return await append_all(store, prepared), 0
        self._reset_commands()
        rate = await append_all(store, prepared)
        return rate, self._commands()

    async def _tbmq(self, clients: int) -> list[tuple[str, float]]:
        assert self._running.redis is not None
        messages = max(self._amounts.messages, clients)
        self._reset_commands()
        rate = await tbmq_algorithm.in_flight(self._running.redis.url, clients, messages)
        commands = self._commands()
        self._clear()
        return [(f"{rows.TBMQ}/{clients}/batched", rate), (f"{rows.TBMQ}/{clients}/commands", commands / messages)]

    def _written(self, writer: str) -> dict[str, float]:
        folder = tempfile.mkdtemp(prefix="written-", dir=self._running.folder)
        amounts = (str(self._amounts.written), str(self._amounts.written_queues))
        command = [sys.executable, "-m", "bench.queues.bytes_written", writer, folder, *amounts]
        # The child measures the same Holdfast that was imported here.
        environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"measuring {rows.WRITERS[writer]} ended with status {done.returncode}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures

    def _clear(self) -> None:
        for server in [self._running.redis, *(self._running.cluster.members if self._running.cluster else [])]:
            if server is not None:
                server.ask("FLUSHALL")

    def _reset_commands(self) -> None:
        assert self._running.redis is not None
        self._running.redis.ask("CONFIG", "RESETSTAT")

    def _commands(self) -> int:
        """Commands since, those inside scripts included."""
        assert self._running.redis is not None
        with Redis(port=self._running.redis.port) as connection:
            return sum(each["calls"] for each in connection.info("commandstats").values())


@contextmanager
def counted_syncs() -> Iterator[list[int]]:
    """How often Python asked for a sync meanwhile."""
    count = [0]
    kept = os.fsync, os.fdatasync

    def counting(sync: Any) -> Any:
        def counted(descriptor: int) -> None:
            count[0] += 1
            sync(descriptor)

        return counted

    os.fsync, os.fdatasync = counting(kept[0]), counting(kept[1])
    try:
        yield count
    finally:
        os.fsync, os.fdatasync = kept


def collect(amounts: Amounts, rounds: int, disk: Path | None, progress: Progress) -> Results:
    """Measure everything `rounds` times."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-queues-", dir=disk))
    folder.chmod(0o755)
    samples: dict[str, list[float]] = defaultdict(list)
    try:
        with servers(folder) as running:
            bench = Bench(amounts, running, progress)
            for _ in range(rounds):
                for key, value in asyncio.run(bench.round()):
                    samples[key].append(value)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {key: statistics.median(values) for key, values in samples.items()}
