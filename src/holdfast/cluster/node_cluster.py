"""A node and the logs of its cluster: the server that it runs, its connection, the control log and those of the vnodes.

    server ──▶ connection ──▶ control log ──▶ founding ──▶ logs of the vnodes

1. Each step waits for the one before, for as long as it takes, and says in the log what it waits for. A node makes no
   stream and founds no cluster: `holdfast cluster init` does.
2. What does not pass by waiting is a SettingsError: credentials, a server that does not sync, streams with other
   settings, a data folder of another cluster, zones that the cluster does not have.
3. `close` ends them in the opposite order: readers and appends, the connection, the server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from holdfast.cluster.membership.founding import find_founding
from holdfast.cluster.nats.connection import NatsConnection, NatsOptions
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.monitor import check_info, check_servers
from holdfast.cluster.nats.server import NatsServer, ServerOptions, last_tls_error
from holdfast.cluster.nats.streams import LogStream, log_streams
from holdfast.cluster.nats.system_account import check_servers_by_request
from holdfast.durable.ordered_log import OrderedLog
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.records.cluster.control_rows import FoundedRow
from holdfast.records.cluster.settings import VnodeSettings

_log = structlog.get_logger()

#: Before something that does not answer is tried again.
RETRY_S: Final = 1.0

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class ClusterOptions:
    """The cluster of a node, and how it is reached."""

    name: str
    nats: NatsOptions
    stream_bytes: int
    #: The settings of each vnode, as this node's own settings have them.
    settings: tuple[VnodeSettings, ...]
    #: The server that the node runs; None if it uses those of others.
    server: ServerOptions | None = None
    #: Of those: `host:port` of their monitoring endpoints; without them they are asked in their system account.
    monitors: tuple[str, ...] = ()

    @property
    def vnodes(self) -> int:
        return len(self.settings)

    def streams(self) -> list[LogStream]:
        """That of the control log, then one for each vnode."""
        return log_streams(self.name, self.vnodes, self.stream_bytes)


class ClusterConnection:
    """Use `open_cluster`. What is open is closed by `close`, also if opening has failed."""

    def __init__(
        self,
        options: ClusterOptions,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        leads: Callable[[int], bool] = lambda _vnode: False,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`leads` tells whether this node leads a vnode; the leader of vnode 0 looks after the control log, too."""
        self._options: Final = options
        self._tasks: Final = tasks
        self._clock: Final = clock
        self._leads: Final = leads
        self._wait: Final = wait
        self._server: asyncio.Task[None] | None = None
        self._connection: NatsConnection | None = None
        self._logs: Final[list[NatsOrderedLog]] = []
        self._founded: FoundedRow | None = None

    async def open(self, known: FoundedRow | None = None) -> None:
        """Open everything. `known` is the cluster that the node's data folder belongs to, if it does.

        SettingsError: see rule 2. PermanentError: the founding was trimmed, or cannot be read.
        """
        options = self._options
        if options.server is not None:
            server = NatsServer(options.server)
            self._server = self._tasks.create_task(server.run())
            await self._until("NATS server", server.report)
        elif options.monitors:
            await self._until("NATS servers", self._check_servers)
        self._connection = await self._until("NATS servers", self._connect)
        check_info(self._connection.server_info())
        if options.server is None and not options.monitors:
            await self._until("NATS servers", self._ask_servers)
        streams = options.streams()
        self._logs.append(await self._open_log(streams[0], 0))
        if known is None:
            self._founded = await self._until("founding of the cluster", self._find_founding)
        else:
            self._founded = known
            await self._until("founding of the cluster", self._compare_founding)
        check_founding(options, self._founded)
        for vnode, stream in enumerate(streams[1:]):
            self._logs.append(await self._open_log(stream, vnode))

    async def close(self) -> None:
        """Ensures: nothing is read, written or called any more, and the server has ended."""
        logs, connection, server = list(self._logs), self._connection, self._server
        self._logs.clear()
        self._connection = self._server = None
        for log in logs:
            await log.close()
        if connection is not None:
            await connection.close()
        if server is not None:
            server.cancel()
            await asyncio.wait([server])

    # ---- what is open

    @property
    def founded(self) -> FoundedRow:
        """The cluster. Requires: it is open."""
        assert self._founded is not None
        return self._founded

    @property
    def connection(self) -> NatsConnection:
        """For requests between nodes. Requires: it is open."""
        assert self._connection is not None
        return self._connection

    @property
    def control(self) -> OrderedLog:
        """The control log."""
        return self._logs[0]

    @property
    def vnodes(self) -> list[OrderedLog]:
        """The logs of the vnodes, by number."""
        return [*self._logs[1:]]

    def step_down(self, vnode: int | None, why: str) -> None:
        """Ask the leader of a vnode's stream to step down; None: that of the control log."""
        self._logs[0 if vnode is None else vnode + 1].ask_to_step_down(why)

    # ---- steps

    async def _check_servers(self) -> None:
        # One may be away: a node starts as long as the logs have a majority.
        await check_servers(self._options.monitors, len(self._options.monitors) // 2 + 1)

    async def _ask_servers(self) -> None:
        await check_servers_by_request(self._options.nats, self._tasks)

    async def _connect(self) -> NatsConnection:
        return await NatsConnection.open(self._options.nats, self._tasks)

    async def _open_log(self, stream: LogStream, vnode: int) -> NatsOrderedLog:
        async def attempt() -> NatsOrderedLog:
            return await NatsOrderedLog.open(
                self.connection, stream, self._tasks, self._clock, is_leader=lambda: self._leads(vnode)
            )

        return await self._until(f"stream {stream.name}", attempt)

    async def _find_founding(self) -> FoundedRow:
        found = await find_founding(self.control, wait=True)
        assert found is not None
        return found

    async def _compare_founding(self) -> None:
        """SettingsError: the streams are of another cluster than the data folder."""
        try:
            there = await find_founding(self.control)
        except PermanentError as error:
            # Whether the log is the one that was applied here, its applier compares.
            _log.debug("founding of the cluster is not read again", why=str(error))
            return
        if there is not None and there.cluster_id != self.founded.cluster_id:
            raise SettingsError(
                f"this data folder belongs to cluster {self.founded.cluster_id.hex()}, and the streams of "
                f"{self._options.name!r} to {there.cluster_id.hex()}, which was made later; use another folder"
            )

    async def _until(self, what: str, attempt: Callable[[], Awaitable[_Found]]) -> _Found:
        """Try again until it is there. Each reason is logged once in a row."""
        last = ""
        while True:
            try:
                return await attempt()
            except TransientError as error:
                why = f"{error}{self._describe_server()}"
                if why != last:
                    last = why
                    _log.info("node waits for its cluster", cluster=self._options.name, waits_for=what, why=last)
            await self._wait(RETRY_S)

    def _describe_server(self) -> str:
        """What keeps the server of this node from the others, if its log says so."""
        server = self._options.server
        reason = "" if server is None or server.tls is None else last_tls_error(server.folder)
        return f"; the server's log says: {reason}" if reason else ""


@asynccontextmanager
async def open_cluster(
    options: ClusterOptions,
    clock: Clock,
    known: FoundedRow | None = None,
    leads: Callable[[int], bool] = lambda _vnode: False,
) -> AsyncIterator[ClusterConnection]:
    """A connection that is open within the block. It fails as `ClusterConnection.open` does."""
    with single_error():
        async with asyncio.TaskGroup() as tasks:
            connection = ClusterConnection(options, tasks, clock, leads)
            try:
                await connection.open(known)
                yield connection
            finally:
                await connection.close()


@contextmanager
def single_error() -> Iterator[None]:
    """Raise the first error of a task group by itself: a caller acts on its family."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def check_founding(options: ClusterOptions, founded: FoundedRow) -> None:
    """SettingsError: the cluster is not the one that this node's settings describe."""
    found = founded.found
    if found.name != options.name:
        raise SettingsError(
            f"this data folder belongs to cluster {found.name!r}, and cluster.name is {options.name!r}; right would be "
            "that name, or another folder"
        )
    if found.vnodes != options.vnodes:
        raise SettingsError(
            f"cluster {found.name!r} was made with {found.vnodes} vnodes, and cluster.vnodes is {options.vnodes}; it "
            f"cannot be changed: write {found.vnodes}"
        )
    for there, here in zip(found.settings, options.settings, strict=True):
        if there != here:
            raise SettingsError(
                f"cluster {found.name!r} has the zones {_describe(there)}, and the settings of this node have "
                f"{_describe(here)}; all nodes need the same zones, layouts and mount points"
            )


def _describe(settings: VnodeSettings) -> str:
    zones = [
        f"{zone.name} ({', '.join([zone.layout, *[one.decode(errors='replace') for one in zone.filters]])})"
        for zone in settings.zones
    ]
    mounts = [f"mount point {mount.decode(errors='replace')}" for mount in settings.mounts]
    return ", ".join([*zones, *mounts])
