"""Prepares the same messages as a log and as files, lets Spark read them, and watches a bystander."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from rich.progress import Progress

import holdfast
from bench.checkout import ROOT
from bench.history.collect import Amounts as Stored
from bench.history.collect import Served, served, watch
from bench.spark import prepare, rows

#: Values by key (see `rows.keys`).
Results = dict[str, float]


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    stored: int = 2_000_000
    devices: int = 10_000
    watch_s: float = 10.0
    messages: int = 200


QUICK = Amounts(stored=4_000, devices=100, watch_s=0.5, messages=3)


class Spark:
    """The child process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **asked: Any) -> dict[str, Any]:
        self.tell(**asked)
        return self.hear()

    def tell(self, **asked: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("Spark ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def cpu_s(self) -> float:
        """Of Java and all Pythons, so far."""
        spent = 0.0
        root = psutil.Process(self._process.pid)
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            spent += times.user + times.system + times.children_user + times.children_system
        return spent


@contextmanager
def running(places: dict[str, str], cores: int = 2) -> Iterator[Spark]:
    environment = {**os.environ, "PYTHONPATH": f"{Path(holdfast.__file__).parent.parent}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "bench.spark.child", json.dumps(places), f"local[{cores}]"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit("Spark does not start")
            yield Spark(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def query(spark: Spark, place: Served, wanted: rows.Query, stored: int) -> dict[str, float]:
    asked = {"do": "query", "source": wanted.source, "grouped": wanted.grouped, "columns": wanted.columns}
    # Once without a watch: Java compiles what it runs often.
    spark.ask(**asked)
    cpu_s = spark.cpu_s() + place.history_cpu_s()
    found = spark.ask(**asked)
    cpu_s = spark.cpu_s() + place.history_cpu_s() - cpu_s
    if found["rows"] < stored:
        raise SystemExit(f"{wanted.label}: {found['rows']} rows were read, and {stored} are stored")
    # The system counts in steps of 10 ms.
    return {"rate": found["rows"] / found["took_s"], "cpu_us": max(cpu_s, 0.01) / found["rows"] * 1e6}


def one_round(amounts: Amounts, progress: Progress) -> Iterator[tuple[str, float]]:
    """Every key with its value."""
    task = progress.add_task("preparing", total=len(rows.QUERIES) + 2)
    with served(Stored(amounts.stored, amounts.devices)) as place, tempfile.TemporaryDirectory() as folder:
        data = place.data
        files = {"parquet": f"{folder}/parquet", "json": f"{folder}/json"}
        prepare.write_parquet(data, Path(files["parquet"]))
        yield rows.WRITTEN, prepare.write_json(data, Path(files["json"])) / amounts.stored * 1e6
        with running({"path": str(data), "flight": place.endpoint, **files}) as spark:
            for wanted in rows.QUERIES:
                progress.update(task, description=wanted.label)
                for key, value in query(spark, place, wanted, amounts.stored).items():
                    yield f"query/{wanted.key}/{key}", value
                progress.advance(task)
            spark.ask(do="device")
            device = spark.ask(do="device")
            for key in rows.DEVICE:
                yield f"device/{key}_ms", device[f"{key}_s"] * 1e3
            progress.update(task, description="latency")
            waits_ms = spark.ask(do="latency", port=place.running.port, messages=amounts.messages)["waits_ms"]
            yield "latency/p50_ms", waits_ms[len(waits_ms) // 2]
            yield "latency/p99_ms", waits_ms[len(waits_ms) * 99 // 100]
            progress.advance(task)
            progress.update(task, description="bystander")
            for key, value in watch(place, amounts.watch_s).items():
                yield f"bystander/alone/{key}", value
            spark.tell(do="scan")
            for key, value in watch(place, amounts.watch_s).items():
                yield f"bystander/scanned/{key}", value
            # Anything that is asked ends the scan, whose answer comes first.
            if not spark.ask(do="query", source="path", grouped=False, columns=rows.TWO)["rows"]:
                raise SystemExit("nothing was read while the bystander was watched")
            spark.hear()
            progress.advance(task)
