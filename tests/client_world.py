"""A model broker for one client, the wire between them, and the disk under the client's state file. Nothing waits.

The wire holds bytes in both directions and hands them on in any pieces. The disk keeps what was synced; of the rest, a
kill leaves any number of whole batches.
"""

import random

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.client.errors import ConnectionEnded, Event
from holdfast.client.state import ClientState
from holdfast.model.protocol import CLIENT, PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from holdfast.wire.properties import NO_PROPERTIES, Properties


class ModelBroker:
    """Keeps a session by the letter of the standard, and notes what was published to it."""

    def __init__(self, version: int = V5, receive_maximum: int | None = None) -> None:
        self.version = version
        self.properties = NO_PROPERTIES if version != V5 else Properties(receive_maximum=receive_maximum)
        self.window = receive_maximum or 65_535
        self.published: list[Publish] = []
        self.packets: list[Packet] = []
        self.subscriptions: list[str] = []
        self.has_session = False
        #: QoS 2 from the client: taken, and not released.
        self._taken: set[int] = set()
        #: To the client: by packet id, the message, or None once it is received.
        self._outgoing: dict[int, Publish | None] = {}
        self._next_id = 1
        self._framer = Framer()
        self._in_flight = 0
        self.connected = False

    def lose_session(self) -> None:
        self.has_session = False
        self._taken.clear()
        self._outgoing.clear()
        self.subscriptions.clear()

    def connection_lost(self) -> None:
        self._framer = Framer()
        self._framer.speak(self.version)
        self._in_flight = 0
        self.connected = False

    def deliver(self, message: Publish) -> bytes:
        """Send a message to the client, now or with the next connection."""
        while self._next_id in self._outgoing:
            self._next_id = self._next_id % 65_535 + 1
        sent = Publish(message.topic, message.payload, message.qos, self._next_id)
        self._outgoing[self._next_id] = sent
        # A small range, so that packet ids are used again soon.
        self._next_id = self._next_id % 7 + 1
        return encode(sent, self.version)

    @property
    def owes(self) -> bool:
        return bool(self._outgoing)

    def receive(self, data: bytes) -> bytes:
        answers = b""
        for packet in decode_all(self._framer, data, self.version, CLIENT):
            self.packets.append(packet)
            for answer in self._answer(packet):
                answers += encode(answer, self.version)
        return answers

    def _answer(self, packet: Packet) -> list[Packet]:
        if isinstance(packet, Connect):
            return self._connected(packet)
        if isinstance(packet, Publish):
            return self._published(packet)
        if isinstance(packet, Ack):
            return self._acknowledged(packet)
        if isinstance(packet, Subscribe):
            self.subscriptions += [line.filter.raw.decode() for line in packet.subscriptions]
            return [Suback(packet.packet_id, tuple(line.qos for line in packet.subscriptions))]
        if isinstance(packet, Unsubscribe):
            return [Unsuback(packet.packet_id, (0,) * len(packet.filters) if self.version == V5 else ())]
        if isinstance(packet, Pingreq):
            return [Pingresp()]
        assert isinstance(packet, Disconnect)
        return []

    def _connected(self, packet: Connect) -> list[Packet]:
        if packet.clean_start:
            self.lose_session()
        present, self.has_session = self.has_session, True
        self.connected = True
        answers: list[Packet] = [Connack(0, present, self.properties)]
        for packet_id, message in self._outgoing.items():
            if message is None:
                answers.append(Ack(PUBREL, packet_id))
            else:
                answers.append(Publish(message.topic, message.payload, message.qos, packet_id, dup=True))
        return answers

    def _published(self, packet: Publish) -> list[Packet]:
        if packet.qos == 0:
            self.published.append(packet)
            return []
        self._in_flight += 1
        assert self._in_flight <= self.window, "more than the receive maximum"
        if packet.qos == 1:
            self._in_flight -= 1
            self.published.append(packet)
            return [Ack(PUBACK, packet.packet_id)]
        if packet.packet_id not in self._taken:
            assert not packet.dup or packet.packet_id not in self._taken
            self._taken.add(packet.packet_id)
            self.published.append(packet)
        else:
            assert packet.dup, "a packet id that is in use, without DUP"
        return [Ack(PUBREC, packet.packet_id)]

    def _acknowledged(self, packet: Ack) -> list[Packet]:
        if packet.kind == PUBREL:
            self._taken.discard(packet.packet_id)
            self._in_flight = max(0, self._in_flight - 1)
            return [Ack(PUBCOMP, packet.packet_id)]
        assert packet.packet_id in self._outgoing, "acknowledged twice"
        if packet.kind == PUBREC:
            self._outgoing[packet.packet_id] = None
            return [Ack(PUBREL, packet.packet_id)]
        assert packet.kind == PUBACK or self._outgoing[packet.packet_id] is None, "PUBCOMP instead of PUBREC"
        self._outgoing.pop(packet.packet_id, None)
        return []


