"""A publisher that follows the standard: what is not acknowledged it sends again, in order, as the same message."""

import asyncio
import random

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.wire.packets import Ack, Packet, Publish
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Ledger


class _InFlight:
    def __init__(self, topic: str, number: int, packet: Publish) -> None:
        self.topic = topic
        self.number = number
        self.packet = packet
        #: PUBREC came: PUBREL is what is sent again.
        self.released = False


class Publisher(SteadyClient):
    """Publishes to its topics in turn, in bursts, as long as it is told to."""

    #: Bytes of payloads behind their number.
    sizes: tuple[int, ...] = (0, 0, 0, 50, 500, 20_000)

    def __init__(
        self,
        name: str,
        port: int,
        ledger: Ledger,
        dice: random.Random,
        version: int,
        topics: dict[str, int],
        *,
        retain: bool = False,
        restless: float = 0.0,
        pace_s: float = 0.01,
    ) -> None:
        """`topics`: each with its QoS, for good."""
        super().__init__(name, port, ledger, dice, version, restless=restless)
        self.topics = topics
        self.retain = retain
        self.pace_s = pace_s
        self.idle = asyncio.Event()
        self.idle.set()
        self._publishing = True
        self._in_flight: dict[int, _InFlight] = {}
        self._packet_id = 0

    async def publish(self) -> None:
        """Task: publish until `finish`."""
        topics = list(self.topics.items())
        while self._publishing:
            await self.online_again.wait()
            for _ in range(self.dice.randrange(1, 12)):
                if self.online and len(self._in_flight) < self.window:
                    self._publish_one(*self.dice.choice(topics))
            await asyncio.sleep(self.pace_s * self.dice.random())

    def finish(self) -> None:
        self._publishing = False

    def _publish_one(self, topic: str, qos: int) -> None:
        number = self.ledger.sends(topic, qos)
        while self._packet_id == 0 or self._packet_id in self._in_flight:
            self._packet_id = self._packet_id % 65_535 + 1
        size = self.dice.choice(self.sizes)
        payload = b"%d " % number + b"x" * size
        packet = Publish(topic, payload, qos, self._packet_id, retain=self.retain)
        self._in_flight[self._packet_id] = _InFlight(topic, number, packet)
        # The next one gets another id, so that an answer to an old message cannot pass for one to a new one.
        self._packet_id = self._packet_id % 65_535 + 1
        self.idle.clear()
        self.send(packet)

    def begin(self, *, resumed: bool) -> None:
        for packet_id, entry in list(self._in_flight.items()):
            packet = entry.packet
            if entry.released and resumed:
                self.send(Ack(PUBREL, packet_id))
            else:
                self.ledger.sends_again(entry.topic, entry.number)
                self.send(
                    Publish(packet.topic, packet.payload, packet.qos, packet_id, retain=packet.retain, dup=resumed)
                )

    def handle(self, packet: Packet) -> None:
        if not isinstance(packet, Ack):
            self.ledger.wrong(f"{self.name}: {packet} for a publisher")
            return
        entry = self._in_flight.get(packet.packet_id)
        if packet.kind == PUBREC:
            if entry is not None:
                entry.released = True
            if packet.reason >= 0x80:
                self.ledger.wrong(f"{self.name}: {packet}")
            self.send(Ack(PUBREL, packet.packet_id))
        elif entry is None or packet.kind != (PUBACK if entry.packet.qos == 1 else PUBCOMP):
            self.ledger.wrong(f"{self.name}: {packet}, for which there is no occasion")
        elif packet.kind == PUBACK and packet.reason >= 0x80:
            self.ledger.wrong(f"{self.name}: {packet}")
        else:
            del self._in_flight[packet.packet_id]
            self.ledger.acknowledges(entry.topic, entry.number)
            if not self._in_flight:
                self.idle.set()
