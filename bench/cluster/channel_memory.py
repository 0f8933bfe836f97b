"""`python -m bench.cluster.channel_memory`: what a node needs to know channels that are registered at another one.

A node applies the claims of another node's clients, which have no session that outlives them. Its tables are on a disk,
its ordered log in memory, from which each record goes when it is applied. It runs in a process of its own, whose
anonymous memory is compared: after the first hundred claims, and after all.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.checkout import ROOT
from bench.cluster.apply_speed import CLUSTER, Node
from holdfast.records.cluster.items import ChangeSettings, Claim, Item
from holdfast.records.cluster.record import ClusterRecord, encode_record
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone

#: Claims of one record.
AT_ONCE = 100


def measure_channel_memory(channels: int) -> float:
    """Megabytes for so many channels, in a process of its own."""
    called = [sys.executable, "-m", "bench.cluster.channel_memory", "--channels", str(channels)]
    done = subprocess.run(called, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(called)} ended with status {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def anonymous_mb() -> float:
    """What this process has of memory that is no file's, without what is only not given back yet."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) * 1024 / 1e6


def _claims(number: int) -> bytes:
    """The record with a number: claims of another node's clients."""
    now_us = time.time_ns() // 1000
    first = (number - 1) * AT_ONCE
    items: list[Item] = [
        Claim(f"client-{one:07}", one + 1, (now_us // 1000, 2, one), 0) for one in range(first, first + AT_ONCE)
    ]
    if number == 1:
        items.insert(0, ChangeSettings(1, VnodeSettings((VnodeZone("default", 0, "paged", {}),))))
    return encode_record(ClusterRecord(CLUSTER, 2, 2, number, now_us, 0, [], items))


async def apply_claims(folder: Path, channels: int) -> float:
    """Megabytes that the claims behind the first record take."""
    node = Node(folder)
    log = node.ordered
    async with node.broker:
        log.hold_reads = True
        task = asyncio.get_running_loop().create_task(node.applier.run())
        before_mb = 0.0
        for number in range(1, channels // AT_ONCE + 2):
            log.append(_claims(number), lambda _result: None)
            while not log.readings():  # noqa: ASYNC110 - what it waits for is in memory
                await asyncio.sleep(0)
            log.deliver(log.readings()[0])
            while node.applier.place.sequence < number:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await log.trim(number)
            if number == 1:
                before_mb = anonymous_mb()
        taken_mb = anonymous_mb() - before_mb
        task.cancel()
    node.engine.close()
    return taken_mb


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.channel_memory", description=__doc__)
    parser.add_argument("--channels", type=int, default=100_000, help="how many (default: 100,000)")
    channels = parser.parse_args().channels
    with tempfile.TemporaryDirectory(prefix="holdfast-channels-") as folder:
        taken_mb = asyncio.run(apply_claims(Path(folder), channels))
    print(f"MB for {channels:,} channels at another node: {taken_mb:.2f}")


if __name__ == "__main__":
    main()