class ClientWorld:
    """One client, one broker, and chance."""

    def __init__(self, dice: random.Random, options: SessionOptions, receive_maximum: int | None = None) -> None:
        self.dice = dice
        self.options = options
        self.broker = ModelBroker(options.version, receive_maximum)
        self.received: list[Publish] = []
        self._durable = ClientState(options.version, options.client_id).snapshot()
        self._volatile: list[bytes] = []
        self.core = self._started()
        self._to_broker = b""
        self._to_client = b""
        self.now_s = 0.0
        #: Whether there is a connection, accepted or not.
        self.linked = False

    def _started(self) -> ClientCore:
        state = ClientState(self.options.version, self.options.client_id)
        state.apply(self._durable)
        state.check_invariants()
        state.recording = True
        return ClientCore(self.options, state)

    def connect(self) -> None:
        self.cut()
        self.linked = True
        self.core.connect()
        self.flush()

    def cut(self) -> None:
        """The connection breaks: what is on the wire is lost, up to any byte."""
        self.linked = False
        self._to_broker = self._to_client = b""
        self.core.connection_lost()
        self.broker.connection_lost()

    def kill(self) -> None:
        """The process of the client ends, at any point between two writes."""
        kept = self.dice.randrange(len(self._volatile) + 1)
        self._durable += b"".join(self._volatile[:kept])
        self._volatile.clear()
        self.cut()
        self.received.clear()
        self.core = self._started()

    def flush(self) -> None:
        output = self.core.take_output()
        if output.records:
            self._volatile.append(output.records)
        if output.sync:
            self._durable += b"".join(self._volatile)
            self._volatile.clear()
            if self.dice.random() < 0.2:
                self._durable = self.core.state.snapshot()
        self._to_broker += output.data

    def deliver(self, message: Publish) -> None:
        frame = self.broker.deliver(message)
        if self.broker.connected:
            self._to_client += frame

    def step(self) -> list[Event]:
        """Some bytes arrive, on one side or the other."""
        if self.dice.random() < 0.5:
            count = self._piece(self._to_broker)
            data, self._to_broker = self._to_broker[:count], self._to_broker[count:]
            self._to_client += self.broker.receive(data)
            return []
        count = self._piece(self._to_client)
        data, self._to_client = self._to_client[:count], self._to_client[count:]
        return self._receive(data)

    def _piece(self, waiting: bytes) -> int:
        return self.dice.choice((len(waiting), self.dice.randrange(len(waiting) + 1)))

    def run(self) -> list[Event]:
        """Everything arrives, until there is nothing left to say."""
        events: list[Event] = []
        while self._to_broker or self._to_client:
            data, self._to_broker = self._to_broker, b""
            self._to_client += self.broker.receive(data)
            data, self._to_client = self._to_client, b""
            events += self._receive(data)
        return events

    def _receive(self, data: bytes) -> list[Event]:
        if not data:
            return []
        events = self.core.receive(data, self.now_s)
        assert not any(isinstance(event, ConnectionEnded) for event in events), events
        self.received += [event for event in events if isinstance(event, Publish)]
        self.flush()
        return events
