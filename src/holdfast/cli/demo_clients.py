"""The two clients of `holdfast demo`, which keep to the standard whatever happens to the broker.

They connect again by themselves, send again what was not acknowledged, and know which QoS 2 messages they have.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Final

from holdfast.model.ids import FIRST_PACKET_ID, packet_id_after
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, SERVER, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Ack, Connack, Connect, Packet, Publish, Suback, Subscribe, Subscription
from holdfast.wire.properties import Properties

#: Unacknowledged messages of the publisher, at most.
_WINDOW: Final = 100
#: Seconds between two attempts to connect, and between two bursts.
_RETRY_S: Final = 0.1
_BURST_S: Final = 0.02


class Flow:
    """The messages of one QoS, numbered from 1."""

    def __init__(self, qos: int) -> None:
        self.qos: Final = qos
        self.topic: Final = f"demo/qos{qos}"
        self.sent = 0
        self.acknowledged: Final[set[int]] = set()
        self.delivered: Final[set[int]] = set()
        self.duplicates = 0

    def missing(self) -> int:
        """Acknowledged and not delivered yet; at the end, lost."""
        return len(self.acknowledged - self.delivered)

    def arrives(self, number: int) -> None:
        self.duplicates += number in self.delivered
        self.delivered.add(number)


class _Peer(ABC):
    """A client with a session that outlives its connections. What it has to say is for those who inherit."""

    def __init__(self, name: str, port: int, flows: list[Flow]) -> None:
        self._name: Final = name
        self._port: Final = port
        self.flows: Final = flows
        self._writer: asyncio.StreamWriter | None = None
        self.online = False

    @abstractmethod
    def begin(self) -> None:
        """CONNACK came."""

    @abstractmethod
    def handle(self, packet: Packet) -> None:
        """Any packet behind it."""

    def send(self, packet: Packet) -> None:
        if self._writer is not None and self.online and not self._writer.is_closing():
            self._writer.write(encode(packet, V5))

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            # There is no broker at the moment: that is what this is about.
            with contextlib.suppress(OSError):
                await self._connection()
            self.online = False
            await asyncio.sleep(_RETRY_S)

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer = writer
        framer = Framer()
        framer.speak(V5)
        kept = Properties(session_expiry_interval=3600)
        writer.write(encode(Connect(V5, self._name, clean_start=False, properties=kept), V5))
        try:
            while data := await reader.read(1 << 16):
                for packet in decode_all(framer, data, V5, SERVER):
                    if isinstance(packet, Connack):
                        self.online = packet.reason == 0
                        self.begin()
                    else:
                        self.handle(packet)
        finally:
            writer.close()


class _Sent:
    def __init__(self, flow: Flow, number: int) -> None:
        self.flow: Final = flow
        self.number: Final = number
        #: PUBREC came: from now on PUBREL is sent again, not the message.
        self.released = False

    def packet(self, packet_id: int, *, dup: bool) -> Publish:
        return Publish(self.flow.topic, b"%d" % self.number, self.flow.qos, packet_id, dup=dup)


class Publisher(_Peer):
    """Sends every message until it is acknowledged."""

    def __init__(self, port: int, flows: list[Flow]) -> None:
        super().__init__("demo-publisher", port, flows)
        self.in_flight: Final[dict[int, _Sent]] = {}
        self._packet_id = FIRST_PACKET_ID

    async def publish(self, rate: float) -> None:
        """Task: about `rate` messages a second, half of them with each QoS, as far as the window allows."""
        due = 0.0
        while True:
            await asyncio.sleep(_BURST_S)
            due = min(due + rate * _BURST_S, _WINDOW)
            while due >= 1 and self.online and len(self.in_flight) < _WINDOW:
                due -= 1
                self._publish_one(min(self.flows, key=lambda flow: flow.sent))

    def _publish_one(self, flow: Flow) -> None:
        while self._packet_id in self.in_flight:
            self._packet_id = packet_id_after(self._packet_id)
        flow.sent += 1
        sent = self.in_flight[self._packet_id] = _Sent(flow, flow.sent)
        self.send(sent.packet(self._packet_id, dup=False))
        self._packet_id = packet_id_after(self._packet_id)

    def begin(self) -> None:
        for packet_id, sent in self.in_flight.items():
            self.send(Ack(PUBREL, packet_id) if sent.released else sent.packet(packet_id, dup=True))

    def handle(self, packet: Packet) -> None:
        if not isinstance(packet, Ack):
            return
        if packet.kind == PUBREC:
            if packet.packet_id in self.in_flight:
                self.in_flight[packet.packet_id].released = True
            self.send(Ack(PUBREL, packet.packet_id))
        elif (sent := self.in_flight.pop(packet.packet_id, None)) is not None:
            sent.flow.acknowledged.add(sent.number)


class Subscriber(_Peer):
    """Takes every message, those of QoS 2 once."""

    def __init__(self, port: int, flows: list[Flow]) -> None:
        super().__init__("demo-subscriber", port, flows)
        self.subscribed: Final = asyncio.Event()
        self._has: Final[set[int]] = set()

    def begin(self) -> None:
        if not self.subscribed.is_set():
            self.send(Subscribe(1, (Subscription(parse_filter(b"demo/#"), 2),)))

    def handle(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.subscribed.set()
        elif isinstance(packet, Publish):
            if packet.qos == 1 or packet.packet_id not in self._has:
                flow = next(flow for flow in self.flows if flow.topic == packet.topic)
                flow.arrives(int(packet.payload))
            if packet.qos == 2:
                self._has.add(packet.packet_id)
            self.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._has.discard(packet.packet_id)
            self.send(Ack(PUBCOMP, packet.packet_id))
