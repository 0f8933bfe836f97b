"""One child process: measures one part on a folder, and prints JSON lines: {"done": n}, then {"figures": {…}}.

commits   how long commits of one size take
fill      writes a store, and dies by kill -9 as soon as everything has its receipt
open      opens a store and closes it
read      opens a store, replays, and closes it
bytes     writes a store, compacts it, and weighs it
segments  writes a store, and has segments made of it as in a broker

    python -m bench.storage.child <part> <folder> <messages> <devices> <size>

`size` is that of a commit in messages for `commits`, that of a segment in messages for `segments`, and that of a
payload in bytes for the others.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from statistics import median

import structlog

from bench.storage.segment_steps import measure_segments
from bench.storage.store import BATCH, OUTSTANDING, Store
from holdfast.durable.log import MessageLog
from holdfast.durable.replay import LogReplay
from holdfast.records.messages import HEADER_BYTES
from holdfast.storage.rocks.bench.layout_bench import memory_bytes, settle_collector
from holdfast.storage.rocks.bench.layout_workload import Workload
from holdfast.storage.rocks.layouts.paged import SegmentSize

Figures = dict[str, float]
Tell = Callable[[int], None]

_PAYLOAD_BYTES = 64
#: A rate of commits is measured so long, or until so many messages are committed.
_COMMITS_S = 2.0


def measure_commits(folder: Path, workload: Workload, size: int) -> Figures:
    figures: Figures = {}
    store = Store(folder)
    messages = workload.messages_in_order()
    for name, outstanding in (("alone", 0), ("overlapping", OUTSTANDING)):
        prepared = list(islice(messages, min(size * 4000, workload.messages // 2)))
        batches = [prepared[at : at + size] for at in range(0, len(prepared), size)]
        took_ms: list[float] = []
        count = 0
        cpu_s, began_s = time.process_time(), time.perf_counter()
        for batch in batches:
            before_s = time.perf_counter()
            store.write(batch, outstanding=outstanding)
            now_s = time.perf_counter()
            took_ms.append((now_s - before_s) * 1e3)
            count += len(batch)
            if now_s - began_s > _COMMITS_S:
                break
        store.wait()
        wall_s = time.perf_counter() - began_s
        figures[f"{name}_rate"] = count / wall_s
        figures[f"{name}_cpu_us"] = (time.process_time() - cpu_s) / count * 1e6
        if not outstanding:
            figures[f"{name}_ms"] = median(took_ms)
    store.close()
    return figures


def measure_filling(folder: Path, workload: Workload, tell: Tell) -> Figures:
    store = Store(folder)
    began_s = time.perf_counter()
    making_s, all_s = store.fill(workload.messages_in_order(), tell)
    wall_s = time.perf_counter() - began_s - making_s
    return {
        "fill_rate": workload.messages / wall_s,
        "fill_cpu_us": (all_s - making_s) / workload.messages * 1e6,
        "fill_peak_mb": memory_bytes("VmHWM") / 1e6,
    }


def measure_opening(folder: Path) -> Figures:
    store = Store(folder)
    figures = _opening(store, "open_killed")
    store.close()
    return figures


def _opening(store: Store, name: str) -> Figures:
    return {
        f"{name}_ms": store.open_s * 1e3,
        f"{name}_engine_ms": store.engine_open_s * 1e3,
        f"{name}_cpu_ms": store.open_cpu_s * 1e3,
    }


def _replay(log: MessageLog, levels: tuple[bytes, ...]) -> LogReplay:
    return LogReplay(log, lambda shard: [levels] if shard in log.shards_for(levels) else [], 0)


def measure_reading(folder: Path, workload: Workload) -> Figures:
    store = Store(folder)
    figures = {**_opening(store, "open_clean"), "open_mb": memory_bytes("VmRSS") / 1e6}
    reading = store.log.reader
    firsts_ms: list[float] = []
    devices = next(query for query in workload.queries() if query.key == "device")
    for levels, expected in devices.samples:
        began_s = time.perf_counter()
        replay = _replay(reading, levels)
        page = replay.next(BATCH)
        while not page.messages and not page.at_end:  # it paused after a long stretch without a match
            page = replay.next(BATCH)
        firsts_ms.append((time.perf_counter() - began_s) * 1e3)
        found = len(page.messages)
        while not page.at_end:
            page = replay.next(BATCH)
            found += len(page.messages)
        replay.close()
        if found != expected:
            raise SystemExit(f"{found} messages of a device were found, and there are {expected}")
    replay = _replay(reading, (b"#",))
    count = 0
    at_end = False
    cpu_s, began_s = time.process_time(), time.perf_counter()
    while not at_end:
        page = replay.next(BATCH)
        count += len(page.messages)
        at_end = page.at_end
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    replay.close()
    if count != workload.messages:
        raise SystemExit(f"{count} messages were replayed, and there are {workload.messages}")
    figures |= {
        "first_ms": median(firsts_ms),
        "replay_rate": count / wall_s,
        "replay_cpu_us": cpu_s / count * 1e6,
        "read_peak_mb": memory_bytes("VmHWM") / 1e6,
    }
    store.close()
    return figures


def measure_bytes(folder: Path, workload: Workload, payload_bytes: int) -> Figures:
    store = Store(folder)
    messages = workload.messages_in_order()
    sample = list(islice(messages, BATCH))
    names_bytes = sum([len(message.topic) + len(message.publisher) for message in sample]) / len(sample)
    store.fill(chain(sample, messages), lambda _done: None)
    disk_bytes = store.compact() / workload.messages
    store.close()
    return {
        "record_bytes": HEADER_BYTES + names_bytes + payload_bytes,
        "disk_bytes": disk_bytes,
        "beyond_bytes": disk_bytes - payload_bytes,
    }


def measure_slices(folder: Path, workload: Workload, messages: int) -> Figures:
    store = Store(folder)
    figures = measure_segments(store, workload.messages_in_order(), workload.messages, SegmentSize(messages=messages))
    store.close()
    return figures


def main(arguments: list[str]) -> None:
    # stdout is for figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    settle_collector()
    part, folder_name = arguments[:2]
    messages, devices, size = map(int, arguments[2:])
    folder = Path(folder_name)
    workload = Workload(messages, devices, size if part == "bytes" else _PAYLOAD_BYTES)

    def tell(done: int) -> None:
        print(json.dumps({"done": done}), flush=True)

    figures = {
        "commits": lambda: measure_commits(folder, workload, size),
        "fill": lambda: measure_filling(folder, workload, tell),
        "open": lambda: measure_opening(folder),
        "read": lambda: measure_reading(folder, workload),
        "bytes": lambda: measure_bytes(folder, workload, size),
        "segments": lambda: measure_slices(folder, workload, size),
    }[part]()
    print(json.dumps({"figures": figures}), flush=True)
    if part == "fill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
