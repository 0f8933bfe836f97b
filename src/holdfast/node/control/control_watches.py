"""Who watches what by the control socket: numbers once a second, clients as they come and go."""

import asyncio
from typing import Final

import structlog

from holdfast.control.words import STATS, Watch
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import ClientFeed, ClientScan
from holdfast.node.control.control_server import ControlConnection
from holdfast.node.control.slice_times import SliceTimes

_log = structlog.get_logger()

STATS_S: Final = 1.0


class ControlWatches:
    """Starts what is gathered for those who watch with the first of them, and stops it with the last."""

    def __init__(
        self, stats: BrokerStats, feed: ClientFeed, scan: ClientScan, lag: LoopLag, slices: SliceTimes
    ) -> None:
        self._stats: Final = stats
        self._feed: Final = feed
        self._scan: Final = scan
        self._lag: Final = lag
        self._slices: Final = slices
        #: Those who ever watched, and those who do.
        self._known: Final[set[ControlConnection]] = set()
        self._watchers: Final[set[ControlConnection]] = set()
        #: Those of them who want numbers.
        self._of_stats: Final[set[ControlConnection]] = set()
        self._task: asyncio.Task[None] | None = None

    def change(self, connection: ControlConnection, wanted: Watch) -> None:
        """Push what is wanted from now on, and nothing else."""
        if connection not in self._known:
            self._known.add(connection)
            connection.on_end.append(lambda: self._forget(connection))
        if wanted.clients:
            self._feed.watch(connection)
        else:
            self._feed.unwatch(connection)
        if wanted.stats:
            self._of_stats.add(connection)
        else:
            self._of_stats.discard(connection)
        if wanted.stats or wanted.clients:
            self._watchers.add(connection)
        else:
            self._watchers.discard(connection)
        self._run_as_needed()

    def _forget(self, connection: ControlConnection) -> None:
        self.change(connection, Watch())
        self._known.discard(connection)

    def _run_as_needed(self) -> None:
        if self._watchers:
            self._scan.start()
            self._lag.start()
        else:
            self._scan.stop()
            self._lag.stop()
        if self._of_stats and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        elif not self._of_stats and self._task is not None:
            self._task.cancel()
            self._task = None

    def push_stats(self) -> None:
        """Push the numbers of this moment to those who want numbers."""
        if not self._of_stats:
            return
        try:
            with self._slices.timed():
                stats = self._stats.gather()
                for connection in list(self._of_stats):
                    connection.push(STATS, stats)
        except Exception:
            _log.exception("the broker's numbers could not be gathered; they are tried again")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            self.push_stats()
            due_s = max(due_s + STATS_S, loop.time())
            await asyncio.sleep(due_s - loop.time())
