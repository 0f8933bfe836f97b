"""The connections of this node: accepted, watched, told to go, lost."""

from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Final, Protocol

from holdfast.broker.client_log import ClientLog
from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.connections.origin import Origin
from holdfast.broker.deadlines import Deadlines, TimerWheel
from holdfast.broker.policy import Policy
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.durable.takeover.registry import ChannelVersion, NodeLife, Registration, Registry, VersionClock
from holdfast.exchange.client import BrokerClient, Channel, Link
from holdfast.exchange.drops import CONNECT_REFUSED, DISCONNECTED, TAKEOVER
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.ids import ClientId
from holdfast.model.protocol import CONNACK, DISCONNECT, SERVER, V5, V311
from holdfast.model.reasons import (
    IMPLEMENTATION_SPECIFIC_ERROR,
    KEEP_ALIVE_TIMEOUT,
    SERVER_BUSY,
    SERVER_SHUTTING_DOWN,
    SERVER_UNAVAILABLE,
    SESSION_TAKEN_OVER,
    UNSPECIFIED_ERROR,
    USE_ANOTHER_SERVER,
    allowed_reasons,
    connack_v3,
)
from holdfast.wire.codec import encode
from holdfast.wire.framing import MAX_PACKET_BYTES
from holdfast.wire.packets import Connack, Disconnect
from holdfast.wire.properties import Properties

_TAKEN_OVER: Final = "a newer connection has the same client id"
#: Of a large packet, so much has to come in each time that it may take: 550 bytes a second with the default.
_PACKET_PROGRESS_BYTES: Final = 16 * 1024


class Admission(Protocol):
    """Which clients a node serves: one of a cluster may be unfit to, for all of them or for some."""

    def refusal(self, session_id: str) -> PeerError | None:
        """Why a session is not served here now; None if it is."""

    def server_reference(self) -> str:
        """Where else clients may go, as MQTT 5 names servers; empty if that is not told."""


class ConnectionWatch(Protocol):
    """Who is told of clients that come and go, while anybody watches them."""

    def changed(self, session_id: str) -> None:
        """A session has got a connection, or has lost it."""


