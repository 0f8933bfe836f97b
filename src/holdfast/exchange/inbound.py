"""What clients send once per message: PUBLISH and the four acknowledgements.

QoS 0     deliver
QoS 1     commit ─▶ PUBACK, deliver (where a zone wants it, live clients before the commit: `EarlyDelivery`)
QoS 2     commit with the packet id ─▶ PUBREC, deliver;  PUBREL: forget the id ─▶ commit ─▶ PUBCOMP
"""

from typing import Final

from holdfast.durable.commit import MessageIds
from holdfast.durable.sessions.publish_numbers import MAX_NUMBER, PUBLISH_NUMBER, PublishNumbers, numbers_key
from holdfast.durable.sessions.session_store import DropIncoming, KeepIncoming, ReleaseInflight
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.control import Control
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.drops import DROP_AWAY, DROP_DENIED, DROP_NO_ROOM, DROP_PAYLOAD, DROP_REFUSED, DROP_RETAINED
from holdfast.exchange.external.external_queues import ExternalQueues
from holdfast.exchange.intake import Intake
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import PendingPublish
from holdfast.exchange.plans import DeliveryPlan, RoutingTable
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.errors import PeerError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import CLIENT, PACKET_NAMES, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5
from holdfast.model.reasons import (
    MALFORMED_PACKET,
    NO_MATCHING_SUBSCRIBERS,
    NOT_AUTHORIZED,
    PACKET_IDENTIFIER_NOT_FOUND,
    PAYLOAD_FORMAT_INVALID,
    PROTOCOL_ERROR,
    QOS_NOT_SUPPORTED,
    QUOTA_EXCEEDED,
    RECEIVE_MAXIMUM_EXCEEDED,
    RETAIN_NOT_SUPPORTED,
    SERVER_UNAVAILABLE,
    SUCCESS,
    TOPIC_ALIAS_INVALID,
    TOPIC_NAME_INVALID,
    UNSPECIFIED_ERROR,
)
from holdfast.model.time import SECOND_US
from holdfast.session.inflight import Window
from holdfast.topics.names import check_topic_name
from holdfast.topics.route_cache import MAX_CACHED_TOPIC_BYTES
from holdfast.wire.acks import decode_ack, encode_ack
from holdfast.wire.packets import Ack
from holdfast.wire.primitives import U16, ByteReader, encode_varint
from holdfast.wire.properties import decode_properties
from holdfast.wire.publish import RETAIN, PublishScan
from holdfast.wire.publish_properties import ALIAS_BYTES

#: A user property of this name, as it stands in the list of properties.
_NUMBERED: Final = b"\x26" + len(PUBLISH_NUMBER).to_bytes(2, "big") + PUBLISH_NUMBER.encode()
_PUBACK: Final = b"\x40\x02"
_PUBREC: Final = b"\x50\x02"
_PUBREL: Final = b"\x62\x02"
_PUBCOMP: Final = b"\x70\x02"
#: Topics a channel remembers the answer of the access rules for.
_REMEMBERED_TOPICS: Final = 1000


