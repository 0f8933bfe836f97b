"""The clients of a broker for those who watch them: a snapshot in slices, then what changes.

    watch ─▶ CLIENTS … CLIENTS (last) ─▶ CLIENT_CHANGES, CLIENT_CHANGES, …
                ▲                            │ more changes wait than may
                └────── CLIENTS_AGAIN ◀──────┘

1. A slice is at most SLICE clients in one loop iteration; two of a watcher are SLICE_PAUSE_S apart.
2. Who comes and goes is told by the broker, one call for each. Whether a client is behind is looked up by a scan, a
   slice at a time, because the path of messages must not be asked to tell.
3. A watcher is sent nothing while much waits for it already, so what it costs is bounded however slowly it reads.
4. Without a watcher, the broker is asked to tell nothing, and no task runs.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.broker.broker import Broker
from holdfast.broker.connections.connection import ClientConnection
from holdfast.control.words import (
    CLIENT_CHANGES,
    CLIENTS,
    CLIENTS_AGAIN,
    ClientChanges,
    ClientRow,
    ClientRows,
    Nothing,
)
from holdfast.node.control.client_rows import MAX_NAMES, ClientRowBuilder
from holdfast.node.control.slice_times import SliceTimes

SLICE: Final = 500
SLICE_PAUSE_S: Final = 0.02
CHANGES_PAUSE_S: Final = 0.25
MAX_CHANGES: Final = 10_000
#: While so much waits for a watcher, it is sent no more.
_ENOUGH_BYTES: Final = 256 * 1024
#: Between two slices of the scan, and from the begin of one scan to that of the next.
SCAN_PAUSE_S: Final = 0.1
SCAN_S: Final = 1.0


class FeedPeer(Protocol):
    """Who watches."""

    def push(self, topic: str, body: msgspec.Struct) -> None: ...

    def waiting_bytes(self) -> int: ...


class _Watcher:
    """One who watches, and what it is still to be sent."""

    def __init__(self, peer: FeedPeer, snapshot: Iterator[ClientConnection]) -> None:
        self.peer: Final = peer
        #: What is left of the snapshot; None if it is complete.
        self.snapshot: Iterator[ClientConnection] | None = snapshot
        #: Sessions that have changed since; keys alone count.
        self.changed: dict[str, None] = {}


class ClientTotals(NamedTuple):
    """What a scan has found."""

    behind: int = 0
    inflight: int = 0
    #: Subscriptions of connected clients in groups.
    shared: int = 0
    #: Replays that are being sent.
    replays: int = 0


class ClientFeed:
    """Tells those who watch. Requires: the broker's event loop. A `ConnectionWatch` by shape."""

    def __init__(self, broker: Broker, rows: ClientRowBuilder, slices: SliceTimes) -> None:
        self._broker: Final = broker
        self._rows: Final = rows
        self._slices: Final = slices
        self._watchers: Final[dict[FeedPeer, _Watcher]] = {}
        self._task: asyncio.Task[None] | None = None

    def watch(self, peer: FeedPeer) -> None:
        """Send a snapshot and then changes, until `unwatch`."""
        if peer in self._watchers:
            return
        self._watchers[peer] = _Watcher(peer, iter(self._broker.connections))
        self._broker.connections.watch = self
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unwatch(self, peer: FeedPeer) -> None:
        self._watchers.pop(peer, None)
        if not self._watchers:
            self._broker.connections.watch = None
            if self._task is not None:
                self._task.cancel()
                self._task = None

    def changed(self, session_id: str) -> None:
        """A client came, went, or is another than it was shown."""
        for watcher in self._watchers.values():
            watcher.changed[session_id] = None

    def refresh(self) -> None:
        """Let bounds of what clients are owed be as of now."""
        self._rows.refresh()

    async def _run(self) -> None:
        while True:
            more = False
            for watcher in list(self._watchers.values()):
                with self._slices.timed():
                    more = self.step(watcher.peer) or more
                await asyncio.sleep(0)
            await asyncio.sleep(SLICE_PAUSE_S if more else CHANGES_PAUSE_S)

    def step(self, peer: FeedPeer) -> bool:
        """Send a watcher one slice; whether there is more for it."""
        watcher = self._watchers.get(peer)
        if watcher is None:
            return False
        if len(watcher.changed) > MAX_CHANGES:
            watcher.changed = {}
            watcher.snapshot = iter(self._broker.connections)
            peer.push(CLIENTS_AGAIN, Nothing())
        if watcher.snapshot is None and not watcher.changed:
            return False
        if peer.waiting_bytes() > _ENOUGH_BYTES:
            return True
        if watcher.snapshot is not None:
            self._send_snapshot(watcher, watcher.snapshot)
        else:
            self._send_changes(watcher)
        return watcher.snapshot is not None or len(watcher.changed) > 0

    def _send_snapshot(self, watcher: _Watcher, snapshot: Iterator[ClientConnection]) -> None:
        rows: list[ClientRow] = []
        names = 0
        last = True
        for looked, connection in enumerate(snapshot, 1):
            row = self._tell(connection)
            if row is not None:
                rows.append(row)
                names += _names(row)
            if looked == SLICE or names > MAX_NAMES:
                last = False
                break
        if last:
            watcher.snapshot = None
        watcher.peer.push(CLIENTS, ClientRows(tuple(rows), last))

    def _send_changes(self, watcher: _Watcher) -> None:
        rows: list[ClientRow] = []
        gone: list[str] = []
        names = 0
        for session_id in list(islice(watcher.changed, SLICE)):
            del watcher.changed[session_id]
            connection = self._broker.connection_of(session_id)
            row = None if connection is None else self._tell(connection)
            if row is None:
                gone.append(session_id)
                names += len(session_id)
            else:
                rows.append(row)
                names += _names(row)
            if names > MAX_NAMES:
                break
        watcher.peer.push(CLIENT_CHANGES, ClientChanges(tuple(rows), tuple(gone)))

    def _tell(self, connection: ClientConnection) -> ClientRow | None:
        """The row of a connection, which counts as told unless another watcher has to be."""
        row = self._rows.row(connection)
        if row is not None and len(self._watchers) == 1:
            connection.told = _mark(row.subscriptions, row.inflight, row.owed, behind=row.behind)
        return row

    def look(self, connection: ClientConnection) -> None:
        """Have it told if a client is another than it was shown. Requires: it has a session."""
        client = connection.channel.client
        if client is None or not self._watchers:
            return
        session = client.session
        owed = self._rows.owed(client) if client.behind else 0
        mark = _mark(len(session.subscriptions), len(session.window), owed, behind=client.behind)
        if connection.told != mark:
            connection.told = mark
            self.changed(connection.session_id)


