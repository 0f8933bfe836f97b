"""From CONNECT to CONNACK: who it is, whether it is the newest of its client id, and which session it gets."""

import secrets
from typing import Final

from holdfast.broker.access.authenticator import Authenticator, Refused
from holdfast.broker.access.blocks import Blocks, describe_block
from holdfast.broker.client_log import ClientLog
from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.connections.connections import ClientConnections
from holdfast.broker.connections.takeovers import Takeovers
from holdfast.broker.policy import OWNER_ANY, Policy
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.broker.sessions.wills import stored_will
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.plans import is_reserved
from holdfast.model.errors import PeerError
from holdfast.model.protocol import MAX_U16, V5, V311
from holdfast.model.reasons import (
    BAD_AUTHENTICATION_METHOD,
    BANNED,
    CLIENT_IDENTIFIER_NOT_VALID,
    IMPLEMENTATION_SPECIFIC_ERROR,
    NOT_AUTHORIZED,
    PACKET_TOO_LARGE,
    QOS_NOT_SUPPORTED,
    RETAIN_NOT_SUPPORTED,
    SUCCESS,
    TOPIC_NAME_INVALID,
    UNSPECIFIED_ERROR,
)
from holdfast.model.time import SECOND_US
from holdfast.session.state import expiry_asked
from holdfast.topics.names import SEPARATOR, check_topic_name
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Connect, Will
from holdfast.wire.properties import NO_PROPERTIES, Properties

#: CONNACK in MQTT 3.1.1 has two forms: without a session, and with one.
_CONNACKS_V311: Final = (encode(Connack(SUCCESS, False), V311), encode(Connack(SUCCESS, True), V311))
#: Behind the largest time that a version can have: 2^63 ms.
_MAX_TIME_DIGITS: Final = 18