class Inbound:
    """Messages and acknowledgements from clients."""

    def __init__(
        self,
        state: LoopState,
        settings: ExchangeSettings,
        control: Control,
        routing: RoutingTable,
        intake: Intake,
        sender: Sender,
        external: ExternalQueues,
        numbering: PublishNumbers,
    ) -> None:
        self._state: Final = state
        self._settings: Final = settings
        self._log_decides: Final = settings.log_decides
        self._control: Final = control
        self._routing: Final = routing
        self._intake: Final = intake
        self._sender: Final = sender
        self._external: Final = external
        self.numbering: Final = numbering
        #: One for all connections: what it says holds until the next message.
        self._scan: Final = PublishScan()

    def publish(self, channel: Channel, client: BrokerClient) -> None:
        """The PUBLISH that the channel's framer stands on."""
        framer = channel.framer
        data = framer.data
        first = framer.first
        scan = self._scan
        scan.scan(data, first, framer.body, framer.end, channel.version, CLIENT)
        state = self._state
        state.counters.messages_in += 1
        if channel.publish_credit > 0:
            channel.publish_credit -= 1
        now_us = state.now_us
        topic = data[scan.topic_start : scan.topic_end]
        properties = b""
        expires_us = 0
        if scan.properties_start != scan.properties_end:
            found = scan.properties
            if found.alias:
                topic = self._resolve_alias(channel, found.alias, topic)
                cut = found.alias_at
                properties = data[scan.properties_start : cut] + data[cut + ALIAS_BYTES : scan.properties_end]
            else:
                properties = data[scan.properties_start : scan.properties_end]
            if found.expiry_s >= 0:
                expires_us = now_us + max(found.expiry_s * SECOND_US, 1)
        if channel.mount:
            check_topic_name(topic)
            topic = channel.mount + topic
        plan = self._routing.plan_for(topic)
        message = Message(
            topic,
            data[scan.payload_start : scan.end],
            scan.qos,
            ClientId(client.session.client_id),
            now_us,
            retain=first & RETAIN != 0,
            properties=properties,
            expires_us=expires_us,
        )
        refusal = self._judge(channel, plan, message)
        if scan.qos:
            self._take(channel, client, plan, message, refusal)
        elif refusal == SUCCESS:
            pending = PendingPublish(message, plan, client, None, b"")
            if channel.version != V5 and not message.retain and not channel.mount:
                pending.arrived_as(data[framer.start : framer.end])
            self._intake.pass_on(pending)

    def _judge(self, channel: Channel, plan: DeliveryPlan, message: Message) -> int:
        """SUCCESS, or why the message is not taken. PeerError for what ends the connection."""
        limits = self._settings
        if message.qos > limits.max_qos:  # [MQTT-3.2.2-11]
            raise PeerError(QOS_NOT_SUPPORTED, f"QoS {message.qos}; the server's maximum is {limits.max_qos}")
        if message.retain and not limits.retain_available:  # [MQTT-3.2.2-14]
            raise PeerError(RETAIN_NOT_SUPPORTED, "retained messages are switched off")
        if plan.levels > limits.max_topic_levels:
            raise PeerError(TOPIC_NAME_INVALID, f"more than {limits.max_topic_levels} topic levels")
        if plan.reserved:
            self._drop(DROP_DENIED, message, "topics of the broker's own cannot be published to")
            return NOT_AUTHORIZED
        if message.qos and self._intake.refusing:
            self._drop(DROP_NO_ROOM, message, "")
            if channel.version != V5:  # an acknowledgement is all that MQTT 3 could be told: so it is told nothing
                raise PeerError(self._intake.refusing, "there is no room to store messages at the moment")
            return self._intake.refusing
        if plan.external and message.qos and limits.refuses_when_away and self._external.is_away(plan):
            self._drop(DROP_AWAY, message, "")
            if channel.version != V5:
                raise PeerError(SERVER_UNAVAILABLE, "the queue of a subscriber cannot be reached at the moment")
            return QUOTA_EXCEEDED
        if channel.access is not None and not self._may_publish(channel, message.topic):
            return NOT_AUTHORIZED
        # MQTT 3 knows no refusal: the queue refuses it, which its client and the operator are told.
        refuses = plan.external and message.qos and channel.version == V5
        if refuses and self._external.is_full(plan, message.received_us):
            self._external.refuse(plan, message)
            return QUOTA_EXCEEDED
        if message.retain and not self._intake.may_retain(message.topic, message.payload, message.received_us):
            self._drop(DROP_RETAINED, message, "")
            return QUOTA_EXCEEDED
        claims_text = limits.check_payload_format and message.properties and self._scan.properties.utf8_payload
        if claims_text and not _is_utf8(message.payload):
            self._drop(DROP_PAYLOAD, message, "")
            return PAYLOAD_FORMAT_INVALID
        return SUCCESS

    def _drop(self, why: str, message: Message, detail: str) -> None:
        self._state.drops.drop(why, message.publisher, message, message.received_us, detail)

    def _take(self, channel: Channel, client: BrokerClient, plan: DeliveryPlan, message: Message, refusal: int) -> None:
        """QoS 1 and 2: into the open batch, with the acknowledgement that its receipt will release."""
        qos = message.qos
        packet_id = self._scan.packet_id
        incoming = client.session.incoming
        if qos == 2 and incoming is not None and packet_id in incoming:
            # Sent again: it was taken before [MQTT-4.3.3-10].
            self._state.after_commit(channel, _PUBREC + U16[packet_id])
            return
        # [MQTT-3.3.4-7]: no more unacknowledged messages than the server's receive maximum.
        if channel.version == V5 and _unacknowledged(channel, incoming) >= channel.receive_limit:
            raise PeerError(RECEIVE_MAXIMUM_EXCEEDED, f"more than {channel.receive_limit} messages unacknowledged")
        if refusal != SUCCESS:
            if message.properties and _NUMBERED in message.properties:
                topic = message.topic.decode()
                raise PeerError(refusal, f"the numbered message to {topic!r} is not taken, nor is any behind it")
            self._refuse(channel, qos, packet_id, refusal)
            return
        number = -1
        if message.properties and _NUMBERED in message.properties:
            number = publish_number(message.properties)
        if plan.empty and channel.version == V5 and not self._log_decides:
            frame = encode_ack(Ack(PUBACK if qos == 1 else PUBREC, packet_id, NO_MATCHING_SUBSCRIBERS), V5)
        else:
            frame = (_PUBACK if qos == 1 else _PUBREC) + U16[packet_id]
        if qos == 1:
            channel.receiving += 1
        else:
            client.session.take(packet_id)
            if client.stored() and not self._log_decides:
                self._state.step(KeepIncoming(client.session.client_id, packet_id))
        if self._log_decides:
            self._identify(client, packet_id if qos == 2 and client.stored() else 0, number)
        elif number >= 0 and not self.numbering.take(_numbered_as(client), number, self._state.batch):
            self._repeated(channel, qos, frame)
            return
        pending = PendingPublish(message, plan, client, channel, frame)
        pending.routes_version = self._routing.routes.version
        self._intake.accept(pending)

    def _identify(self, client: BrokerClient, packet_id: int, number: int) -> None:
        """The message that is taken next is decided together with its packet id and its number."""
        if packet_id or number >= 0:
            session = client.session
            user = session.user if number >= 0 and session.own_numbers else None
            batch = self._state.batch
            batch.ids[len(batch.messages)] = MessageIds(packet_id, number, user)

    def _repeated(self, channel: Channel, qos: int, frame: bytes) -> None:
        """It is stored already, or will be with this batch: say so, when it is."""
        self._state.counters.repeated += 1
        if qos == 1:
            channel.receiving -= 1
        self._state.after_commit(channel, frame)

    def _resolve_alias(self, channel: Channel, alias: int, topic: bytes) -> bytes:
        if alias > channel.alias_limit_in:  # [MQTT-3.3.2-9]
            raise PeerError(
                TOPIC_ALIAS_INVALID, f"topic alias {alias}; the server takes up to {channel.alias_limit_in}"
            )
        if topic:
            if channel.aliases_in is None:
                channel.aliases_in = {}
            channel.aliases_in[alias] = topic
            return topic
        known = None if channel.aliases_in is None else channel.aliases_in.get(alias)
        if known is None:
            raise PeerError(PROTOCOL_ERROR, f"topic alias {alias} stands for no topic yet")  # v5 3.3.4
        return known

    def _may_publish(self, channel: Channel, topic: bytes) -> bool:
        known = channel.may_publish
        if known is None:
            known = channel.may_publish = {}
        answer = known.get(topic)
        if answer is None:
            assert channel.access is not None
            answer = channel.access.may_publish(topic)
            if len(known) >= _REMEMBERED_TOPICS:
                known.clear()
            if len(topic) <= MAX_CACHED_TOPIC_BYTES:
                known[topic] = answer
        if not answer:
            self._state.counters.drop(DROP_DENIED)
            self._control.denied(channel, topic)
        return answer

    def _refuse(self, channel: Channel, qos: int, packet_id: int, reason: int) -> None:
        """MQTT 5 is told; MQTT 3 has no word for it and gets its acknowledgement, v3 [MQTT-3.3.5-2]."""
        kind = PUBACK if qos == 1 else PUBREC
        frame = encode_ack(Ack(kind, packet_id, reason if channel.version == V5 else SUCCESS), channel.version)
        self._state.after_commit(channel, frame)

    def acknowledge(self, channel: Channel, client: BrokerClient, kind: int) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP that the channel's framer stands on."""
        framer = channel.framer
        data = framer.data
        body = framer.body
        reason = SUCCESS
        packet_id = data[body] << 8 | data[body + 1] if framer.end - body == 2 else 0
        if packet_id == 0:  # the long form, or malformed
            packet = self._decode(channel, kind)
            packet_id = packet.packet_id
            reason = packet.reason
        window = client.session.window
        if kind == PUBACK:
            self._done(client, kind, packet_id, window.acknowledge(packet_id), reason)
        elif kind == PUBCOMP:
            owed = window.complete(packet_id) if window.is_released(packet_id) else None
            self._done(client, kind, packet_id, owed, SUCCESS)
        elif kind == PUBREC:
            self._received(channel, client, packet_id, reason)
        else:
            self._released(channel, client, packet_id)

    def _decode(self, channel: Channel, kind: int) -> Ack:
        framer = channel.framer
        reader = ByteReader(framer.data, framer.body, framer.end)
        packet = decode_ack(reader, kind, channel.version, CLIENT)
        if not reader.at_end():
            raise PeerError(MALFORMED_PACKET, f"{reader.end - reader.pos} bytes too many")
        return packet

    def _done(self, client: BrokerClient, kind: int, packet_id: int, owed: Owed | None, reason: int) -> None:
        """A message is acknowledged, or refused by its client; None if it was not in flight."""
        if owed is None:
            _check_unknown(client.session.window, kind, packet_id)
            return
        if reason >= UNSPECIFIED_ERROR:
            detail = f"reason 0x{reason:02X}"
            now_us = self._state.now_us
            self._state.drops.drop(DROP_REFUSED, client.session.client_id, owed.message, now_us, detail)
        self._sender.done(client, packet_id, owed)
        if not client.pump_due and client.waits_for_room():
            self._state.pump_soon(client)

    def _received(self, channel: Channel, client: BrokerClient, packet_id: int, reason: int) -> None:
        """PUBREC."""
        window = client.session.window
        if reason >= UNSPECIFIED_ERROR:  # [MQTT-4.4.0-2]
            self._done(client, PUBREC, packet_id, window.complete(packet_id), reason)
            return
        owed = window.release(packet_id)
        if owed is None:
            _check_unknown(window, PUBREC, packet_id)
        else:
            if owed.serial:
                client.queue.release(owed.serial)
            if client.stored():
                self._state.step(ReleaseInflight(client.session.client_id, packet_id))
        if owed is None and channel.version == V5:
            frame = encode_ack(Ack(PUBREL, packet_id, PACKET_IDENTIFIER_NOT_FOUND), V5)
        else:
            frame = _PUBREL + U16[packet_id]
        self._state.after_commit(channel, frame)

    def _released(self, channel: Channel, client: BrokerClient, packet_id: int) -> None:
        """PUBREL: the packet id may be used again [MQTT-4.3.3-11]."""
        frame = _PUBCOMP + U16[packet_id]
        if client.session.release(packet_id):
            if client.stored():
                self._state.step(DropIncoming(client.session.client_id, packet_id))
        elif channel.version == V5:
            frame = encode_ack(Ack(PUBCOMP, packet_id, PACKET_IDENTIFIER_NOT_FOUND), V5)
        self._state.after_commit(channel, frame)


