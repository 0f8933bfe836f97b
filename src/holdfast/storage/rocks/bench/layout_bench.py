"""Measures a layout: what it costs to write, to keep and to read. `holdfast bench layouts` and `bench/` use it.

Two separate processes measure each layout, so that memory and bytes written are those of the layout alone: one
writes, compacts and ends; the other opens what is there, as a restarted node would, and reads. They print JSON lines:

    {"done": 20000}           how far it is
    {"figures": {…}}          at the end

    python -m holdfast.storage.rocks.bench.layout_bench write|read <spec as JSON>

1. Times per message are processor time of all threads, compaction included; making the messages is not counted.
2. A read that finds more or fewer messages than there are raises: it has no figures.
"""

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rocksdict import Rdict

import holdfast
from holdfast.durable.changes import Changes
from holdfast.model.errors import MisuseError, TransientError
from holdfast.storage.rocks.bench.layout_workload import START_US, Query, Workload
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.layouts.layout import Layout

Figures = dict[str, float]
Tell = Callable[[int], None]

_FAMILY: Final = "log-00000-00000001"
#: Messages of a commit under load, and index entries written after each, as a node does it.
_BATCH: Final = 500
_BEHIND: Final = 500
#: After so long other samples of a query are left out.
_ENOUGH_S: Final = 3.0
#: How often the first message of a query is waited for; the median counts.
_FIRSTS: Final = 5


@dataclass(frozen=True)
class Spec:
    """What is measured."""

    layout: str
    messages: int
    devices: int
    payload_bytes: int
    folder: str


def measure(spec: Spec, tell: Tell) -> Figures:
    """Measure a layout in separate processes. Requires: the folder of the spec does not exist or is empty."""
    return {**_run("write", spec, tell), **_run("read", spec, tell)}


def steps(spec: Spec) -> int:
    """What `tell` has been told in all when a measurement is done."""
    return 2 * spec.messages


def _run(part: str, spec: Spec, tell: Tell) -> Figures:
    command = [sys.executable, "-m", "holdfast.storage.rocks.bench.layout_bench", part, json.dumps(asdict(spec))]
    figures: Figures = {}
    told = 0
    # The child measures the same Holdfast as its parent, wherever that comes from.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if not line.startswith("{"):
                continue  # a line of the log, not of ours
            report = json.loads(line)
            if "done" in report:
                tell(report["done"] - told)
                told = report["done"]
            figures = report.get("figures", figures)
    if child.returncode or not figures:
        raise MisuseError(f"measuring layout {spec.layout} ({part}) ended with status {child.returncode}")
    tell(spec.messages - told)
    return figures


# ---- writing


class Writer:
    """Writes what a layout makes of messages, and what it wants written behind."""

    def __init__(self, engine: Engine, layout: Layout, family: str) -> None:
        self._engine: Final = engine
        self._layout: Final = layout
        self._family: Final = family
        self._cells: Final[Rdict] = engine.family(family)
        self.stalls = 0

    def write(self, batch: list[tuple[bytes, int, bytes]]) -> None:
        changes = Changes()
        puts = changes.into(self._family)
        put = self._layout.put
        for topic, position_us, value in batch:
            put(topic, position_us, value, puts)
        self._commit(changes)
        self.write_behind()

    def write_behind(self) -> int:
        changes = Changes()
        self._layout.settle(self._cells)
        count = self._layout.write_behind(changes.into(self._family), _BEHIND)
        if count:
            self._commit(changes)
        return count

    def finish(self) -> None:
        """Everything is written and compacted when it returns."""
        self._layout.finish()
        idle_rounds = 0
        while idle_rounds < 2:
            idle_rounds = 0 if self.write_behind() else idle_rounds + 1
        self._engine.sync_now()
        self._engine.flush()
        self._cells.compact_range(None, None)

    def _commit(self, changes: Changes) -> None:
        while True:
            try:
                self._engine.write(self._engine.written + 1, changes)
            except TransientError:
                self.stalls += 1
                time.sleep(0.01)  # RocksDB has to catch up
            else:
                return


