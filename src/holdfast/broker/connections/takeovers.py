"""Takeovers of client ids: carries out what the takeover machine decides, against the registry and the old channel.

    CONNECT ──▶ lock of the client id here ──▶ lock of the cluster (`registry.mode = "eventual"`)
            ──▶ Begin: the old channel stops ──▶ Commit: registered ──▶ Open: the session

All of it up to Open has `registry.patience_s`, counted from CONNECT: then the client hears 0x88.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Final

from holdfast.broker.client_log import ClientLog
from holdfast.broker.connections.channel_freeze import ChannelFreeze
from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.connections.connections import ClientConnections
from holdfast.broker.deadlines import Deadlines
from holdfast.broker.policy import Policy
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.broker.stores import Stores
from holdfast.durable.takeover.registry import NOBODY, ChannelVersion, CommitResult, Registration, Unsettled
from holdfast.durable.takeover.takeover import (
    UNSETTLED,
    Accept,
    Action,
    Begin,
    Commit,
    End,
    Open,
    Read,
    Refuse,
    Takeover,
    Thaw,
    Withdraw,
)
from holdfast.exchange.client import BrokerClient
from holdfast.model.errors import PeerError
from holdfast.model.ids import ClientId
from holdfast.model.reasons import SERVER_BUSY, SERVER_UNAVAILABLE, SESSION_TAKEN_OVER
from holdfast.model.time import SECOND_US

#: The longest pause before another try to register, where nodes race.
_LONGEST_PAUSE_US: Final = 50_000
_NO_TIME_LEFT: Final = Unsettled("registry.patience_s is over", final=True)

#: The client, and whether its session was there before.
Taken = tuple[BrokerClient, bool]


class ClientLocks:
    """A lock for each client id: one takeover at a time, and of those that wait only the newest is admitted.

    The registry settles races between nodes, at the price of a retry for each rival. On one node there is no need for
    that: a thousand connects of one client id would otherwise be a thousand rivals.

    1. At most one is inside per client id, and at most one waits: the newest.
    """

    def __init__(self) -> None:
        self._inside: Final[set[str]] = set()
        self._waiting: Final[dict[str, tuple[ChannelVersion, asyncio.Future[bool]]]] = {}

    def taken(self, client_id: str) -> bool:
        """Whether `enter` would wait."""
        return client_id in self._inside

    async def enter(self, client_id: str, version: ChannelVersion) -> bool:
        """Wait for the lock; False if a newer one came meanwhile. After True, `leave` has to be called."""
        if client_id not in self._inside:
            self._inside.add(client_id)
            return True
        rival = self._waiting.get(client_id)
        if rival is not None:
            if version < rival[0]:
                return False
            self._settle(rival[1], admitted=False)
        admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[client_id] = (version, admitted)
        try:
            return await admitted
        except asyncio.CancelledError:
            waiting = self._waiting.get(client_id)
            if waiting is not None and waiting[1] is admitted:
                del self._waiting[client_id]
            raise

    def leave(self, client_id: str) -> None:
        """Let the next one in."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None or waiting[1].done():
            self._inside.discard(client_id)
        else:
            self._settle(waiting[1], admitted=True)

    @staticmethod
    def _settle(future: "asyncio.Future[bool]", *, admitted: bool) -> None:
        if not future.done():
            future.set_result(admitted)


