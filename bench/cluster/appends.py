"""What the servers of a cluster can do without Holdfast: packed records appended to streams like those of its logs.

Nodes append as they do at work: each has one record of each log on its way. How many messages a record has, and how
many bytes, is what the logs of a loaded cluster say.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.cluster.clusters import VNODES, HoldfastCluster
from bench.cluster.log_latency import append, measure_size
from bench.cluster.nats_servers import SIZE, NatsServers
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import LogStream, make_streams, stream_info
from holdfast.node.system_clock import SystemClock

_STREAM_BYTES = 512 << 20


@dataclass(frozen=True)
class LogSize:
    """Of all logs of vnodes together."""

    records: int
    size_bytes: int


async def log_size(cluster: HoldfastCluster) -> LogSize:
    options = cluster.nodes[0].options()
    async with asyncio.TaskGroup() as tasks:
        connection = await NatsConnection.open(options.nats, tasks)
        try:
            states = [(await stream_info(connection, stream))["state"] for stream in options.streams()[1:]]
        finally:
            await connection.close()
    return LogSize(sum(int(state["last_seq"]) for state in states), sum(int(state["bytes"]) for state in states))


async def append_rate(servers: NatsServers, record_bytes: int, seconds: float) -> float:
    """Records per second of three writers, each with one record in each of as many streams as there are vnodes."""
    streams = [LogStream("bench", f"alone-{number}", _STREAM_BYTES) for number in range(VNODES)]
    record = bytes(record_bytes)
    appended = 0

    async def write(log: NatsOrderedLog, ends_s: float) -> None:
        nonlocal appended
        while time.perf_counter() < ends_s:
            if isinstance(await append(log, record), int):
                appended += 1

    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        connections = [await stack.enter_async_context(servers.connected(first)) for first in range(SIZE)]
        await make_streams(connections[0], streams)
        logs = [
            await NatsOrderedLog.open(connection, stream, tasks, SystemClock())
            for connection in connections
            for stream in streams
        ]
        began_s = time.perf_counter()
        await asyncio.gather(*[write(log, began_s + seconds) for log in logs])
        took_s = time.perf_counter() - began_s
        for log in logs:
            await log.close()
    return appended / took_s


async def append_latency(servers: NatsServers, count: int) -> tuple[float, float]:
    """Median and 99th of 100 of an awaited append of a small record, in µs."""
    stream = LogStream("bench", "latency", _STREAM_BYTES)
    async with servers.connected() as connection, asyncio.TaskGroup() as tasks:
        await make_streams(connection, [stream])
        log = await NatsOrderedLog.open(connection, stream, tasks, SystemClock())
        answers, _reads = await measure_size(log, 200, count)
        await log.close()
    answers.sort()
    return statistics.median(answers) * 1000, answers[len(answers) * 99 // 100] * 1000
