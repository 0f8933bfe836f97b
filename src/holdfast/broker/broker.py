"""The broker: puts the parts together, and stands between listeners and the path of messages.

To listeners it is the `ConnectionHandler`, to the exchange the `Control`; both contracts are met here and nowhere else.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final

import structlog

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.access.block_administration import BlockAdministration
from holdfast.broker.access.blocks import Blocks
from holdfast.broker.client_log import ClientLog
from holdfast.broker.connections.channel_freeze import ChannelFreeze
from holdfast.broker.connections.connect_handler import ConnectHandler
from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.connections.connections import ClientConnections
from holdfast.broker.connections.origin import Origin
from holdfast.broker.connections.rate_limits import ConnectRates, PublishRates
from holdfast.broker.connections.takeovers import Takeovers
from holdfast.broker.deadlines import Deadlines, PaceTimer
from holdfast.broker.external.queue_backends import QueueBackends
from holdfast.broker.policy import Policy
from holdfast.broker.sessions.session_administration import SessionAdministration
from holdfast.broker.sessions.session_recovery import SessionRecovery
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.broker.stores import Stores
from holdfast.broker.subscriptions.subscribe_handler import SubscribeHandler
from holdfast.exchange.client import BrokerClient, Channel, Link
from holdfast.exchange.drops import CONNECT_REFUSED, DROP_DENIED, DROP_UNREADABLE
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, CONNECT, PACKET_NAMES, V5
from holdfast.model.reasons import (
    ADMINISTRATIVE_ACTION,
    CONNECTION_RATE_EXCEEDED,
    DISCONNECT_WITH_WILL,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    SERVER_BUSY,
    SERVER_SHUTTING_DOWN,
    UNSPECIFIED_ERROR,
)
from holdfast.session.state import expiry_at_disconnect
from holdfast.wire.codec import decode
from holdfast.wire.connect import answer_version, connect_version, readable_properties
from holdfast.wire.packets import Connect, Disconnect, Subscribe, Unsubscribe

_log = structlog.get_logger()


class Broker:
    """A broker without listeners.

    `async with broker:` runs it: its tasks and deadlines live as long as that.
    """

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        authenticator: Authenticator,
        stores: Stores,
        blocks: Blocks | None = None,
    ) -> None:
        """Without `blocks` there are none at first, and they end with the broker."""
        self._policy: Final = policy
        self.clock: Final = clock
        self._authenticator: Final = authenticator
        self.blocks: Final = Blocks(None, clock) if blocks is None else blocks
        self.deadlines: Final = Deadlines(clock)
        self.retained: Final = stores.retained
        self._stored_sessions: Final = stores.sessions
        self._attach: Final = stores.attach
        self._deciding_log: Final = stores.deciding_log
        self.sync_counts: Final = stores.sync_counts
        self.segment_counts: Final = stores.segment_counts
        self.lake: Final = stores.lake
        self.exchange: Final = Exchange(
            self,
            PaceTimer(clock, self.deadlines, lambda client: self.exchange.pump(client)),
            exchange_settings(policy, stores, clock),
            stores.log,
            stores.retained,
            stores.delivered,
            stores.numbers,
            stores.drops,
        )
        self.queue_backends: Final = QueueBackends(self.exchange, stores, clock, self.deadlines)
        self.sessions: Final = BrokerSessions(self.exchange, policy, clock, self.deadlines, stores, self.queue_backends)
        self.administration: Final = SessionAdministration(self.exchange, self.sessions, stores.sessions, clock)
        self._recovery: Final = SessionRecovery(self.exchange, self.sessions, stores.sessions, clock)
        registry = stores.registry
        self._client_log: Final = ClientLog(self.deadlines)
        self.connections: Final = ClientConnections(
            self.exchange,
            self.sessions,
            registry,
            stores.life,
            policy,
            clock,
            self.deadlines,
            self._spawn,
            self._client_log,
        )
        self.block_administration: Final = BlockAdministration(self.blocks, self.connections, self.exchange)
        self.freeze: Final = ChannelFreeze(self.exchange, self.sessions, self.connections, self.deadlines)
        takeovers = Takeovers(
            stores,
            self.sessions,
            self.connections,
            self.freeze,
            policy,
            self.deadlines,
            self._client_log,
            self._spawn,
        )
        self._connecting: Final = ConnectHandler(
            self.exchange,
            self.sessions,
            self.connections,
            takeovers,
            authenticator,
            self.blocks,
            policy,
            self._client_log,
        )
        self._subscribing: Final = SubscribeHandler(self.exchange, self.sessions, policy, clock)
        self._connect_rates: Final = ConnectRates(policy.limits.connect_rate, clock)
        self._publish_rates: Final = PublishRates(policy.limits.publish_rate, self.exchange, self.deadlines)
        self._tasks: Final[set[asyncio.Task[object]]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "Broker":
        self._loop = asyncio.get_running_loop()
        self.deadlines.start(self._loop)
        if self._attach is not None:
            self._attach(self._loop.call_soon_threadsafe, self.exchange.committed)
        if self._deciding_log is None:
            await self._recovery.run()
        else:
            connections = self.connections
            self._deciding_log.attach(
                self.exchange.write_open, self.exchange.deliver, connections.replaced, connections.seen
            )
        self.queue_backends.start(self._loop)
        return self

    async def __aexit__(self, *_unused: object) -> None:
        self.deadlines.stop()
        self._client_log.close_window()
        await self.queue_backends.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def disconnect_all(self) -> None:
        """The node stops: every client is told, and wills are published as for any connection that ends."""
        for connection in self.connections:
            self.connections.disconnect(connection, SERVER_SHUTTING_DOWN, "the server is shutting down")
        self.exchange.run_iteration()

    def kick(self, session_id: str, detail: str) -> str:
        """End the connection of a session as an administrator does; from where it came, empty if there is none."""
        connection = self.connection_of(session_id)
        if connection is None:
            return ""
        self.connections.disconnect(connection, ADMINISTRATIVE_ACTION, detail)
        self.exchange.run_iteration()
        return connection.origin.address

    def end_session(self, session_id: str, detail: str) -> bool:
        """End a session as an administrator does, and its connection first; False if there is none.

        Fails as `SessionAdministration` does.
        """
        if not self.administration.check_end(session_id):
            return False
        connection = self.connection_of(session_id)
        if connection is not None:
            self.connections.disconnect(connection, ADMINISTRATIVE_ACTION, detail)
        self.administration.end(session_id)
        self.exchange.run_iteration()
        return True

    def session_count(self) -> int:
        """Sessions, connected and offline; those that are in memory alone count while there are more of them."""
        return max(len(self.sessions.clients), self._stored_sessions.count())

    def connection_of(self, session_id: str) -> ClientConnection | None:
        """The connection that a session has."""
        client = self.sessions.clients.get(session_id)
        return None if client is None or client.owner is None else self.connections.of(client.owner)

    def change_policy(self, policy: Policy) -> None:
        """Other settings hold from now on; rates concern open connections as well."""
        own = self._policy
        own.mqtt, own.limits, own.sessions = policy.mqtt, policy.limits, policy.sessions
        self.exchange.settings.max_retained = policy.limits.max_retained
        self.exchange.settings.backlog_rate = policy.sessions.backlog_rate
        self._connect_rates.per_second = policy.limits.connect_rate
        self._publish_rates.per_second = policy.limits.publish_rate
        for connection in self.connections:
            self._publish_rates.begin(connection.channel)

    def reload_access(self) -> None:
        """Read passwords and access rules again; who may not stay goes, the others get their new rights."""
        self._authenticator.reload()
        for connection in self.connections:
            if connection.channel.client is None:
                continue
            if not self._authenticator.may_stay(connection.origin, connection.user):
                self.connections.disconnect(connection, NOT_AUTHORIZED, "this user may not be here any more")
                continue
            access = self._authenticator.access_for(connection.client_id, connection.user)
            connection.access = connection.channel.access = access
            connection.channel.may_publish = None
        self.exchange.routes.clear()

    def _spawn(self, work: Coroutine[object, object, object]) -> None:
        rest = run_to_first_await(work)
        if rest is not None:
            assert self._loop is not None
            task = self._loop.create_task(_finish(rest))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the broker failed", exc_info=task.exception())

    # ---- ConnectionHandler: what listeners call

    def opened(self, link: Link, origin: Origin) -> Channel:
        self.exchange.counters.sockets += 1
        connection = self.connections.opened(link, origin)
        most = self._policy.limits.max_connections
        if most and len(self.connections) > most:
            error = PeerError(SERVER_BUSY, f"{most} connections are open, which is the limit")
            self.connections.refuse(connection, error)
        elif not self._connect_rates.allow(origin.address):
            error = PeerError(CONNECTION_RATE_EXCEEDED, "too many connections from this address")
            self.connections.refuse(connection, error)
        return connection.channel

    def received(self, channel: Channel, data: bytes) -> None:
        channel.heard_us = self.clock.monotonic_us()
        self.exchange.receive(channel, data)

    def unfinished(self, channel: Channel, size_bytes: int) -> None:
        channel.heard_us = self.clock.monotonic_us()
        channel.link_bytes = size_bytes
        self.exchange.note_unfinished(channel)

    def writable(self, channel: Channel, *, yes: bool) -> None:
        if channel.closed:
            return
        connection = self.connections.of(channel)
        if connection is not None and connection.takers:
            connection.socket_full = not yes  # it is sent nothing until it is thawed
            return
        channel.congested = not yes
        if not yes:
            # It does not read what it is sent, so what it sends can wait as well.
            self.exchange.flow.pause(channel)
            return
        self.exchange.flow.read_on(channel)
        if channel.client is not None:
            self.exchange.pump(channel.client)

    def lost(self, channel: Channel) -> None:
        connection = self.connections.of(channel)
        if connection is not None:
            self.connections.lost(connection)

    def refused(self, listener: str, address: str, event: str, why: str) -> None:
        self.exchange.counters.fail_handshake(event)
        detail = f"{event}: {why} (listener {listener}, from {address})"
        self.exchange.drops.note(CONNECT_REFUSED, "", b"", self.clock.wall_us(), detail=detail)
        self._client_log.info(event, "address", reason=listener, listener=listener, address=address, why=why)

    # ---- Control: what the exchange calls

    def internal_error(self, error: Exception) -> None:
        kind = type(error).__name__
        self._client_log.error("a bug came up on the path of messages", "kind", error=error, kind=kind)

    def schedule_iteration(self) -> None:
        if self._loop is not None:
            self._loop.call_soon(self.exchange.run_iteration)

    def queue_broken(self, client: BrokerClient, error: Exception) -> None:
        """A client whose queue cannot be read is told, instead of left without its messages."""
        client_id = client.session.client_id
        self._client_log.error("a client's queue cannot be used", "client", client=client_id, why=str(error))
        self.exchange.drops.note(
            DROP_UNREADABLE, client.session.client_id, b"", self.clock.wall_us(), detail=str(error)
        )
        connection = None if client.owner is None else self.connections.of(client.owner)
        if connection is not None:
            self.connections.disconnect(connection, UNSPECIFIED_ERROR, "the queue of this session cannot be read")

    def fenced(self, session_id: str) -> None:
        client = self.sessions.clients.get(session_id)
        if client is not None:
            self.connections.fence(client)
            self.sessions.fenced(client)

    def client_of(self, session_id: str) -> BrokerClient | None:
        return self.sessions.clients.get(session_id)

    def packet_begins(self, channel: Channel) -> None:
        connection = self.connections.of(channel)
        if connection is not None:
            self.connections.packet_begins(connection)

    def denied(self, channel: Channel, topic: bytes) -> None:
        connection = self.connections.of(channel)
        if connection is not None and connection.access is not None:
            why = connection.access.explain("publish", topic)
            self.exchange.drops.note(DROP_DENIED, connection.session_id, topic, self.clock.wall_us(), detail=why)
            self._client_log.info(
                "publish denied", "client", client=connection.client_id, topic=topic.decode(), why=why
            )

    def protocol_error(self, channel: Channel, error: PeerError) -> None:
        connection = self.connections.of(channel)
        if connection is None:
            return
        if channel.version == 0:
            channel.version = answer_version(channel.framer.current())
        elif channel.client is None and channel.version == V5:
            framer = channel.framer
            self.connections.note_answer_limits(connection, readable_properties(framer.data[framer.body : framer.end]))
        self.connections.disconnect(connection, error.reason, error.detail)

    def packet(self, channel: Channel, first: int, body: bytes) -> None:
        connection = self.connections.of(channel)
        assert connection is not None
        kind = first >> 4
        if kind == CONNECT:
            if channel.client is not None:  # [MQTT-3.1.0-2]
                raise PeerError(PROTOCOL_ERROR, "a second CONNECT")
            channel.version = connect_version(body)
            channel.framer.speak(channel.version)
        elif channel.client is None:  # [MQTT-3.1.0-1]
            raise PeerError(PROTOCOL_ERROR, "the first packet is not CONNECT")
        packet = decode(body, first, 0, len(body), channel.version, CLIENT)
        client = channel.client
        if isinstance(packet, Connect):
            channel.blocked = True
            if packet.version == V5:
                self.connections.note_answer_limits(connection, packet.properties)
            self.exchange.counters.connects += 1
            self._publish_rates.begin(channel)
            self._spawn(self._connecting.connect(connection, packet))
        elif client is None:
            raise PeerError(PROTOCOL_ERROR, "the first packet is not CONNECT")
        elif isinstance(packet, Subscribe):
            self._subscribing.subscribe(connection, client, packet)
        elif isinstance(packet, Unsubscribe):
            self._subscribing.unsubscribe(connection, client, packet)
        elif isinstance(packet, Disconnect):
            self._disconnect(connection, client, packet)
        else:  # [MQTT-4.12.0-7]: AUTH without an authentication method in CONNECT
            raise PeerError(PROTOCOL_ERROR, f"{PACKET_NAMES[kind]} was not expected")

    def _disconnect(self, connection: ClientConnection, client: BrokerClient, packet: Disconnect) -> None:
        """The client says goodbye [MQTT-3.14.4-3]."""
        asked_s = packet.properties.session_expiry_interval
        client.session.expiry_s = expiry_at_disconnect(client.session, asked_s, self._policy.mqtt.max_session_expiry_s)
        connection.parted = packet.reason != DISCONNECT_WITH_WILL
        # Whatever came before it is still acknowledged; whatever comes behind it is not read.
        connection.channel.blocked = True
        self.exchange.state.follow_up(connection.session_id, lambda: self.connections.close(connection, b""))


def exchange_settings(policy: Policy, stores: Stores, clock: Clock) -> ExchangeSettings:
    """What the exchange is told of the policy, and of what its stores can do."""
    mqtt = policy.mqtt
    return ExchangeSettings(
        max_qos=mqtt.max_qos,
        retain_available=mqtt.retain_available,
        max_topic_levels=mqtt.max_topic_levels,
        upgrade_outgoing_qos=mqtt.upgrade_outgoing_qos,
        check_payload_format=mqtt.check_payload_format,
        keeps_qos0=stores.keeps_qos0,
        goes_early=stores.goes_early,
        log_decides=stores.deciding_log is not None,
        vnodes=1 if stores.deciding_log is None else stores.deciding_log.vnode_count(),
        refuses_when_away=policy.sessions.on_queue_away == "refuse",
        backends=tuple(stores.queue_backends),
        # The clock as well as what is stored: a restored backup has an old ceiling, and queues ignore old numbers.
        first_outbox_number=max(stores.outbox.ceiling() + 1, clock.wall_us()),
        max_retained=policy.limits.max_retained,
        backlog_rate=policy.sessions.backlog_rate,
    )


async def _finish(rest: Awaitable[object]) -> object:
    return await rest


def run_to_first_await(work: Coroutine[Any, Any, object]) -> Awaitable[object] | None:
    """Run `work` until it waits; the rest, to be awaited in a task, or None if it is done.

    Most connects never wait: the client id is free, and no password is to be hashed. A task for each would cost a third
    of the whole connect.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return _Rest(work, waits_for)


class _Rest:
    """What remains of a coroutine that has begun; passes on what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, object], waits_for: object) -> None:
        self._work: Final = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, object]:
        while True:
            value: Any = None
            thrown: BaseException | None = None
            try:
                value = yield self._waits_for
            except BaseException as error:
                thrown = error
            try:
                self._waits_for = self._work.send(value) if thrown is None else self._work.throw(thrown)
            except StopIteration as done:
                return done.value
