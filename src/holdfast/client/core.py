"""An MQTT client without I/O: the state machine that both shells drive. Pure; MQTT 3.1.1 and 5.

                       ┌────────────────────── ClientCore ──────────────────────┐
    bytes received ──▶ │ framing ─▶ packets ─▶ ClientState ─▶ packets ─▶ output │ ──▶ records to store, bytes to send
    calls, the time ─▶ │                 └─▶ events                             │ ──▶ events for the caller
                       └────────────────────────────────────────────────────────┘

    offline ── connect ──▶ connecting ── CONNACK ──▶ connected ──▶ offline        connection_lost, from any state

Rules:
    1. `take_output` gives records and bytes. The records have to be stored first, durably if it says so; then the bytes
       may be sent. See `state` for the reasons.
    2. Messages are sent in the order of `publish`, also when they are sent again. At most the broker's receive maximum
       of them are unacknowledged [MQTT-3.3.4-9]; the rest waits, in its order.
    3. After a connection that resumed the session, what is not acknowledged is sent again with DUP, and PUBREL for
       what is released [MQTT-4.4.0-1]. If the broker has lost the session, it is sent as new.
    4. A received message is acknowledged when the caller says so. A QoS 2 message is handed over once.
    5. An error is an event, the last one: what was received before it has been handled.
    6. Time comes from outside: `tick` is due at `deadline_s`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.client.errors import (
    ConnectionEnded,
    Event,
    LostError,
    MessageRefused,
    RefusedError,
    connect_refusal,
    disconnect_error,
    publish_refusal,
)
from holdfast.client.message import OutgoingMessage
from holdfast.client.state import MAX_OFFSET_BYTES, ClientState
from holdfast.client.subscriptions import ClientSubscriptions
from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import MAX_U16, PUBACK, PUBCOMP, PUBREC, PUBREL, QOS_1, QOS_2, SERVER, V5
from holdfast.model.reasons import SUCCESS, UNSPECIFIED_ERROR
from holdfast.topics.filters import TopicFilter
from holdfast.wire.codec import PINGREQ_FRAME, decode, encode
from holdfast.wire.framing import MAX_PACKET_BYTES, Framer
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.wire.primitives import encode_varint
from holdfast.wire.properties import NO_PROPERTIES, Properties
from holdfast.wire.publish import DUP, RETAIN, frame_publish

#: Messages without acknowledgement, in each direction; brokers may ask for fewer.
WINDOW_MESSAGES: Final = 1000
#: An MQTT 3 broker cannot say how many it takes, and some drop what is too much. This is Mosquitto's default.
_WINDOW_MESSAGES_V3: Final = 20
#: Unacknowledged messages are kept, because they may have to be sent again; large ones are therefore fewer.
MAX_UNACKED_BYTES: Final = 16 << 20
#: Keep alive intervals of silence after which a broker is given up, as brokers do with clients [MQTT-3.1.2-22].
_SILENCE: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Who the client is, and what it asks of the session."""

    #: Protocol level: V311 or V5.
    version: int = V5
    client_id: str = ""
    clean_start: bool = True
    #: How long the session outlives the connection; MQTT 5 only, MQTT 3 has `clean_start` alone.
    session_expiry_s: int = 0
    keep_alive_s: int = 60
    will: Will | None = None
    #: Messages without acknowledgement, at most; None for what is usual in this version.
    max_inflight: int | None = None


class ClientOutput(NamedTuple):
    """What a shell has to do next, in this order."""

    #: To be appended to the state file.
    records: bytes
    #: Whether they have to be durable before `data` is sent.
    sync: bool
    data: bytes