class ClientConnections:
    """Every connection, from accept to close.

    1. A connection is here until it is lost, under the number that its channel carries.
    """

    def __init__(
        self,
        exchange: Exchange,
        sessions: BrokerSessions,
        registry: Registry,
        life: NodeLife,
        policy: Policy,
        clock: Clock,
        deadlines: Deadlines,
        spawn: Callable[[Coroutine[object, object, object]], None],
        client_log: ClientLog,
    ) -> None:
        self._exchange: Final = exchange
        self._log_decides: Final = exchange.settings.log_decides
        self._sessions: Final = sessions
        self._registry: Final = registry
        self._life: Final = life
        self._policy: Final = policy
        self._clock: Final = clock
        self._rounds: Final = TimerWheel[ClientConnection](deadlines, self._look)
        self._packets: Final = TimerWheel[ClientConnection](deadlines, self._look_at_packet)
        self._spawn: Final = spawn
        self._client_log: Final = client_log
        self._versions: Final = VersionClock(clock, life.node, epoch=life.epoch)
        self._by_number: Final[dict[int, ClientConnection]] = {}
        self._count = 0
        self.most = 0
        #: Connections whose CONNECT was accepted.
        self.clients = 0
        #: None without a watcher.
        self.watch: ConnectionWatch | None = None
        #: None: every client is served.
        self.admission: Admission | None = None

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._by_number.values()))

    def opened(self, link: Link, origin: Origin) -> ClientConnection:
        """A socket was accepted: it has a while to send its CONNECT."""
        self._count += 1
        channel = Channel(link, self._policy.mqtt.max_packet_size, self._count)
        now_us = channel.heard_us = self._clock.monotonic_us()
        connection = ClientConnection(channel, origin, self._count, self._versions.next())
        connection.opened_us = now_us
        self._by_number[self._count] = connection
        if len(self._by_number) > self.most:
            self.most = len(self._by_number)
        timeout_us = int(self._policy.limits.connect_timeout_s * 1_000_000)
        connection.tick = self._rounds.watch(connection, now_us, timeout_us)
        return connection

    def of(self, channel: Channel) -> ClientConnection | None:
        return self._by_number.get(channel.number)

    def registered(self, registration: Registration) -> ClientConnection | None:
        """The connection of a registered channel, if it is one of this life of this node and still here."""
        return self._by_number.get(registration.connection_id) if registration.is_of(self._life) else None

    def registration(self, connection: ClientConnection) -> Registration:
        """The channel as the registry is asked for it. Made when needed: there are as many as connections."""
        life = self._life
        session_id = ClientId(connection.session_id)
        return Registration(session_id, life.node, connection.number, connection.version, life.epoch)

    def accepted(self, connection: ClientConnection) -> None:
        """CONNECT was accepted: from now on the keep alive counts."""
        self.clients += 1
        if self.watch is not None:
            self.watch.changed(connection.session_id)
        self._rounds.forget(connection, connection.tick)
        connection.tick = 0
        if connection.keep_alive_us:
            self._watch(connection)

    def _look(self, connection: ClientConnection) -> None:
        """The time has come that a connection may be silent at most."""
        connection.tick = 0
        if connection.channel.client is not None:
            self._watch(connection)
        elif not connection.channel.blocked:
            self._client_log.info("no CONNECT came in time", "address", address=connection.origin.address)
            self.close(connection, b"")

    def _watch(self, connection: ClientConnection) -> None:
        """Look again when the client would have been silent for too long [MQTT-3.1.2-22]."""
        now_us = self._clock.monotonic_us()
        if connection.channel.reading_paused:
            connection.channel.heard_us = now_us  # it is not its silence, we do not listen
        silent_us = now_us - connection.channel.heard_us
        left_us = connection.keep_alive_us - silent_us
        if left_us > 0:
            connection.tick = self._rounds.watch(connection, now_us, left_us)
        elif not connection.channel.closed:
            allowed_s = connection.keep_alive_us / 1_000_000
            self.disconnect(
                connection,
                KEEP_ALIVE_TIMEOUT,
                f"nothing came for {allowed_s:g} s, which is one and a half times the keep alive",
            )

    def packet_begins(self, connection: ClientConnection) -> None:
        """A packet has begun: look whether it is complete when its time is over."""
        timeout_us = self._packet_timeout_us()
        if timeout_us == 0:
            connection.channel.watched = False
            return
        connection.packet_tick = self._packets.watch(connection, connection.channel.begun_us, timeout_us)

    def _packet_timeout_us(self) -> int:
        return int(self._policy.limits.packet_timeout_s * 1_000_000)

    def _look_at_packet(self, connection: ClientConnection) -> None:
        """The time of a packet is over, unless it was completed and it is another one that has begun.

        A large packet over a slow network goes on, as long as enough of it comes in each time.
        """
        connection.packet_tick = 0
        channel = connection.channel
        timeout_us = self._packet_timeout_us()
        if channel.begun < 0 or timeout_us == 0 or channel.closed:
            channel.watched = False
            return
        now_us = self._clock.monotonic_us()
        came_bytes = channel.unfinished_bytes()
        if channel.reading_paused or channel.client is None:
            channel.begun_us = now_us  # we do not listen; or the time for its CONNECT counts
        elif now_us - channel.begun_us >= timeout_us:
            if came_bytes - channel.begun_bytes < _PACKET_PROGRESS_BYTES:
                self.disconnect(
                    connection,
                    IMPLEMENTATION_SPECIFIC_ERROR,
                    f"a packet is not complete {timeout_us / 1_000_000:g} s after it began, {came_bytes} bytes of it "
                    "came (limits.packet_timeout_s)",
                )
                return
            channel.begun_bytes = came_bytes
            channel.begun_us = now_us
        connection.packet_tick = self._packets.watch(connection, channel.begun_us, timeout_us)

    # ---- endings

    def refusal(self, session_id: str) -> PeerError | None:
        """Why a session is not served here now; None if it is."""
        return None if self.admission is None else self.admission.refusal(session_id)

    def send_away(self, most: int) -> int:
        """Disconnect clients that are not served here any more, at most so many; how many these were."""
        refused = ((one, self.refusal(one.session_id)) for one in self if one.session_id)
        found = list(islice(((one, error) for one, error in refused if error is not None), most))
        for connection, error in found:
            self.disconnect(connection, error.reason, error.detail)
        return len(found)

    def _server_reference(self, reason: int) -> str | None:
        if reason != USE_ANOTHER_SERVER or self.admission is None:
            return None
        return self.admission.server_reference() or None

    def refuse(self, connection: ClientConnection, error: PeerError) -> None:
        """CONNECT is not accepted."""
        if connection.channel.closed:
            return
        self._exchange.counters.refuse(error.reason)
        self._note(CONNECT_REFUSED, connection, str(error))
        client_id, address, why = connection.client_id, connection.origin.address, str(error)
        # By address: a client id that is refused may be any text.
        self._client_log.info("refused", "address", reason=error.reason, client=client_id, address=address, why=why)
        frame = _refusal(connection, error, self._server_reference(error.reason))
        self.close(connection, frame)

    def note_answer_limits(self, connection: ClientConnection, asked: Properties) -> None:
        """What an MQTT 5 client says in CONNECT of the answers it takes; it holds for the CONNACK as well."""
        size = asked.maximum_packet_size or MAX_PACKET_BYTES
        connection.channel.max_packet_bytes = min(size, MAX_PACKET_BYTES)  # [MQTT-3.1.2-24]
        connection.explain = asked.request_problem_information != 0  # [MQTT-3.1.2-29]

    def disconnect(self, connection: ClientConnection, reason: int, detail: str) -> None:
        """The server ends a connection: MQTT 5 clients are told why."""
        channel = connection.channel
        if channel.closed:
            return
        if channel.client is None or channel.client.channel is not channel:  # no DISCONNECT before CONNACK
            self.refuse(connection, PeerError(reason, detail))
            return
        self._exchange.counters.refuse(reason)
        if reason != SERVER_SHUTTING_DOWN:  # all clients are told that, and none asks why
            self._note(TAKEOVER if reason == SESSION_TAKEN_OVER else DISCONNECTED, connection, detail)
        client_id, address = connection.client_id, connection.origin.address
        self._client_log.info("disconnected", "client", reason=reason, client=client_id, address=address, why=detail)
        self.close(connection, _goodbye(connection, PeerError(reason, detail), self._server_reference(reason)))

    def _note(self, reason: str, connection: ClientConnection, detail: str) -> None:
        name = connection.session_id or connection.client_id
        where = f"{detail} (from {connection.origin.address})"
        self._exchange.drops.note(reason, name, b"", self._clock.wall_us(), detail=where)

    def fence(self, client: BrokerClient) -> None:
        """Close the connection of a session that another channel owns, and leave nothing behind for the session."""
        channel, begun = client.owner, client.channel
        client.owner = client.channel = None
        connection = None if channel is None else self.of(channel)
        if connection is not None:
            connection.registered = False
            # A node that is no member any more, or has stopped, loses its sessions without a newer connection.
            error = self.refusal(connection.session_id)
            if begun is not channel:  # no DISCONNECT before CONNACK
                self.refuse(connection, error or PeerError(SERVER_BUSY, _TAKEN_OVER))
                return
            error = error or PeerError(SESSION_TAKEN_OVER, _TAKEN_OVER)
            self._note(TAKEOVER if error.reason == SESSION_TAKEN_OVER else DISCONNECTED, connection, error.detail)
            connection.channel.out = None  # nothing but the goodbye is sent
            self.close(connection, _goodbye(connection, error, self._server_reference(error.reason)))

    def close(self, connection: ClientConnection, frame: bytes) -> None:
        """Send a last frame and close; the session is left behind at once, not when the socket is gone."""
        channel = connection.channel
        if channel.closed:
            return
        if frame:
            channel.put(frame)
        channel.closed = True
        data = channel.take_out()
        if data:
            channel.link.write(data)
        channel.link.close()
        self.lost(connection)

    def lost(self, connection: ClientConnection) -> None:
        """The connection is gone, whichever side ended it: leave its session as the rules say."""
        channel = connection.channel
        channel.closed = True
        if self._by_number.pop(connection.number, None) is None:
            return
        self._rounds.forget(connection, connection.tick)
        self._packets.forget(connection, connection.packet_tick)
        self._exchange.acks.forget(channel)
        client, channel.client = channel.client, None
        if client is not None:
            self.clients -= 1
            if self.watch is not None:
                self.watch.changed(connection.session_id)
        if client is not None and client.owner is channel:
            will = connection.will
            if will is not None and not connection.parted:
                self._sessions.leave_will(client, will)
            self._sessions.detach(client)
        if connection.registered:
            self._spawn(self._release(connection))

    def withdraw(self, registration: Registration) -> None:
        """Take a channel out that is not, or may not be, let in. Nothing waits for it."""
        self._spawn(self._registry.remove(registration))

    async def _release(self, connection: ClientConnection) -> None:
        if self._log_decides:
            # Behind the last steps of its session, which would not count any more, and in front of the claim of a
            # connection that comes next: that one would find a will without the goodbye.
            self._exchange.write_open()
        await self._registry.remove(self.registration(connection), goodbye=connection.parted)

    def seen(self, version: tuple[int, int, int]) -> None:
        """A channel of this version has connected, at any node: those that connect here from now on are newer."""
        self._versions.seen(ChannelVersion(*version))

    def replaced(self, session_id: str, channel: tuple[int, int, int]) -> None:
        """A claim has taken the place of a channel, of this node or another: it is told, and writes nothing more."""
        node, epoch, number = channel
        if (node, epoch) != (self._life.node, self._life.epoch):
            return
        connection = self._by_number.get(number)
        if connection is not None and connection.session_id == session_id:
            connection.registered = False
            client = connection.channel.client
            if client is not None and client.owner is connection.channel:
                self.fence(client)
                self._sessions.fenced(client)
            else:
                # It waits for its CONNACK, which knows no "taken over".
                self.refuse(connection, PeerError(SERVER_BUSY, _TAKEN_OVER))


