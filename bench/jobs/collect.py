"""Prepares the same messages as data folders and as Parquet files, of two sizes, and runs each job over both.

What a job costs before its first row is the same for both sizes, so the rows per second are those of the rows between.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from rich.progress import Progress

import holdfast
from bench.jobs import rows
from bench.spark.prepare import write_parquet
from bench.storage.store import Store
from holdfast.storage.rocks.bench.layout_workload import Workload

#: Values by key (see `rows.keys`).
Results = dict[str, float]

_HOLDFAST = "from holdfast.cli.main import main; main()"
_COPY = """
import sys
from holdfast.pipeline import session
spark = session("copy", master="local[2]")
spark.read.parquet(sys.argv[1]).write.parquet(sys.argv[2])
spark.stop()
"""
_LOOK_S = 0.05
_MB = 1e6
#: Of the payload of a message.
_PAYLOAD = 64


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    stored: int = 5_000_000
    devices: int = 10_000


QUICK = Amounts(stored=20_000, devices=100)


@dataclass(frozen=True)
class Places:
    """The same messages: in data folders of two layouts, and in files. And a folder for what jobs make."""

    paged: Path
    learned: Path
    parquet: Path
    made: Path


@dataclass(frozen=True)
class Took:
    """What a job took: s, and the most that each process of its driver had resident, in MB."""

    took_s: float
    memory_mb: dict[str, float]


def one_round(amounts: Amounts, progress: Progress) -> Iterator[tuple[str, float]]:
    """Every key with its value."""
    task = progress.add_task("preparing", total=len(rows.JOBS) * len(rows.SIZES))
    with tempfile.TemporaryDirectory(prefix="bench-jobs-", ignore_cleanup_errors=True) as text:
        folder = Path(text)
        stored = {"all": amounts.stored, "tenth": amounts.stored // 10}
        places = {size: _prepare(folder / size, count, amounts.devices) for size, count in stored.items()}
        for job in rows.JOBS:
            took: dict[str, Took] = {}
            for size in rows.SIZES:
                progress.update(task, description=f"{job.key}, {stored[size]:,} rows")
                took[size] = _run(job.key, places[size])
                progress.advance(task)
            # Of very few rows the start is all there is.
            between_s = max(took["all"].took_s - took["tenth"].took_s, 1e-3)
            yield f"job/{job.key}/rate", (stored["all"] - stored["tenth"]) / between_s
            for size in rows.SIZES:
                for process in rows.PROCESSES:
                    yield f"job/{job.key}/{process}_mb/{size}", took[size].memory_mb[process]


def _prepare(folder: Path, count: int, devices: int) -> Places:
    """A sealed generation of all messages in either layout, and files of them."""
    places = Places(*(folder / name for name in ("paged", "learned", "parquet", "made")))
    for layout, data in (("paged", places.paged), ("learned", places.learned)):
        store = Store(data, layout)
        store.fill(Workload(count, devices, _PAYLOAD).messages_in_order(), lambda _done: None)
        store.compact()
        store.close()
    write_parquet(places.paged, places.parquet)
    places.made.mkdir()
    return places


def _run(key: str, places: Places) -> Took:
    """Run a job as its user does, in a folder of its own where it changes one."""
    data = places.paged
    if key == "copy":
        return _watched(_COPY, str(places.parquet), str(places.made / "copy"))
    if key == "load":
        data = places.made / "loaded"
        Store(data).close()
    elif key == "relayout":
        data = places.made / "relaid"
        shutil.copytree(places.learned, data)
    own = {
        "archive": ["--lake", str(places.made / "lake"), "--no-compact"],
        "load": [str(places.parquet)],
        "relayout": ["--layout", "paged"],
    }
    words = ["spark", key, *own.get(key, []), "--data", str(data), "--master", "local[2]"]
    took = _watched(_HOLDFAST, *words)
    if key in ("load", "relayout"):
        shutil.rmtree(data)
    return took


def _watched(program: str, *words: str) -> Took:
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    most_mb = dict.fromkeys(rows.PROCESSES, 0.0)
    with tempfile.TemporaryFile("w+") as said:
        began_s = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", program, *words], env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        ) as child:
            root = psutil.Process(child.pid)
            while child.poll() is None:
                for process, resident_mb in _driver(root):
                    most_mb[process] = max(most_mb[process], resident_mb)
                time.sleep(_LOOK_S)
        took_s = time.perf_counter() - began_s
        if child.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(words) or 'the copy'} ended with {child.returncode}: {said.read()[-2000:]}")
    return Took(took_s, most_mb)


def _driver(root: psutil.Process) -> Iterator[tuple[str, float]]:
    """The processes of a driver: the first Python, and Java. Pythons below Java are workers."""
    with suppress(psutil.Error):
        yield "python", root.memory_info().rss / _MB
        for child in root.children(recursive=True):
            with suppress(psutil.Error):
                if child.name() == "java":
                    yield "java", child.memory_info().rss / _MB