class ClientCore:
    """One client, over any number of connections."""

    def __init__(self, options: SessionOptions, state: ClientState | None = None) -> None:
        self.state: Final = state or ClientState(options.version, options.client_id)
        #: What the broker said of itself in its last CONNACK; None before the first.
        self.connack: Connack | None = None
        self.connected = False
        #: Whether the broker has sent a packet on this connection.
        self.answered = False
        #: Grows with everything that shows that the session goes on.
        self.progress = 0
        #: Pings on this connection, and their answers.
        self.pings = 0
        self.pongs = 0
        self._unread_ping = 0
        self.output_bytes = 0
        self._options: Final = options
        default = WINDOW_MESSAGES if options.version == V5 else _WINDOW_MESSAGES_V3
        self._own_window: Final = options.max_inflight or default
        self._window = self._own_window
        #: What the broker does not take: packets above a size, and perhaps QoS 2, QoS 1 or RETAIN.
        self._largest_bytes = MAX_PACKET_BYTES
        self._is_limited = False
        self._output: list[bytes] = []
        self._framer = Framer()
        #: Outgoing messages that wait for room in the broker's window. All others are in flight.
        self._waiting: deque[int] = deque()
        #: Handed over and not acknowledged by the caller, and which of them came on this connection. The others will be
        #: sent again on it: an acknowledgement before that would be a second one, perhaps of another message.
        self._handed: Final[dict[int, Publish]] = {}
        self._arrived: Final[set[int]] = set()
        self._subscriptions: Final = ClientSubscriptions()
        self._keep_alive_s = 0.0
        self._ping_s = 0.0
        self._heard_s = 0.0

    # ---- connections

    def connect(self, password: bytes | None = None, user_name: str | None = None) -> None:
        """A transport is there: ask for the session. Requires: offline."""
        options = self._options
        properties = NO_PROPERTIES
        clean_start = options.clean_start
        if options.version == V5:
            expiry_s = options.session_expiry_s or None
            properties = Properties(session_expiry_interval=expiry_s, receive_maximum=WINDOW_MESSAGES)
            if expiry_s and self.connack is not None:
                clean_start = False  # it was for the first connection
        self._framer = Framer()
        self._framer.speak(options.version)
        connect = Connect(
            options.version,
            options.client_id,
            clean_start,
            options.keep_alive_s,
            options.will,
            user_name,
            password,
            properties,
        )
        self.answered = False
        self.pings = self.pongs = self._unread_ping = 0
        self._output = [encode(connect, options.version)]
        self.output_bytes = len(self._output[0])

    def connection_lost(self) -> None:
        """The transport is gone, and with it everything that was to be sent on it."""
        self.connected = False
        self._output.clear()
        self.output_bytes = 0
        self._arrived.clear()
        # The broker sends all of them again. Those of QoS 2 are not handed over again.
        for packet_id in [packet_id for packet_id, message in self._handed.items() if message.qos == QOS_1]:
            del self._handed[packet_id]

    def disconnect(self) -> None:
        if self.connected:
            self._send(Disconnect())

    @property
    def limits(self) -> Properties:
        """What the broker allows."""
        return NO_PROPERTIES if self.connack is None else self.connack.properties

    # ---- publishing

    @property
    def unacknowledged(self) -> int:
        """Messages of QoS 1 and 2 that are not completed."""
        return len(self.state.outgoing)

    @property
    def settled(self) -> int:
        """How many of the messages that were published first are completed, without a gap. QoS 0 is so at once."""
        outgoing = self.state.outgoing
        return next(iter(outgoing.values())).number if outgoing else self.state.published

    @property
    def unread(self) -> bool:
        """Whether the broker may not have read all messages of QoS 0. An answer to `ping` shows that it has."""
        return self.pongs < self._unread_ping

    def has_room(self) -> bool:
        """Whether `publish` takes a message of QoS 1 or 2."""
        return len(self.state.outgoing) < self._window and self.state.outgoing_bytes < MAX_UNACKED_BYTES

    def publish(self, message: OutgoingMessage, source_offset: bytes = b"") -> None:
        """Publish a message; with QoS 0 now or never. RefusedError if the broker has said that it would not take it.

        Requires: with QoS 0, the client is connected; otherwise, `has_room`.
        """
        first, topic = message.first, message.topic
        qos = first >> 1 & 3
        if source_offset and not (qos and len(source_offset) <= MAX_OFFSET_BYTES):
            raise MisuseError(f"a source offset needs QoS 1 or 2, and has at most {MAX_OFFSET_BYTES} bytes")
        packet_id = self._free_packet_id() if qos else 0
        properties = message.properties
        if self._options.version == V5:
            properties = encode_varint(len(properties)) + properties if properties else b"\0"
        frame = frame_publish(first, topic, packet_id, properties, message.payload)
        if self._is_limited or len(frame) > self._largest_bytes:
            self._check(first, topic, len(frame))
        if qos:
            outgoing = self.state.publish(packet_id, topic, frame, source_offset)
            if self.connected and not self._waiting and len(self.state.outgoing) <= self._window:
                outgoing.sent = True
                self._write(frame)
            else:
                self._waiting.append(packet_id)
        elif self.connected:
            self.state.published += 1
            self._unread_ping = self.pings + 1
            self._write(frame)
        else:
            raise MisuseError("a message of QoS 0 without a connection")

    def _check(self, first: int, topic: bytes, size_bytes: int) -> None:
        limits, qos = self.limits, first >> 1 & 3
        if limits.maximum_qos is not None and qos > limits.maximum_qos:
            raise RefusedError(f"QoS {qos} to {topic.decode()}; the broker takes at most QoS {limits.maximum_qos}")
        if first & RETAIN and limits.retain_available == 0:
            raise RefusedError(f"{topic.decode()} is to be retained; the broker keeps no retained messages")
        if size_bytes > self._largest_bytes:
            raise RefusedError(
                f"the message to {topic.decode()} makes a packet of {size_bytes} bytes; "
                f"the broker takes at most {self._largest_bytes}"
            )

    def _fill_window(self) -> None:
        outgoing, waiting = self.state.outgoing, self._waiting
        while waiting and len(outgoing) - len(waiting) < self._window:
            found = outgoing.get(waiting.popleft())
            if found is None or found.released:  # acknowledged without having been sent
                continue
            frame = found.frame
            if found.sent:
                frame = bytes((frame[0] | DUP,)) + frame[1:]  # [MQTT-3.3.1-1]
            found.sent = True
            self._write(frame)

    def _free_packet_id(self) -> int:
        packet_id = self.state.free_packet_id()
        while packet_id in self._subscriptions.unanswered:
            packet_id = self.state.free_packet_id()
        return packet_id

    # ---- subscribing and receiving

    def subscribe(self, subscriptions: Sequence[Subscription], properties: Properties = NO_PROPERTIES) -> int:
        """The packet id that Suback will have."""
        return self._ask(Subscribe(self._free_packet_id(), tuple(subscriptions), properties))

    def unsubscribe(self, filters: Sequence[TopicFilter]) -> int:
        """The packet id that Unsuback will have."""
        return self._ask(Unsubscribe(self._free_packet_id(), tuple(filters)))

    def _ask(self, question: Subscribe | Unsubscribe) -> int:
        frame = encode(question, self._options.version)
        self._subscriptions.unanswered[question.packet_id] = question
        if self.connected:
            self._write(frame)
        return question.packet_id

    def acknowledge(self, message: Publish) -> None:
        """The caller is done with a message. Does nothing for one that the broker will send again anyway."""
        if self._handed.get(message.packet_id) is not message:
            return
        del self._handed[message.packet_id]
        if message.qos == QOS_2:
            self.state.receive(message.packet_id)
        if message.packet_id in self._arrived:
            self._arrived.discard(message.packet_id)
            self._send(Ack(PUBACK if message.qos == QOS_1 else PUBREC, message.packet_id))

    def ping(self) -> None:
        """Requires: connected, to have an effect."""
        if self.connected:
            self.pings += 1
            self._write(PINGREQ_FRAME)

    # ---- bytes and time

    def take_output(self) -> ClientOutput:
        records, sync = self.state.take_records()
        data = b"".join(self._output)
        self._output.clear()
        self.output_bytes = 0
        return ClientOutput(records, sync, data)

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """Handle the bytes of a read; none mean the end of the connection."""
        if not data:
            return [ConnectionEnded(LostError("the broker closed the connection without a reason"))]
        self._heard_s = now_s
        events: list[Event] = []
        framer = self._framer
        framer.feed(data)
        try:
            while framer.advance():
                packet = decode(framer.data, framer.first, framer.body, framer.end, self._options.version, SERVER)
                self._handle(packet, now_s, events)
                if events and isinstance(events[-1], ConnectionEnded):
                    break
        except PeerError as error:
            events.append(ConnectionEnded(LostError(f"the broker sent what is not MQTT: {error.detail}")))
        return events

    @property
    def deadline_s(self) -> float | None:
        """When `tick` is due."""
        if not self.connected or not self._keep_alive_s:
            return None
        return min(self._ping_s, self._heard_s + self._keep_alive_s * _SILENCE)

    def tick(self, now_s: float, *, reading: bool = True) -> list[Event]:
        """Send a ping if it is time. Without `reading`, silence means nothing: the caller did not listen."""
        if not self.connected or not self._keep_alive_s:
            return []
        if not reading:
            self._heard_s = now_s
        silence_s = self._keep_alive_s * _SILENCE
        if now_s - self._heard_s >= silence_s:
            return [ConnectionEnded(LostError(f"the broker has been silent for {silence_s:g} s"))]
        if now_s >= self._ping_s:
            self.ping()
            self._ping_s = now_s + self._keep_alive_s / 2
        return []

    def _write(self, frame: bytes) -> None:
        self._output.append(frame)
        self.output_bytes += len(frame)

    def _send(self, packet: Packet) -> None:
        self._write(encode(packet, self._options.version))

    # ---- packets

    def _handle(self, packet: Packet, now_s: float, events: list[Event]) -> None:
        if not self.connected:
            self._handle_connack(packet, now_s, events)
        elif isinstance(packet, Ack):
            if packet.kind == PUBREL:
                self.progress += 1
                self.state.forget(packet.packet_id)
                self._send(Ack(PUBCOMP, packet.packet_id))  # [MQTT-4.3.3-11]
            else:
                self._handle_ack(packet, events)
        elif isinstance(packet, Publish):
            self._handle_publish(packet, events)
        elif isinstance(packet, Suback | Unsuback):
            events += self._subscriptions.handle(packet)
        elif isinstance(packet, Pingresp):
            self.progress += 1
            self.pongs += 1
        elif isinstance(packet, Disconnect):
            events.append(ConnectionEnded(disconnect_error(packet)))
        else:
            text = f"the broker sent {type(packet).__name__}, which is not expected here"
            events.append(ConnectionEnded(LostError(text)))

    def _handle_connack(self, packet: Packet, now_s: float, events: list[Event]) -> None:
        self.answered = True
        if not isinstance(packet, Connack):
            events.append(ConnectionEnded(LostError(f"the broker answered CONNECT with {type(packet).__name__}")))
            return
        if packet.reason != SUCCESS:
            events.append(ConnectionEnded(connect_refusal(packet, self._options.version)))
            return
        self.connack = packet
        self.connected = True
        own = self._options.keep_alive_s
        server = packet.properties.server_keep_alive
        self._keep_alive_s = own if server is None else server  # [MQTT-3.1.2-21]
        self._ping_s = now_s + self._keep_alive_s / 2
        limits = packet.properties
        self._window = min(self._own_window, limits.receive_maximum or MAX_U16)
        self._largest_bytes = limits.maximum_packet_size or MAX_PACKET_BYTES
        self._is_limited = limits.maximum_qos is not None or limits.retain_available == 0
        events.append(packet)
        self._resume(events)

    def _resume(self, events: list[Event]) -> None:
        assert self.connack is not None
        if not self.connack.session_present:
            self._handed.clear()
            self.state.reset()
            self._subscriptions.renew(self._free_packet_id)
        self._waiting.clear()
        for packet_id, found in list(self.state.outgoing.items()):
            if found.released:
                self._send(Ack(PUBREL, packet_id))
                continue
            try:
                self._check(found.frame[0], found.topic, len(found.frame))
            except RefusedError as error:  # the limits may differ from those at the time of `publish`
                self.state.complete(packet_id)
                events.append(MessageRefused(error))
            else:
                self._waiting.append(packet_id)
        for question in self._subscriptions.unanswered.values():
            self._send(question)
        self._fill_window()

    def _handle_publish(self, packet: Publish, events: list[Event]) -> None:
        packet_id = packet.packet_id
        self.progress += 1
        if packet.qos == QOS_2:
            if packet_id in self.state.received:
                self._send(Ack(PUBREC, packet_id))
                return
            if packet_id in self._handed:
                self._arrived.add(packet_id)
                return
        if packet.qos:
            self._arrived.add(packet_id)
            self._handed[packet_id] = packet
        events.append(packet)

    def _handle_ack(self, ack: Ack, events: list[Event]) -> None:
        found = self.state.outgoing.get(ack.packet_id)
        refused = ack.reason >= UNSPECIFIED_ERROR
        if ack.kind == PUBREC and not refused:
            self.progress += 1
            if found is not None and not found.released:
                self.state.release(ack.packet_id)
            self._send(Ack(PUBREL, ack.packet_id))
            return
        if found is None:
            return
        if refused and ack.kind != PUBCOMP:
            error = publish_refusal(found.topic.decode(), ack)
            if isinstance(error, LostError):
                events.append(ConnectionEnded(error))
                return
            events.append(MessageRefused(error))
        self.progress += 1
        self.state.complete(ack.packet_id)
        if self._waiting:
            self._fill_window()
