"""What `holdfast cluster` does: found a cluster, and tell how its members are."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from holdfast.cluster.membership.cluster_status import ClusterStatus, member_status
from holdfast.cluster.membership.control_snapshot import install_snapshot
from holdfast.cluster.membership.founding import find_founding, found_cluster
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.monitor import check_report, check_servers, describe_missing_servers, read_report
from holdfast.cluster.nats.server import ServerOptions, last_tls_error
from holdfast.cluster.nats.streams import COPIES, describe_absence, make_streams, stream_info
from holdfast.cluster.node_cluster import ClusterOptions, check_founding, single_error
from holdfast.durable.ordered_log import LogEntry, OrderedLog
from holdfast.durable.state_machine.control import ControlMachine, all_members, last_beat
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.records.cluster.control import Found
from holdfast.records.cluster.control_rows import FoundedRow
from holdfast.records.cluster.record import CLUSTER_ID_BYTES

_LOOK_AGAIN_S: Final = 0.2


@asynccontextmanager
async def connected(options: ClusterOptions) -> AsyncIterator[tuple[NatsConnection, asyncio.TaskGroup]]:
    """A connection to the servers, within the block."""
    with single_error():
        async with asyncio.TaskGroup() as tasks:
            connection = await NatsConnection.open(options.nats, tasks)
            try:
                yield connection, tasks
            finally:
                await connection.close()


# ---- init


@dataclass(frozen=True)
class Initialized:
    """A cluster that exists now."""

    founded: FoundedRow
    #: Whether it was founded by this call, and how many streams it has made.
    is_new: bool
    streams_made: int


async def init_cluster(options: ClusterOptions, clock: Clock, patience_s: float = 60.0) -> Initialized:
    """Make the streams, with all servers there, and found the cluster. One that exists is checked, and stays.

    TransientError: not within `patience_s`; it may be called again. SettingsError: a server or a stream has other
    settings, or the cluster that exists is another one than the options describe.
    """
    async with connected(options) as (connection, tasks):
        if options.server is not None:
            await _wait_for_servers(options.server, patience_s)
        else:
            if len(options.monitors) < COPIES:
                raise SettingsError(
                    f"cluster.monitors names {len(options.monitors)} servers; to make a cluster it must name all, "
                    f"{COPIES} or more: only its monitoring endpoint tells whether a server syncs "
                    "('http: 10.0.0.1:8222' in its settings)"
                )
            await check_servers(options.monitors, len(options.monitors))
        made = await make_streams(connection, options.streams(), patience_s)
        log = await NatsOrderedLog.open(connection, options.streams()[0], tasks, clock)
        try:
            found = Found(options.name, options.settings)
            founded, is_new = await found_cluster(log, secrets.token_bytes(CLUSTER_ID_BYTES), found, clock)
        finally:
            await log.close()
    check_founding(options, founded)
    return Initialized(founded, is_new, made)


async def _wait_for_servers(
    server: ServerOptions, patience_s: float, wait: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Until the server of this node sees all others, and is fit for use."""
    why = ""
    # One name may stand for all of them.
    servers = max(COPIES, len(set(server.routes)))
    try:
        async with asyncio.timeout(patience_s):
            while True:
                try:
                    report = await read_report(server.monitor_port)
                    check_report(report)
                    why = describe_missing_servers(report, servers)
                except TransientError as error:
                    why = str(error)
                if not why:
                    return
                await wait(_LOOK_AGAIN_S)
    except TimeoutError:
        reason = last_tls_error(server.folder) if server.tls is not None else ""
        says = f"; the log of this one says: {reason}" if reason else ""
        raise TransientError(f"the servers are not all there after {patience_s:g} s: {why}{says}") from None


# ---- status


async def read_status(options: ClusterOptions, clock: Clock) -> ClusterStatus:
    """How the cluster is, from its logs alone.

    TransientError: no server answers, or there is no cluster yet. PermanentError: the control log cannot be read.
    """
    streams = options.streams()
    async with connected(options) as (connection, tasks):
        log = await NatsOrderedLog.open(connection, streams[0], tasks, clock)
        try:
            founded, tables = await replay_control(log)
        finally:
            await log.close()
        infos = [await stream_info(connection, stream) for stream in streams]
    absent = [describe_absence(stream, info) for stream, info in zip(streams, infos, strict=True)]
    last = {vnode: int(info["state"]["last_seq"]) for vnode, info in enumerate(infos[1:])}
    now_us = clock.wall_us()
    members = [
        member_status(node, member, last_beat(tables, node), now_us) for node, member in all_members(tables).items()
    ]
    found = founded.found
    return ClusterStatus(found.name, founded.cluster_id.hex(), members, last, [text for text in absent if text])


async def replay_control(log: OrderedLog) -> tuple[FoundedRow, MemoryTables]:
    """The founding, and the tables behind the last record of a control log."""
    founded = await find_founding(log)
    if founded is None:
        raise TransientError("the cluster is not founded yet; run: holdfast cluster init")
    tables = MemoryTables()
    await install_snapshot(log, tables)
    ends = await log.ends()
    replay = _Replay(founded.cluster_id, tables, ends.last)
    reading = log.read(applied_row(tables).sequence + 1, replay)
    try:
        await replay.done
    finally:
        reading.close()
    return founded, tables


class _Replay:
    """A `LogReader` that applies a control log up to a sequence, in memory."""

    def __init__(self, cluster_id: bytes, tables: MemoryTables, last: int) -> None:
        self._last: Final = last
        self._tables: Final = tables
        self._machine: Final = ControlMachine(cluster_id, tables)
        self.done: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    def entries(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            if self.done.done():
                return
            try:
                outcome = self._machine.apply(entry)
            except PermanentError as error:
                self.done.set_exception(PermanentError(f"record {entry.sequence} of the control log: {error}"))
                return
            self._tables.write(outcome.changes, outcome.steps)
            if entry.sequence >= self._last:
                self.done.set_result(None)

    def stopped(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(TransientError(f"the control log does not lead on: {why}"))
