"""Clients whose node is killed: how long each waits for a CONNACK with its session at another node."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from bench.brokers import packets
from bench.brokers.crowd import Crowd, allow_open_files
from bench.cluster.clusters import HoldfastCluster, HoldfastNode

_VERSION = 5
#: A client that was refused, or could not connect, tries the other node after so long.
_PAUSE_S = 0.05
_ANSWER_S = 15.0
_LIMIT_S = 120.0
_SESSION_PRESENT = 1


def measure_failover(cluster: HoldfastCluster, victim: HoldfastNode, clients: int) -> list[float]:
    """Seconds from the kill of a node, and of its server if it runs one, to each client's CONNACK; sorted."""
    allow_open_files(2 * clients)
    names = [f"failover-{number}" for number in range(clients)]
    crowd = Crowd([victim.port], _VERSION)
    crowd.plain(names, clean=False)
    others = [node.port for node in cluster.nodes if node is not victim]
    victim.kill()
    return sorted(asyncio.run(_all_return(names, others)))


async def _all_return(names: list[str], ports: list[int]) -> list[float]:
    killed_s = time.perf_counter()
    async with asyncio.timeout(_LIMIT_S):
        return await asyncio.gather(*[_return(name, at, ports, killed_s) for at, name in enumerate(names)])


async def _return(name: str, at: int, ports: list[int], killed_s: float) -> float:
    """Seconds until this client is let in with its session."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", ports[at % len(ports)])
                try:
                    writer.write(packets.connect(_VERSION, name, clean=False))
                    head = await reader.readexactly(4)
                    if head[0] == packets.CONNACK and head[3] == 0:
                        if head[2] != _SESSION_PRESENT:
                            raise RuntimeError(f"the session of {name} is not there")
                        return time.perf_counter() - killed_s
                finally:
                    writer.close()
        at += 1
        await asyncio.sleep(_PAUSE_S)