class Takeovers:
    """The takeovers of one node."""

    def __init__(
        self,
        stores: Stores,
        sessions: BrokerSessions,
        connections: ClientConnections,
        freeze: ChannelFreeze,
        policy: Policy,
        deadlines: Deadlines,
        client_log: ClientLog,
        spawn: Callable[[Coroutine[object, object, object]], None],
    ) -> None:
        self._registry: Final = stores.registry
        self._begin_elsewhere: Final = stores.begin_elsewhere
        self._cluster_lock: Final = stores.cluster_lock
        self._counts: Final = stores.takeover_counts
        #: Whether other nodes may register channels of the same client ids.
        self._has_rivals: Final = stores.deciding_log is not None
        self._sessions: Final = sessions
        self._connections: Final = connections
        self._freeze: Final = freeze
        self._policy: Final = policy
        self._deadlines: Final = deadlines
        self._client_log: Final = client_log
        self._spawn: Final = spawn
        self._locks: Final = ClientLocks()

    def ends_us(self) -> int:
        """When the patience of a takeover is over that begins now."""
        return self._deadlines.now_us() + int(self._policy.registry.patience_s * SECOND_US)

    def waits(self, connection: ClientConnection) -> bool:
        """Whether another takeover of the client id is under way here."""
        return self._locks.taken(connection.session_id)

    async def enter(self, connection: ClientConnection) -> None:
        """Wait until no other takeover of the client id is under way here. `leave` has to follow."""
        if not await self._locks.enter(connection.session_id, connection.version):
            raise PeerError(SERVER_BUSY, "a newer connection has this client id")

    def leave(self, connection: ClientConnection) -> None:
        self._locks.leave(connection.session_id)

    async def take_over(
        self, connection: ClientConnection, *, clean_start: bool, persistent: bool, ends_us: int
    ) -> Taken | None:
        """Become the one channel of the client id, and open its session; None if the client has left meanwhile.

        PeerError: it is refused.
        """
        lock = self._cluster_lock
        if lock is None:
            return await self._take_over(connection, clean_start=clean_start, persistent=persistent, ends_us=ends_us)
        taker = self._connections.registration(connection)
        if not await lock.acquire(taker, self._left_s(ends_us)):
            self._counts.ended(UNSETTLED)
            raise PeerError(SERVER_UNAVAILABLE, "another connection of this client id has the lock of its takeover")
        try:
            return await self._take_over(connection, clean_start=clean_start, persistent=persistent, ends_us=ends_us)
        finally:
            self._spawn(lock.release(taker))

    async def _take_over(
        self, connection: ClientConnection, *, clean_start: bool, persistent: bool, ends_us: int
    ) -> Taken | None:
        client_id = ClientId(connection.session_id)
        takeover = Takeover(self._connections.registration(connection), clean_start=clean_start)
        client: BrokerClient | None = None
        taken_over = False
        pending: list[Action] = takeover.start(self._registry.local_newest(client_id))
        while pending:
            action = pending.pop(0)
            if isinstance(action, Begin):
                await self._begin(action)
                pending += _left(connection, takeover)
                pending += takeover.began()
            elif isinstance(action, Commit):
                result = await self._commit(action, takeover.retries, ends_us)
                pending += _left(connection, takeover)
                pending += takeover.committed(result)
            elif isinstance(action, Read):
                newest = await self._read_newest(action.client_id, ends_us)
                pending += _left(connection, takeover)
                pending += takeover.read(newest)
            elif isinstance(action, End):
                taken_over = self._end(action) or taken_over
            elif isinstance(action, Thaw):
                self._freeze.thaw(action.old, action.taker.channel)
            elif isinstance(action, Withdraw):
                # Nobody waits for it: a registry that does not answer must not hold up the refusal.
                self._connections.withdraw(action.registration)
            elif isinstance(action, Open):
                connection.registered = True
                opened = await self._sessions.open(
                    client_id,
                    clean_start=action.clean_start,
                    persistent=persistent,
                    taken_over=taken_over,
                    has_left=lambda: connection.channel.closed,
                )
                if opened is None:
                    pending += takeover.abandon()
                else:
                    client, present = opened
                    pending += takeover.opened(session_present=present)
            elif isinstance(action, Refuse):
                self._counts.ended(takeover.path)
                if action.log_line:
                    self._client_log.info("takeover", "client", client=connection.client_id, why=action.log_line)
                raise PeerError(action.reason, action.detail)
            elif isinstance(action, Accept):
                assert client is not None
                self._counts.ended(takeover.path)
                return client, action.session_present
        return None

    async def _begin(self, begin: Begin) -> None:
        """Stop the old channel, wherever it is, and wait until everything it did is committed."""
        old, taker = begin.old, begin.taker
        if (old.node, old.epoch) == (taker.node, taker.epoch):
            await self._freeze.freeze(old, taker.channel)
        elif self._begin_elsewhere is not None and old.node != taker.node:
            await self._begin_elsewhere(old, taker)

    async def _commit(self, commit: Commit, retries: int, ends_us: int) -> CommitResult:
        """Ask the registry. Where another channel came in between, not at the same moment as its next try."""
        if retries and self._has_rivals and commit.expected_revision != NOBODY:
            chance = random.Random(f"{commit.registration.version.encode()} {retries}")
            await self._deadlines.pause(chance.randrange(_LONGEST_PAUSE_US))
        left_s = self._left_s(ends_us)
        if left_s <= 0:
            return _NO_TIME_LEFT
        return await self._registry.commit(commit.registration, commit.expected_revision, left_s)

    async def _read_newest(self, client_id: ClientId, ends_us: int) -> Registration | Unsettled | None:
        left_s = self._left_s(ends_us)
        return _NO_TIME_LEFT if left_s <= 0 else await self._registry.read_newest(client_id, left_s)

    def _left_s(self, ends_us: int) -> float:
        return (ends_us - self._deadlines.now_us()) / SECOND_US

    def _end(self, end: End) -> bool:
        """End the connection that is taken over; False if it had ended already."""
        old = self._connections.registered(end.old)
        if old is not None:
            old.registered = False  # the registry has the new one already
            self._connections.disconnect(old, SESSION_TAKEN_OVER, "a newer connection has the same client id")
        return old is not None


def _left(connection: ClientConnection, takeover: Takeover) -> list[Action]:
    """What follows if the client left while its takeover was waiting."""
    return takeover.abandon() if connection.channel.closed else []
