"""Stores a history in one broker, and has it read by one subscriber, by groups, and by Spark; medians of the rounds."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

import holdfast
from bench.brokers.usage import process_cpu_s
from bench.checkout import ROOT
from bench.history.collect import Amounts as Stored
from bench.history.collect import Served, served
from bench.parallel import rows
from bench.spark.collect import Spark, running

#: Values by key (see `rows.keys`).
Results = dict[str, float]

#: Between two looks at the counts.
_LOOK_S = 0.002
#: Nothing new for so long: something is lost.
_STALL_S = 20.0


@dataclass(frozen=True)
class Amounts:
    """How much is stored."""

    stored: int = 1_000_000
    devices: int = 10_000
    #: Whether Spark is restarted for another number of cores, which takes longer than all else of a quick run.
    restarts: bool = True


QUICK = Amounts(stored=4_000, devices=100, restarts=False)


class Readers:
    """Subscribers, each in a process, that were told to wait."""

    def __init__(self, port: int, wanted: rows.Subscribers, folder: Path) -> None:
        self._counts = folder / f"{wanted.key}.counts"
        self._counts.write_bytes(bytes(8 * wanted.members))
        text = f"$share/{wanted.group}/$replay/earliest/#" if wanted.group else "$replay/earliest/#"
        environment = {**os.environ, "PYTHONPATH": f"{Path(holdfast.__file__).parent.parent}{os.pathsep}{ROOT}"}
        self._processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.parallel.reader", str(port)),
                    *(f"{wanted.key}-{member}", text, str(self._counts), str(member)),
                ],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for member in range(wanted.members)
        ]

    def __enter__(self) -> Readers:
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit("a subscriber does not come in")
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def go(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def wait_for(self, stored: int) -> None:
        got, heard_s = 0, time.monotonic()
        while got < stored:
            time.sleep(_LOOK_S)
            found = sum(count for (count,) in struct.iter_unpack("<q", self._counts.read_bytes()))
            if found > got:
                got, heard_s = found, time.monotonic()
            elif time.monotonic() - heard_s > _STALL_S:
                raise SystemExit(f"{got} of {stored} messages came, and no more")

    def cpu_s(self) -> float:
        """Of all of them, who end."""
        spent = 0.0
        for process in self._processes:
            said, _nothing = process.communicate("")
            spent += float(said)
        return spent


def by_subscribers(place: Served, wanted: rows.Subscribers, stored: int, folder: Path) -> dict[str, float]:
    with Readers(place.running.port, wanted, folder) as readers:
        broker_s, began_s = _broker_cpu_s(place), time.perf_counter()
        readers.go()
        readers.wait_for(stored)
        took_s = time.perf_counter() - began_s
        broker_s = _broker_cpu_s(place) - broker_s
        return _figures(stored, took_s, readers.cpu_s(), broker_s)


def by_spark(place: Served, spark: Spark, wanted: rows.Table, stored: int) -> dict[str, float]:
    asked = {"do": "query", "source": wanted.source, "grouped": False, "columns": wanted.columns}
    # Once without a watch: Java compiles what it runs often.
    spark.ask(**asked)
    reader_s, broker_s = spark.cpu_s(), _broker_cpu_s(place)
    found = spark.ask(**asked)
    reader_s, broker_s = spark.cpu_s() - reader_s, _broker_cpu_s(place) - broker_s
    if found["rows"] != stored:
        raise SystemExit(f"{wanted.label}: {found['rows']} rows were read, and {stored} are stored")
    return _figures(stored, found["took_s"], reader_s, broker_s)


def _figures(count: int, took_s: float, reader_s: float, broker_s: float) -> dict[str, float]:
    return {"rate": count / took_s, "reader_us": reader_s / count * 1e6, "broker_us": broker_s / count * 1e6}


def _broker_cpu_s(place: Served) -> float:
    """Of the broker and its history process, so far."""
    return process_cpu_s(place.running.pid) + place.history_cpu_s()


def one_round(amounts: Amounts, progress: Progress) -> Iterator[tuple[str, float]]:
    """Every key with its value."""
    task = progress.add_task("preparing", total=len(rows.READERS))
    with ExitStack() as held:
        place = held.enter_context(served(Stored(amounts.stored, amounts.devices)))
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        # Once without a watch, so that all find the files in the memory of the system.
        by_subscribers(place, rows.SUBSCRIBERS[0], amounts.stored, folder)
        for subscribers in rows.SUBSCRIBERS:
            progress.update(task, description=subscribers.label)
            yield from _named(subscribers.key, by_subscribers(place, subscribers, amounts.stored, folder))
            progress.advance(task)
        for cores in (1, 2) if amounts.restarts else (2,):
            with running({"path": str(place.data), "flight": place.endpoint}, cores) as spark:
                for table in rows.TABLES:
                    if table.cores != cores and amounts.restarts:
                        continue
                    progress.update(task, description=table.label)
                    yield from _named(table.key, by_spark(place, spark, table, amounts.stored))
                    progress.advance(task)


def _named(reader: str, figures: dict[str, float]) -> Iterator[tuple[str, float]]:
    for key, value in figures.items():
        yield f"{reader}/{key}", value
