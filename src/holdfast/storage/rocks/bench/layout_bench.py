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
from holdfast.durable.segments import build_segment
from holdfast.durable.tails import StoredRecord
from holdfast.model.errors import MisuseError, TransientError
from holdfast.model.message import Message
from holdfast.records.generations import Generation
from holdfast.records.messages import HEADER_BYTES
from holdfast.storage.rocks.bench.layout_workload import COMMIT, START_US, Query, Workload
from holdfast.storage.rocks.bench.reader_turns import READERS, turns_us
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration, ZoneGenerations

Figures = dict[str, float]
Tell = Callable[[int], None]

#: Where a generation ends that is complete.
_SEALED_US: Final = 2**63 - 1
#: Index entries written after each commit, as a node does it.
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
    """Writes what a layout makes of messages, and what it wants written behind; a `WrittenLog` by shape."""

    def __init__(self, engine: Engine, piece: ShardGeneration, generation: LiveGeneration | None = None) -> None:
        """`generation` is that of the piece, if segments are to be made of what is written."""
        self.engine: Final = engine
        zone = ZoneGenerations()
        zone.live.extend([] if generation is None else [generation])
        self.zone_logs: Final = {"default": zone}
        self._generation: Final = generation
        self._layout: Final = piece.layout
        self._family: Final = piece.family
        self._cells: Final[Rdict] = engine.family(piece.family)
        self._segments: Final = SegmentWriter(self)
        self.stalls = 0
        #: Processor time of building segments, which a node leaves to another process.
        self.building_s = 0.0

    def write(self, records: list[StoredRecord]) -> None:
        """Write encoded messages."""
        changes = Changes()
        self._layout.sink.put_records(records, changes.into(self._family))
        self.write_own(changes)
        self.write_behind()

    def write_commit(self, messages: list[Message], first_serial: int) -> None:
        changes = Changes()
        self._layout.sink.put_commit(messages, first_serial, changes.into(self._family))
        self.write_own(changes)
        self.write_behind()
        self.write_segments()

    def write_segments(self) -> None:
        while (stretch := self._segments.next_stretch()) is not None:
            values = [value for values in self._segments.read(stretch) for value in values]
            if values:
                began_s = time.thread_time()
                segment = build_segment(values)
                self.building_s += time.thread_time() - began_s
                self._segments.store(stretch, segment)

    def idle(self) -> bool:
        return True

    def write_behind(self) -> int:
        changes = Changes()
        self._layout.settle(self._cells)
        count = self._layout.write_behind(changes.into(self._family), _BEHIND)
        if count:
            self.write_own(changes)
        return count

    def finish(self) -> None:
        """Everything is written and compacted when it returns."""
        self._layout.finish()
        idle_rounds = 0
        while idle_rounds < 2:
            idle_rounds = 0 if self.write_behind() else idle_rounds + 1
        if self._generation is not None:
            self._generation.record = self._generation.record.sealed(_SEALED_US, (0,))
            self.write_segments()
        self.engine.sync_now()
        self.engine.flush()
        self._cells.compact_range(None, None)

    def write_own(self, changes: Changes) -> None:
        while True:
            try:
                self.engine.write(self.engine.written + 1, changes)
            except TransientError:
                self.stalls += 1
                time.sleep(0.01)  # RocksDB has to catch up
            else:
                return