class ClientScan:
    """Looks at all connected clients, slice by slice, while anybody wants to know."""

    def __init__(self, broker: Broker, feed: ClientFeed, slices: SliceTimes) -> None:
        self._broker: Final = broker
        self._feed: Final = feed
        self._slices: Final = slices
        self._left: Iterator[ClientConnection] = iter(())
        self._counting = ClientTotals()
        #: As of the last scan that is complete; None without a watcher, or until a watcher has waited long enough.
        self.totals: ClientTotals | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Scan until `stop`. The first scan begins at once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.totals = None

    def latest(self) -> ClientTotals | None:
        """What is known: of few clients always, of many while they are scanned."""
        if self._task is None and len(self._broker.connections) < SLICE:
            self.begin()
            self.step()
        return self.totals

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self.begin()
            while True:
                with self._slices.timed():
                    more = self.step()
                if not more:
                    break
                await asyncio.sleep(SCAN_PAUSE_S)
            await asyncio.sleep(max(SCAN_PAUSE_S, began_s + SCAN_S - loop.time()))

    def begin(self) -> None:
        """Begin with the first client."""
        self._feed.refresh()
        self._left = iter(self._broker.connections)
        self._counting = ClientTotals()

    def step(self) -> bool:
        """Look at a slice; whether there is more."""
        behind, inflight, shared, replays = self._counting
        looked = 0
        for connection in islice(self._left, SLICE):
            looked += 1
            client = connection.channel.client
            if client is not None and not connection.channel.closed:
                behind += client.behind
                inflight += len(client.session.window)
                shared += len(client.groups)
                replays += len(client.replays or ())
                self._feed.look(connection)
        self._counting = ClientTotals(behind, inflight, shared, replays)
        if looked == SLICE:
            return True
        self.totals = self._counting
        return False


def _names(row: ClientRow) -> int:
    return len(row.session_id) + len(row.client_id) + len(row.user)


def _mark(subscriptions: int, inflight: int, owed: int, *, behind: bool) -> int:
    """A number that differs if a row should be shown again: numbers that move all the time count by magnitude.

    It fits into a small integer, and is never 0.
    """
    magnitudes = (owed.bit_length() << 5) | (inflight.bit_length() >> 2)
    return (min(subscriptions, 1 << 40) << 13) | (magnitudes << 2) | (behind << 1) | 1
