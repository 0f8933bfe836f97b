"""A registry on a bucket of NATS, for comparison: one key for each client id, changed by compare-and-set."""

from __future__ import annotations

import asyncio
import time

import nats
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from bench.brokers.crowd import AT_ONCE
from bench.cluster.clusters import SIZE
from bench.cluster.nats_servers import PASSWORD, USER, NatsServers

#: What a node would have to keep of a channel.
_CHANNEL = bytes(64)


async def compare_and_set_rates(servers: NatsServers, clients: int) -> dict[str, float]:
    """Registrations per second: of ids that are new, of ids that are known, and of one id by everybody."""
    connections = [
        await nats.connect(f"nats://127.0.0.1:{process.client_port}", user=USER, password=PASSWORD)
        for process in servers.processes
    ]
    try:
        await connections[0].jetstream().create_key_value(bucket="registry", replicas=SIZE)
        buckets = [await connection.jetstream().key_value("registry") for connection in connections]
        names = [f"c{number}" for number in range(clients)]
        return {
            "connects": await _rate(buckets, names),
            "reconnects": await _rate(buckets, names),
            "one_id": await _rate(buckets, ["one"] * clients),
        }
    finally:
        for connection in connections:
            await connection.close()


async def _rate(buckets: list[KeyValue], names: list[str]) -> float:
    """As many at a time as the generator has connections on their way."""
    waiting = iter(enumerate(names))

    async def register_some() -> None:
        for number, name in waiting:
            await _register(buckets[number % len(buckets)], name)

    began_s = time.perf_counter()
    await asyncio.gather(*[register_some() for _task in range(AT_ONCE)])
    return len(names) / (time.perf_counter() - began_s)


async def _register(bucket: KeyValue, name: str) -> None:
    """Once: whoever was faster has won."""
    try:
        found = await bucket.get(name)
    except KeyNotFoundError:
        revision = 0
    else:
        revision = found.revision or 0
    try:
        await bucket.update(name, _CHANNEL, last=revision)
    except KeyWrongLastSequenceError:
        return
