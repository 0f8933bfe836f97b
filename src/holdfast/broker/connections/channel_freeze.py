"""Begin of a takeover: the old channel stops, so that nothing it does comes twice to the client.

    freeze ──▶ packets wait, no messages are sent ──▶ what it did is committed, its progress as well ──▶ begun
       │
       └─▶ thaw: the taker gave up, or 5 s have passed (in a cluster)

Begin saves repetitions; nothing rests on it. In a cluster the claim of the taker fences the old channel, frozen or not:
so a channel that is gone, or whose commits take longer than a second, counts as begun. On one node both share the
session in memory, and the taker waits for the commits.
"""

import asyncio
from functools import partial
from typing import Final

from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.connections.connections import ClientConnections
from holdfast.broker.deadlines import Deadlines
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.durable.takeover.registry import Registration
from holdfast.exchange.exchange import Exchange
from holdfast.model.time import SECOND_US

#: In a cluster: how long begin waits for the commits of the old channel.
BEGIN_US: Final = SECOND_US
#: In a cluster: after which a channel goes on by itself, if no claim has replaced it.
THAW_US: Final = 5 * SECOND_US

#: A channel: node, epoch, connection.
ChannelName = tuple[int, int, int]


class ChannelFreeze:
    """Freezes and thaws the channels of this node."""

    def __init__(
        self, exchange: Exchange, sessions: BrokerSessions, connections: ClientConnections, deadlines: Deadlines
    ) -> None:
        self._exchange: Final = exchange
        self._log_decides: Final = exchange.settings.log_decides
        self._sessions: Final = sessions
        self._connections: Final = connections
        self._deadlines: Final = deadlines

    async def freeze(self, old: Registration, taker: ChannelName) -> bool:
        """Stop a channel for a taker, and wait until everything it did is committed; False if there is no such one."""
        connection = self._connections.registered(old)
        if connection is None or connection.session_id != old.client_id:
            return False
        channel = connection.channel
        if not connection.takers:
            connection.socket_full = channel.congested
        connection.takers = (*connection.takers, taker)
        channel.blocked = channel.congested = True
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle() -> None:
            if not begun.done():
                begun.set_result(None)

        if self._log_decides:
            if channel.client is not None and channel.client.owner is channel:
                self._sessions.save_progress(channel.client)
            self._deadlines.after(THAW_US, partial(self._thaw, connection, taker))
        self._exchange.state.follow_up(connection.session_id, settle)
        limit = self._deadlines.after(BEGIN_US, settle) if self._log_decides else None
        await begun
        if limit is not None:
            limit.cancel()
        return True

    def thaw(self, old: Registration, taker: ChannelName) -> None:
        """A taker does not replace a channel: it goes on, unless another taker holds it."""
        connection = self._connections.registered(old)
        if connection is not None:
            self._thaw(connection, taker)

    def _thaw(self, connection: ClientConnection, taker: ChannelName) -> None:
        if taker not in connection.takers:
            return
        connection.takers = tuple([other for other in connection.takers if other != taker])
        channel = connection.channel
        if connection.takers or channel.closed:
            return
        channel.congested = connection.socket_full
        self._exchange.resume(channel)
        if channel.client is not None and not channel.congested:
            self._exchange.pump(channel.client)