class ConnectHandler:
    """Brings clients in."""

    def __init__(
        self,
        exchange: Exchange,
        sessions: BrokerSessions,
        connections: ClientConnections,
        takeovers: Takeovers,
        authenticator: Authenticator,
        blocks: Blocks,
        policy: Policy,
        client_log: ClientLog,
    ) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._sessions: Final = sessions
        self._connections: Final = connections
        self._takeovers: Final = takeovers
        self._authenticator: Final = authenticator
        self._blocks: Final = blocks
        self._policy: Final = policy
        self._client_log: Final = client_log

    async def connect(self, connection: ClientConnection, packet: Connect) -> None:
        """Bring a client in, or tell it why not."""
        try:
            self._check(packet)
            self._take_client_time(connection, packet)
            await self._authenticate(connection, packet)
            refusal = self._connections.refusal(connection.session_id)
            if refusal is not None:
                raise refusal
            self._check_owner(connection)  # before it waits: only clients of one user take turns
            terms = self._terms(connection, packet)
            takeovers = self._takeovers
            ends_us = takeovers.ends_us()
            waits = takeovers.waits(connection)
            await takeovers.enter(connection)
            try:
                if not connection.channel.closed:
                    if waits:
                        self._check_owner(connection)  # again: the session may have begun meanwhile
                    taken = await takeovers.take_over(
                        connection, clean_start=packet.clean_start, persistent=terms.expiry_s > 0, ends_us=ends_us
                    )
                    if taken is not None:
                        self._accept(connection, taken[0], packet, terms, session_present=taken[1])
            finally:
                takeovers.leave(connection)
        except PeerError as refusal:
            self._connections.refuse(connection, refusal)
        except Exception as bug:
            self._client_log.error("a connect failed", "address", error=bug, address=connection.origin.address)
            error = PeerError(UNSPECIFIED_ERROR, "an internal error; see the server's log")
            self._connections.refuse(connection, error)

    def _check(self, packet: Connect) -> None:
        mqtt = self._policy.mqtt
        if packet.properties.authentication_method is not None:  # [MQTT-4.12.0-1]
            raise PeerError(BAD_AUTHENTICATION_METHOD, "no extended authentication is offered here")
        if not packet.client_id and not mqtt.allow_zero_length_client_id:
            raise PeerError(CLIENT_IDENTIFIER_NOT_VALID, "a client id is required")
        will = packet.will
        if will is not None:
            if will.qos > mqtt.max_qos:  # [MQTT-3.2.2-12]
                raise PeerError(QOS_NOT_SUPPORTED, f"will QoS {will.qos}; the server's maximum is {mqtt.max_qos}")
            if will.retain and not mqtt.retain_available:  # [MQTT-3.2.2-13]
                raise PeerError(RETAIN_NOT_SUPPORTED, "retained messages are switched off")

    def _take_client_time(self, connection: ClientConnection, packet: Connect) -> None:
        """The time at which the client says that it connected, if a property for that is set and sent."""
        name = self._policy.registry.version_property
        if not name:
            return
        for key, value in packet.properties.user_properties:
            if key == name:
                if not value.isascii() or not value.isdigit() or len(value) > _MAX_TIME_DIGITS:
                    raise PeerError(
                        IMPLEMENTATION_SPECIFIC_ERROR,
                        f"the user property {name!r} is {value[:40]!r}; right would be the time in ms since 1970, such "
                        "as 1767225600000",
                    )
                connection.version = connection.version.at_client_time(int(value))
                return

    def _check_blocks(self, connection: ClientConnection) -> None:
        """A client that an administrator has blocked is refused: by what is known of it so far."""
        if self._blocks.in_force.is_empty:
            return
        block = self._blocks.find(connection.session_id, connection.user, connection.origin.address)
        if block is not None:
            raise PeerError(BANNED, describe_block(block))

    async def _authenticate(self, connection: ClientConnection, packet: Connect) -> None:
        connection.client_id = packet.client_id  # so that a refusal can be explained
        connection.bridge = packet.bridge
        self._check_blocks(connection)  # by its address, before its password costs anything
        verdict = await self._authenticator.authenticate(
            connection.origin,
            packet.client_id,
            packet.user_name,
            packet.password,
            lambda: connection.channel.closed,
        )
        if isinstance(verdict, Refused):
            raise PeerError(verdict.reason, verdict.detail)
        connection.user = verdict.user
        connection.client_id = packet.client_id or f"auto-{secrets.token_hex(12)}"
        channel = connection.channel
        mount_point = connection.origin.mount_point
        channel.mount = mount_point.encode()
        # U+0000 cannot stand in a client id, so no id without a mount point reads like one with it.
        connection.session_id = f"{mount_point}\0{connection.client_id}" if mount_point else connection.client_id
        self._check_blocks(connection)
        self._give_rights(connection)
        if packet.will is not None:
            self._check_will_topic(connection, packet.will)

    def _check_owner(self, connection: ClientConnection) -> None:
        """A session is its user's: another user neither gets nor ends it, nor the connection that it has."""
        rules = self._policy.sessions
        owner = None if rules.owner == OWNER_ANY else self._sessions.owner(connection.session_id)
        if owner is None or owner == connection.owner:
            return
        user = connection.owner
        self._client_log.info("session of another user", "client", client=connection.client_id, user=user, owner=owner)
        reason = NOT_AUTHORIZED if rules.owner_refusal == "not_authorized" else CLIENT_IDENTIFIER_NOT_VALID
        who = repr(connection.owner) if connection.owner else "a client without a user name"
        raise PeerError(reason, f"client id {connection.client_id!r} has a session of another user than {who}")

    def _give_rights(self, connection: ClientConnection) -> None:
        access = self._authenticator.access_for(connection.client_id, connection.user)
        connection.access = connection.channel.access = access

    def _check_will_topic(self, connection: ClientConnection, will: Will) -> None:
        """What could not be published by the client is not published as its will."""
        topic = connection.channel.mount + will.topic.encode()
        check_topic_name(topic)
        most = self._policy.mqtt.max_topic_levels
        if topic.count(SEPARATOR) >= most:
            raise PeerError(TOPIC_NAME_INVALID, f"the will's topic has more than {most} levels")
        access = connection.access
        if is_reserved(topic) or (access is not None and not access.may_publish(topic)):
            raise PeerError(NOT_AUTHORIZED, f"the will's topic {will.topic!r} is not allowed")

    def _accept(
        self,
        connection: ClientConnection,
        client: BrokerClient,
        packet: Connect,
        terms: "_Terms",
        *,
        session_present: bool,
    ) -> None:
        """The client is in: attach it, answer, send what waits for it."""
        self._give_rights(connection)  # again: they may have changed while this waited
        mqtt = self._policy.mqtt
        channel = connection.channel
        asked = packet.properties
        if packet.version == V5:
            channel.alias_limit_out = min(asked.topic_alias_maximum or 0, mqtt.topic_alias_maximum)
            channel.alias_limit_in = mqtt.topic_alias_maximum
            channel.receive_limit = mqtt.receive_maximum
        channel.settle()
        connection.will = None if packet.will is None else stored_will(packet.will, channel.mount)
        connection.keep_alive_us = terms.keep_alive_s * SECOND_US * 3 // 2
        inflight = min(asked.receive_maximum or MAX_U16, mqtt.max_inflight)
        expiry_s = terms.expiry_s
        will = connection.will
        user = connection.owner
        self._sessions.attach(client, channel, user=user, expiry_s=expiry_s, inflight=inflight, will=will)
        frame = terms.connack(packet.version, session_present=session_present)
        self._connections.accepted(connection)
        self._state.after_commit(channel, frame, lambda: self._begin(connection, client))

    def _begin(self, connection: ClientConnection, client: BrokerClient) -> None:
        """CONNACK is on its way: now the rest may follow."""
        if client.owner is connection.channel:
            self._sessions.begin(client, connection.channel)
        if not connection.takers:
            self._exchange.resume(connection.channel)

    def _keep_alive_s(self, packet: Connect) -> int:
        """The keep alive that holds: the client's, unless the server sets or bounds it for MQTT 5."""
        mqtt = self._policy.mqtt
        asked_s = packet.keep_alive_s
        if packet.version == V5 and mqtt.server_keepalive:
            return mqtt.server_keepalive
        if mqtt.max_keepalive == 0 or 0 < asked_s <= mqtt.max_keepalive:
            return asked_s
        if packet.version != V5:
            # It cannot be told another keep alive, and would be cut off again and again. As Mosquitto does.
            asked = f"a keep alive of {asked_s} s" if asked_s else "no keep alive"
            raise PeerError(
                CLIENT_IDENTIFIER_NOT_VALID,
                f"the client asks for {asked}, mqtt.max_keepalive is {mqtt.max_keepalive} s, and MQTT 3 has no way to "
                "tell it so; set a shorter keep alive in the client",
            )
        return mqtt.max_keepalive

    def _terms(self, connection: ClientConnection, packet: Connect) -> "_Terms":
        """What the client is let in with; PeerError if it could not be told, before anything of its session changes."""
        mqtt = self._policy.mqtt
        expiry_s = expiry_asked(packet, mqtt.max_session_expiry_s)
        keep_alive_s = self._keep_alive_s(packet)
        if packet.version != V5:
            return _Terms(expiry_s, keep_alive_s, NO_PROPERTIES)
        asked_expiry_s = packet.properties.session_expiry_interval or 0
        properties = Properties(
            session_expiry_interval=None if expiry_s == asked_expiry_s else expiry_s,
            receive_maximum=None if mqtt.receive_maximum == MAX_U16 else mqtt.receive_maximum,
            maximum_qos=None if mqtt.max_qos == 2 else mqtt.max_qos,
            retain_available=None if mqtt.retain_available else 0,
            maximum_packet_size=mqtt.max_packet_size,
            assigned_client_identifier=None if packet.client_id else connection.client_id,  # [MQTT-3.2.2-16]
            topic_alias_maximum=mqtt.topic_alias_maximum or None,
            wildcard_subscription_available=None if mqtt.wildcards_available else 0,
            shared_subscription_available=None if mqtt.shared_available else 0,
            server_keep_alive=None if keep_alive_s == packet.keep_alive_s else keep_alive_s,
        )
        terms = _Terms(expiry_s, keep_alive_s, properties)
        size = len(terms.connack(V5, session_present=False))
        most = connection.channel.max_packet_bytes
        if size > most:  # [MQTT-3.1.2-24]
            raise PeerError(
                PACKET_TOO_LARGE, f"CONNACK would have {size} bytes, and the client's Maximum Packet Size is {most}"
            )
        return terms


class _Terms:
    """What a client is let in with, and the CONNACK that says so."""

    def __init__(self, expiry_s: int, keep_alive_s: int, properties: Properties) -> None:
        self.expiry_s: Final = expiry_s
        self.keep_alive_s: Final = keep_alive_s
        self._properties: Final = properties

    def connack(self, version: int, *, session_present: bool) -> bytes:
        if version == V311:
            return _CONNACKS_V311[session_present]
        return encode(Connack(SUCCESS, session_present, self._properties), version)
