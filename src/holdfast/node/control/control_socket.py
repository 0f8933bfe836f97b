"""The control socket of a node: put together, opened before the listeners, closed with the broker.

A socket that cannot be opened is logged, and the broker runs without: it serves clients first.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog

import holdfast
from holdfast.broker.broker import Broker
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.files.socket_path import CONTROL, note_socket, prepare_socket_path
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import ClientFeed, ClientScan
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.control_server import ControlServer
from holdfast.node.control.control_watches import ControlWatches
from holdfast.node.control.control_words import ControlWords
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.node_state import NodeState
from holdfast.node.settings.tree import Settings

if TYPE_CHECKING:
    from holdfast.node.control.storage_numbers import NumberedStorage

_log = structlog.get_logger()


class ControlSocket:
    """What a broker has for those who look at it or direct it."""

    def __init__(self, settings: Settings, broker: Broker, storage: "NumberedStorage | None") -> None:
        self._settings: Final = settings
        self.state: Final = NodeState(settings, broker, None if storage is None else storage.commit_counts)
        numbers = None
        if storage is not None:
            # Imported here: a node that keeps everything in memory does not need RocksDB.
            from holdfast.node.control.storage_numbers import StorageNumbers

            numbers = StorageNumbers(storage)
        log = None if numbers is None else numbers.log
        slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
        lag = LoopLag()
        rows = ClientRowBuilder(broker, log)
        feed = ClientFeed(broker, rows, slices)
        scan = ClientScan(broker, feed, slices)
        stats = BrokerStats(broker, self.state, scan, slices, lag, numbers)
        self.watches: Final = ControlWatches(stats, feed, scan, lag, slices)
        bound = None if log is None else log.owed_at_most
        self.words: Final = ControlWords(broker, self.state, stats, rows, self.watches, slices, bound)
        self._server: Final = ControlServer(f"holdfast {holdfast.__version__}", self.words.handlers(), slices)
        self._is_open = False

    async def open(self) -> None:
        """Serve from now on, if that is possible."""
        storage = self._settings.storage
        on_disk = self._settings.on_disk()
        try:
            path = prepare_socket_path(storage.data, on_disk=on_disk)
            await self._server.open(path)
        except OSError as error:
            _log.warning("the control socket cannot be opened; commands and console do without", why=str(error))
            return
        self._is_open = True
        if on_disk:
            note_socket(storage.data, CONTROL, path)

    async def close(self) -> None:
        """Requires: the lock of the data folder is still held."""
        if self._is_open:
            self._is_open = False
            if self._settings.on_disk():
                note_socket(self._settings.storage.data, CONTROL, None)
            await self._server.close()


@asynccontextmanager
async def control_socket(
    settings: Settings, broker: Broker, storage: "NumberedStorage | None", *, own_process: bool
) -> AsyncIterator[ControlSocket]:
    """Serve the control socket for the length of the block.

    A broker inside another program that has nothing on disk has none: there is no folder by which it could be found.
    """
    control = ControlSocket(settings, broker, storage)
    if own_process or settings.on_disk():
        await control.open()
    try:
        yield control
    finally:
        await control.close()
