"""`python -m bench.cluster.log_latency`: appends to an ordered log on three NATS servers, in milliseconds.

One record is under way at a time, as a node sends them. `append` is the time until the sequence is known, `read back`
the time until a reader on the same connection has the record: an acknowledgement waits for that. At the end the server
that leads the log is killed, and the time until an append is answered again is measured, repetitions included.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from bench.cluster.nats_servers import NatsServers, leader_of
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import LogStream, make_streams
from holdfast.durable.ordered_log import AppendResult, LogEntry
from holdfast.node.system_clock import SystemClock

SIZES = {"200 B": 200, "20 KB": 20_000, "1 MB": 1_000_000}


class _Arrival:
    """A reader that knows when the next entry came."""

    def __init__(self) -> None:
        self.came: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def entries(self, _entries: list[LogEntry]) -> None:
        self.came.set_result(time.perf_counter())

    def stopped(self, why: str) -> None:
        raise RuntimeError(why)

    def expect(self) -> asyncio.Future[float]:
        self.came = asyncio.get_running_loop().create_future()
        return self.came


async def append(log: NatsOrderedLog, record: bytes) -> AppendResult:
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    log.append(record, answer.set_result)
    return await answer


async def measure_size(log: NatsOrderedLog, size: int, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the answer, and until the record was read, of each append."""
    reader = _Arrival()
    reading = log.read((await log.ends()).last + 1, reader)
    record = bytes(size)
    answers, reads = [], []
    for number in range(count + 5):
        came = reader.expect()
        began_s = time.perf_counter()
        result = await append(log, record)
        answered_s = time.perf_counter()
        if not isinstance(result, int):
            raise RuntimeError(f"an append failed: {result.why}")
        read_s = await came
        if number >= 5:  # the first ones also make the consumer
            answers.append((answered_s - began_s) * 1e3)
            reads.append((read_s - began_s) * 1e3)
    reading.close()
    return answers, reads


async def measure_failover(servers: NatsServers, log: NatsOrderedLog, stream: LogStream) -> float:
    """Seconds without an answer after the leader was killed."""
    async with servers.connected() as connection:
        servers.named(await leader_of(connection, stream)).kill()
    began_s = time.perf_counter()
    while True:
        if isinstance(await append(log, b"again"), int):
            return time.perf_counter() - began_s
        await asyncio.sleep(0.05)


async def measure(servers: NatsServers, count: int) -> None:
    stream = LogStream("bench", "latency", 2 << 30)
    async with servers.connected() as connection, asyncio.TaskGroup() as tasks:
        await make_streams(connection, [stream])
        log = await NatsOrderedLog.open(connection, stream, tasks, SystemClock())
        print("record   append p50   p99   read back p50   p99   (ms)")
        for name, size in SIZES.items():
            answers, reads = await measure_size(log, size, count)
            print(
                f"{name:>6} {statistics.median(answers):12.2f} {_p99(answers):5.1f}"
                f" {statistics.median(reads):15.2f} {_p99(reads):5.1f}"
            )
        print(f"leader killed: an append is answered after {await measure_failover(servers, log, stream):.1f} s")
        await log.close()


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.log_latency", description=__doc__)
    parser.add_argument("--appends", type=int, default=300, help="of each size (default: 300)")
    wanted = parser.parse_args(arguments)
    servers = NatsServers()
    try:
        servers.start()
        asyncio.run(measure(servers, wanted.appends))
    finally:
        servers.close()


if __name__ == "__main__":
    main()
