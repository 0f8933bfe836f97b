"""Three NATS servers that form a cluster, to be killed, paused and set back, and logs on them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

from bench.cluster.nats_servers import NatsServers
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import (
    LogStream,
    MissingStreamError,
    describe_absence,
    make_streams,
    stream_info,
)
from holdfast.model.clock import Clock
from holdfast.model.errors import TransientError
from holdfast.node.system_clock import SystemClock


class NatsWorld(NatsServers):
    """The servers, and what is opened on them."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: Final = count(1)

    # ---- stores, while no server runs

    def save_stores(self, folder: Path) -> None:
        for process in self.processes:
            shutil.copytree(process.store, folder / process.name)

    def restore_stores(self, folder: Path) -> None:
        for process in self.processes:
            shutil.rmtree(process.store)
            shutil.copytree(folder / process.name, process.store)

    # ---- logs

    def new_stream(self, limit_bytes: int = 16 << 20) -> LogStream:
        """A stream that no other test has. Two live at once in few tests, so their bytes are small."""
        return LogStream("test", f"log-{next(self._numbers)}", limit_bytes)

    @asynccontextmanager
    async def opened(
        self, stream: LogStream, *, max_bytes: int = 1 << 20, first: int = 0, timeout_s: float = 2.0
    ) -> AsyncIterator[NatsOrderedLog]:
        """A log, whose stream is made if it is missing."""
        async with self.connected(first, timeout_s) as connection:
            await make_streams(connection, [stream])
            async with on_connection(connection, stream, max_bytes=max_bytes) as log:
                yield log


@asynccontextmanager
async def on_connection(
    connection: NatsConnection,
    stream: LogStream,
    clock: Clock | None = None,
    *,
    max_bytes: int = 1 << 20,
    leads: bool = False,
) -> AsyncIterator[NatsOrderedLog]:
    """A log whose stream exists."""
    async with asyncio.TaskGroup() as tasks:
        while True:
            try:
                log = await NatsOrderedLog.open(
                    connection, stream, tasks, clock or SystemClock(), max_bytes=max_bytes, is_leader=lambda: leads
                )
            except MissingStreamError:
                raise
            except TransientError:
                continue  # servers that have just started do not answer at once
            break
        try:
            yield log
        finally:
            await log.close()


async def until_current(connection: NatsConnection, stream: LogStream) -> None:
    """Wait until all servers of a stream are there and have all of it."""
    while True:
        try:
            if not describe_absence(stream, await stream_info(connection, stream)):
                return
        except TransientError:
            pass
        await asyncio.sleep(0.05)