def measure_writing(spec: Spec, tell: Tell) -> Figures:
    """Write everything, and wait until it is at rest."""
    workload = Workload(spec.messages, spec.devices, spec.payload_bytes)
    engine = Engine.open(Path(spec.folder))
    engine.create_family(_FAMILY)
    writer = Writer(engine, make_layout(spec.layout, {}), _FAMILY)
    batches = workload.batches(_BATCH)
    making_s = 0.0
    record_bytes = done = 0
    written_bytes = process_written_bytes()
    loop_s, all_s, wall_s = time.thread_time(), time.process_time(), time.perf_counter()
    while True:
        before_s = time.thread_time()
        batch = next(batches, None)
        making_s += time.thread_time() - before_s
        if batch is None:
            break
        writer.write(batch)
        record_bytes += sum([len(value) for _topic, _position_us, value in batch])
        done += len(batch)
        if done % (40 * _BATCH) == 0:
            tell(done)
    loop_s = time.thread_time() - loop_s - making_s
    wall_s = time.perf_counter() - wall_s
    writer.finish()
    all_s = time.process_time() - all_s - making_s
    written_bytes = process_written_bytes() - written_bytes
    disk_bytes = engine.family(_FAMILY).property_int_value("rocksdb.live-sst-files-size") or 0
    peak_bytes = memory_bytes("VmHWM")
    engine.close()
    messages = workload.messages
    return {
        "write_loop_us": loop_s / messages * 1e6,
        "write_cpu_us": all_s / messages * 1e6,
        "write_wall_us": wall_s / messages * 1e6,
        "stalls": writer.stalls,
        "record_bytes": record_bytes / messages,
        "disk_bytes": disk_bytes / messages,
        "written_bytes": written_bytes / messages,
        "amplification": written_bytes / record_bytes,
        "write_peak_mb": peak_bytes / 1e6,
    }


# ---- reading


def measure_reading(spec: Spec, tell: Tell) -> Figures:
    """Open what was written and ask every query."""
    workload = Workload(spec.messages, spec.devices, spec.payload_bytes)
    began_s = time.perf_counter()
    engine = Engine.open(Path(spec.folder))
    layout = make_layout(spec.layout, {})
    family = engine.family(_FAMILY)
    layout.load(family)
    figures: Figures = {"open_ms": (time.perf_counter() - began_s) * 1e3, "open_mb": memory_bytes("VmRSS") / 1e6}
    queries = workload.queries()
    hi_us = START_US + (workload.messages + 1) * 1_000
    for number, query in enumerate(queries, start=1):
        figures |= _ask(layout, family, query, hi_us)
        tell(number * spec.messages // len(queries))
    figures["read_peak_mb"] = memory_bytes("VmHWM") / 1e6
    del family
    engine.close()
    return figures


def _ask(layout: Layout, family: Rdict, query: Query, hi_us: int) -> Figures:
    repeats = max(1, _FIRSTS // len(query.samples))
    firsts_ms = [
        _first_ms(layout.read(family, levels, query.lo_us, hi_us))
        for levels, _expected in query.samples
        for _ in range(repeats)
    ]
    spent_s = 0.0
    found = samples = 0
    began_s = time.perf_counter()
    for levels, expected in query.samples:
        cpu_s = time.process_time()
        # An empty value only says that nothing was found for a while.
        count = sum([1 for value in layout.read(family, levels, query.lo_us, hi_us) if value])
        spent_s += time.process_time() - cpu_s
        if count != expected:
            asked = b"/".join(levels).decode()
            raise MisuseError(f"layout {layout.name} found {count} messages of {asked}; {expected} would be right")
        found += count
        samples += 1
        if time.perf_counter() - began_s > _ENOUGH_S:
            break
    return {
        f"{query.key}_first_ms": median(firsts_ms),
        f"{query.key}_us": spent_s / found * 1e6,
        f"{query.key}_whole_ms": spent_s / samples * 1e3,
        f"{query.key}_found": found / samples,
    }


def _first_ms(values: Iterator[bytes]) -> float:
    """How long it takes until the first message is there."""
    began_s = time.perf_counter()
    for value in values:
        if value:
            break
    return (time.perf_counter() - began_s) * 1e3


# ---- this process


def process_written_bytes() -> int:
    """What this process has handed to `write` in all; 0 where the system does not tell."""
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(text.partition("wchar:")[2].split()[0])


def memory_bytes(name: str) -> int:
    """A size of this process as /proc names it (VmRSS now, VmHWM at its highest); 0 where there is none."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return 1024 * int(text.partition(f"{name}:")[2].split()[0])


def settle_collector() -> None:
    """The collector as a node sets it (`node/lifecycle.py`): with its defaults it would take a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def main(arguments: list[str]) -> None:
    settle_collector()
    part, text = arguments
    spec = Spec(**json.loads(text))

    def tell(done: int) -> None:
        print(json.dumps({"done": done}), flush=True)

    figures = {"write": measure_writing, "read": measure_reading}[part](spec, tell)
    print(json.dumps({"figures": figures}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
