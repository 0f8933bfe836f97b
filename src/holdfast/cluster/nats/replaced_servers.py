"""Servers that lost their disk, and came back under another name: the old name is removed from the servers' own group.

A server that has lost its store has a new name (`server`). The servers of the cluster count both: four members of
which one is dead need three to agree, so the next loss would stop them. And the copies of the logs that the old one had
are missing. When the old name is removed, the servers move its copies to the new one.

1. A name is removed if its server is not current and another one of the same node is. A node runs one server, whose
   ports and store it has alone, so the other one does not run, and has no store to come back with.
2. It is removed while all logs are current on all their other servers: one is replaced at a time.
3. Only the leader of the servers' group knows who is current, so the node that runs that server asks for it.
4. It takes the system account, in which no record can be written or read.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from holdfast.cluster.nats.connection import ApiError, NatsConnection
from holdfast.cluster.nats.monitor import Report, read_report
from holdfast.cluster.nats.server import system_user
from holdfast.cluster.nats.streams import missing_servers, stream_info
from holdfast.cluster.node_cluster import ClusterOptions, single_error
from holdfast.model.errors import PermanentError, SettingsError, TransientError

_log = structlog.get_logger()

#: Seconds between two looks.
LOOK_S: Final = 10.0
#: The name of a server: that of its node, and the random id of its store.
_SERVER: Final = re.compile(r"(.+)-[0-9a-f]{8}")


def replaced_servers(report: Report) -> list[str]:
    """The servers that have a successor, by the report of the leader of their group; by any other report none."""
    meta = (report.get("jetstream") or {}).get("meta") or {}
    leader = meta.get("leader")
    if not leader or leader != report.get("server_name"):
        return []
    replicas = meta.get("replicas") or []
    current = {_node_of(str(leader)), *(_node_of(str(one.get("name"))) for one in replicas if one.get("current"))}
    away = [str(one.get("name")) for one in replicas if not one.get("current")]
    return sorted(name for name in away if _node_of(name) and _node_of(name) in current)


def _node_of(server: str) -> str:
    found = _SERVER.fullmatch(server)
    return "" if found is None else found.group(1)


class ReplacedServers:
    """Looks after the servers of one cluster, from the node that runs one of them. `run` until it is cancelled."""

    def __init__(
        self,
        connection: NatsConnection,
        options: ClusterOptions,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Requires: the node runs a server."""
        assert options.server is not None
        self._connection: Final = connection
        self._streams: Final = options.streams()
        self._monitor_port: Final = options.server.monitor_port
        self._system: Final = replace(options.nats, user=system_user(options.nats.user))
        self._wait: Final = wait

    async def run(self) -> None:
        last = ""
        while True:
            await self._wait(LOOK_S)
            try:
                removed = await self.look()
            except (TransientError, PermanentError, SettingsError) as error:
                if str(error) != last:
                    last = str(error)
                    _log.warning("a replaced NATS server is not removed", why=last)
            else:
                last = ""
                for name in removed:
                    _log.warning("replaced NATS server is removed", server=name)

    async def look(self) -> list[str]:
        """Remove servers that were replaced; which. It fails if that has to wait."""
        replaced = replaced_servers(await read_report(self._monitor_port))
        if not replaced:
            return []
        for stream in self._streams:
            away = missing_servers(await stream_info(self._connection, stream))
            others = [name for name in away if name not in replaced]
            if others:
                raise TransientError(f"{', '.join(replaced)} stays: stream {stream.name} is not current on {others}")
        await self._remove(replaced[0])
        return replaced[:1]

    async def _remove(self, server: str) -> None:
        with single_error():
            async with asyncio.TaskGroup() as tasks:
                system = await NatsConnection.open(self._system, tasks)
                try:
                    await system.ask("SERVER.REMOVE", {"peer": server})
                except ApiError as refused:
                    raise PermanentError(f"the servers do not remove {server}: {refused}") from refused
                finally:
                    await system.close()
