"""`python -m bench.cluster.installation`: how fast a node is installed from another one, and what that costs the other.

Source and installed node are two processes, at two of three NATS servers on loopback. The source has a loop that looks
at the clock every millisecond: a pause is how much later it came. Pauses are shown before, while the checkpoint is
made, and while its checksums are computed and its pieces are sent.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from bench.cluster.nats_servers import PASSWORD, USER, NatsServers
from holdfast.cluster.checkpoint.install import CheckpointInstaller, ClusterView
from holdfast.cluster.checkpoint.source import CheckpointSource
from holdfast.cluster.nats.connection import NatsConnection, NatsOptions
from holdfast.durable.changes import Changes
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.checkpoint import create_checkpoint
from holdfast.storage.rocks.engine.engine import Engine

CLUSTER_ID = b"b" * 16
SUBJECT = "bench.checkpoint"
VALUE_BYTES = 10_000


def fill(folder: Path, size_mb: int) -> Engine:
    """A database of so many megabytes that do not compress."""
    engine = Engine.open(folder)
    engine.create_family("messages")
    dice = random.Random(1)
    for number in range(size_mb * 1_000_000 // VALUE_BYTES // 100):
        changes = Changes()
        for part in range(100):
            changes.into("messages").put(b"%012d" % (number * 100 + part), dice.randbytes(VALUE_BYTES))
        engine.write(engine.written + 1, changes)
    engine.sync_now()
    return engine


class Pauses:
    """How late a loop came to what was due every millisecond."""

    def __init__(self) -> None:
        self._late_ms: list[float] = []

    async def run(self) -> None:
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(0.001)
            self._late_ms.append((time.perf_counter() - began_s) * 1e3 - 1)

    def take(self) -> str:
        late_ms, self._late_ms = sorted(self._late_ms), []
        p50, p99 = late_ms[len(late_ms) // 2], late_ms[len(late_ms) * 99 // 100]
        return f"p50 {p50:5.1f}  p99 {p99:5.1f}  max {late_ms[-1]:5.1f}"


async def serve(servers: NatsServers, folder: Path, size_mb: int) -> None:
    engine = fill(folder / "source", size_mb)

    async def announce(_message: bytes) -> None:
        pass

    made = asyncio.Event()

    def make(target: Path) -> None:
        began_s = time.perf_counter()
        create_checkpoint(engine, target)
        print(f"checkpoint of {size_mb} MB made in {time.perf_counter() - began_s:.2f} s", flush=True)
        loop.call_soon_threadsafe(made.set)

    loop = asyncio.get_running_loop()
    source = CheckpointSource(CLUSTER_ID, 1, folder / "checkpoints", make, lambda: [1], announce, SystemClock())
    pauses = Pauses()
    async with servers.connected(0) as connection:
        await connection.answer(SUBJECT, source.answer)
        tasks = [asyncio.create_task(work) for work in (source.run(), pauses.run())]
        try:
            await asyncio.sleep(2)
            print(f"pauses of the loop, ms, before:        {pauses.take()}", flush=True)
            url = servers.nats_options(1).urls[0]
            child = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "bench.cluster.installation",
                    "--install",
                    str(folder / "install"),
                    "--url",
                    url,
                )
            )
            await made.wait()
            print(f"pauses of the loop, ms, checkpoint:    {pauses.take()}", flush=True)
            await child.wait()
            print(f"pauses of the loop, ms, sums, pieces:  {pauses.take()}", flush=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    engine.close()


async def install(folder: Path, url: str) -> None:
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        connection = await NatsConnection.open(NatsOptions((url,), USER, PASSWORD), tasks)
        pieces_s = 0.0

        async def ask(_node: int, request: bytes) -> bytes:
            nonlocal pieces_s
            pieces_s = pieces_s or (time.perf_counter() if request[1] == 2 else 0.0)
            return await connection.request(SUBJECT, request, 10.0)

        async def look() -> ClusterView:
            return ClusterView([1], (1,))

        installer = CheckpointInstaller(CLUSTER_ID, 3, folder, ask, look, SystemClock())
        manifest = await installer.run()
        ended_s = time.perf_counter()
        await connection.close()
    size_mb = manifest.size_bytes / 1e6
    print(f"{size_mb:.0f} MB in {len(manifest.files)} files")
    print(f"{size_mb / (ended_s - pieces_s):.0f} MB/s from the first piece to the last sync")
    print(f"{size_mb / (ended_s - began_s):.0f} MB/s with making the checkpoint and its checksums", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--install", type=Path)
    parser.add_argument("--url", default="")
    asked = parser.parse_args()
    if asked.install is not None:
        asyncio.run(install(asked.install, asked.url))
        return
    servers = NatsServers()
    try:
        servers.start()
        with tempfile.TemporaryDirectory(prefix="holdfast-installation-") as folder:
            asyncio.run(serve(servers, Path(folder), asked.mb))
    finally:
        servers.close()


if __name__ == "__main__":
    main()