def _unacknowledged(channel: Channel, incoming: dict[int, None] | None) -> int:
    """QoS 1 and 2 messages of a client that were taken and not acknowledged yet."""
    return channel.receiving if incoming is None else channel.receiving + len(incoming)


def _numbered_as(client: BrokerClient) -> str:
    """The name under which the last `publish-number` of its messages is kept."""
    session = client.session
    if session.user is None or not session.own_numbers:
        return session.client_id
    return numbers_key(session.client_id, session.user)


def _check_unknown(window: Window, kind: int, packet_id: int) -> None:
    """PeerError if the id is in flight and waits for another kind of acknowledgement.

    To ignore that would leave the message in the window, and a client with a window of 1 without messages
    (v3 [MQTT-4.8.0-1], [MQTT-4.13.1-1]). An id that is not in flight is tolerated: it may have been acknowledged twice.
    """
    owed = window.owed(packet_id)
    if owed is None:
        return
    wanted = PUBACK if owed.qos == 1 else PUBCOMP if window.is_released(packet_id) else PUBREC
    raise PeerError(
        PROTOCOL_ERROR,
        f"{PACKET_NAMES[kind]} for packet id {packet_id}, a QoS {owed.qos} message; {PACKET_NAMES[wanted]} is expected",
    )


def publish_number(properties: bytes) -> int:
    """The number that a message carries; -1 if it carries none. PeerError if it is no number."""
    data = encode_varint(len(properties)) + properties
    for name, value in decode_properties(ByteReader(data, 0, len(data)), PUBLISH, CLIENT).user_properties:
        if name == PUBLISH_NUMBER:
            if not value.isascii() or not value.isdigit() or int(value) > MAX_NUMBER:
                raise PeerError(
                    PROTOCOL_ERROR,
                    f"{PUBLISH_NUMBER} is {value[:40]!r}; a number from 0 to {MAX_NUMBER} would be right",
                )
            return int(value)
    return -1


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