def _refusal(connection: ClientConnection, error: PeerError, reference: str | None) -> bytes:
    """The CONNACK that refuses; empty where the standard has the connection just closed."""
    reason, channel = error.reason, connection.channel
    version = channel.version
    if version == 0:
        return b""
    if version == V5:
        if reason == SERVER_SHUTTING_DOWN:
            reason = SERVER_UNAVAILABLE  # what CONNACK has for it
        reason = reason if reason in allowed_reasons(CONNACK, SERVER) else UNSPECIFIED_ERROR
        why = error.detail if connection.explain else None
        frame = encode(Connack(reason, properties=Properties(reason_string=why, server_reference=reference)), V5)
        if len(frame) > channel.max_packet_bytes:  # [MQTT-3.2.2-19]
            frame = encode(Connack(reason), V5)
        return frame if len(frame) <= channel.max_packet_bytes else b""  # [MQTT-3.1.2-24]
    code = connack_v3(reason)
    return encode(Connack(code), V311) if code > 0 else b""


def _goodbye(connection: ClientConnection, error: PeerError, reference: str | None) -> bytes:
    """The DISCONNECT that a server sends before it closes; MQTT 3 has none."""
    reason, channel = error.reason, connection.channel
    if channel.version != V5:
        return b""
    if reason == SERVER_UNAVAILABLE:
        reason = SERVER_BUSY  # what DISCONNECT has for it
    reason = reason if reason in allowed_reasons(DISCONNECT, SERVER) else UNSPECIFIED_ERROR
    why = error.detail if connection.explain and error.detail else None
    frame = encode(Disconnect(reason, Properties(reason_string=why, server_reference=reference)), V5)
    if len(frame) > channel.max_packet_bytes:  # [MQTT-3.14.2-3]
        frame = encode(Disconnect(reason), V5)
    return frame if len(frame) <= channel.max_packet_bytes else b""  # [MQTT-3.1.2-24]