def measure_writing(spec: Spec, tell: Tell) -> Figures:
    """Write everything, and wait until it is at rest."""
    workload = Workload(spec.messages, spec.devices, spec.payload_bytes)
    engine = Engine.open(Path(spec.folder))
    generation = generation_of(SegmentFamilies(engine), spec)
    piece = generation.by_shard[0]
    engine.create_family(piece.family)
    writer = Writer(engine, piece, generation)
    commits = workload.commits()
    making_s = 0.0
    record_bytes = done = 0
    written_bytes = process_written_bytes()
    loop_s, all_s, wall_s = time.thread_time(), time.process_time(), time.perf_counter()
    while True:
        before_s = time.thread_time()
        commit = next(commits, None)
        if commit is not None:
            record_bytes += sum(
                [HEADER_BYTES + len(one.topic) + len(one.publisher) + len(one.payload) for one in commit]
            )
        making_s += time.thread_time() - before_s
        if commit is None:
            break
        writer.write_commit(commit, done + 1)
        done += len(commit)
        if done % (40 * COMMIT) == 0:
            tell(done)
    loop_s = time.thread_time() - loop_s - making_s - writer.building_s
    wall_s = time.perf_counter() - wall_s
    writer.finish()
    all_s = time.process_time() - all_s - making_s - writer.building_s
    written_bytes = process_written_bytes() - written_bytes
    names = [name for name in generation.record.families() if name in engine.families()]
    disk_bytes = sum(engine.family(name).property_int_value("rocksdb.live-sst-files-size") or 0 for name in names)
    peak_bytes = memory_bytes("VmHWM")
    engine.close()
    messages = workload.messages
    return {
        "write_loop_us": loop_s / messages * 1e6,
        "write_cpu_us": all_s / messages * 1e6,
        "segments_us": writer.building_s / messages * 1e6,
        "write_wall_us": wall_s / messages * 1e6,
        "stalls": writer.stalls,
        "record_bytes": record_bytes / messages,
        "disk_bytes": disk_bytes / messages,
        "written_bytes": written_bytes / messages,
        "amplification": written_bytes / record_bytes,
        "write_peak_mb": peak_bytes / 1e6,
    }


def generation_of(segments: SegmentFamilies, spec: Spec) -> LiveGeneration:
    """With one shard, of the layout that is measured."""
    record = Generation("default", 1, spec.layout, {}, 0, (0,), 0)
    return LiveGeneration(record, segments=segments)


# ---- reading


def measure_reading(spec: Spec, tell: Tell) -> Figures:
    """Open what was written and ask every query."""
    workload = Workload(spec.messages, spec.devices, spec.payload_bytes)
    began_s = time.perf_counter()
    engine = Engine.open(Path(spec.folder))
    segments = SegmentFamilies(engine)
    piece = generation_of(segments, spec).by_shard[0]
    layout = piece.layout
    family = engine.family(piece.family)
    layout.load(family)
    figures: Figures = {"open_ms": (time.perf_counter() - began_s) * 1e3, "open_mb": memory_bytes("VmRSS") / 1e6}
    queries = workload.queries()
    hi_us = START_US + (workload.messages + 1) * 1_000
    for number, query in enumerate(queries, start=1):
        figures |= _ask(layout, family, query, hi_us, segments)
        tell(number * spec.messages // len(queries))
    for key, readers in (("reader_us", 1), ("readers_us", READERS)):
        bounds_us = [workload.position_us(1 + number * workload.messages // readers) for number in range(readers)]
        segments.forget()
        figures[key] = turns_us(layout, family, [*bounds_us, hi_us], workload.messages)
    figures["read_peak_mb"] = memory_bytes("VmHWM") / 1e6
    del family
    engine.close()
    return figures


def _ask(layout: Layout, family: Rdict, query: Query, hi_us: int, segments: SegmentFamilies) -> Figures:
    repeats = max(1, _FIRSTS // len(query.samples))
    firsts_ms: list[float] = []
    for levels, _expected in query.samples:
        for _ in range(repeats):
            segments.forget()
            firsts_ms.append(_first_ms(layout.read_messages(family, levels, query.lo_us, hi_us, 0)))
    spent_s = 0.0
    found = samples = 0
    began_s = time.perf_counter()
    for levels, expected in query.samples:
        segments.forget()
        cpu_s = time.process_time()
        count = sum(map(len, layout.read_messages(family, levels, query.lo_us, hi_us, 0)))
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


def _first_ms(read: Iterator[list[Message]]) -> float:
    """How long it takes until the first message is there."""
    began_s = time.perf_counter()
    for messages in read:
        if messages:
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
