"""A subscriber that follows the standard: it knows the ids of QoS 2 messages it has, and acknowledges in order."""

import asyncio
import random
import time
from collections import deque

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Packet, Publish, Suback, Subscribe, Subscription
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Arrival, Ledger, Received
from tests.crash.repetitions import READ, UNREAD

_SUBSCRIBE_ID = 1


class Subscriber(SteadyClient):
    """One subscription, of its own or in a group."""

    def __init__(
        self,
        name: str,
        port: int,
        ledger: Ledger,
        dice: random.Random,
        version: int,
        topic_filter: str,
        qos: int,
        *,
        receive_maximum: int = 0,
        slow: bool = False,
        restless: float = 0.0,
        subscribe_always: bool = False,
    ) -> None:
        """`slow`: acknowledges late. `subscribe_always`: subscribes on every connection, as many programs do."""
        super().__init__(name, port, ledger, dice, version, receive_maximum=receive_maximum, restless=restless)
        self.filter = parse_filter(topic_filter.encode())
        self.qos = qos
        self.slow = slow
        self.subscribe_always = subscribe_always
        self.received: Received | None = None
        self.subscribed = asyncio.Event()
        #: QoS 2 messages that it has, by packet id, until PUBREL.
        self._has: set[int] = set()
        #: In flight on this connection, for the receive maximum.
        self._open: set[int] = set()
        self._answers: deque[Ack] = deque()
        #: QoS 1 messages of this connection that are not acknowledged yet, by packet id.
        self._unacknowledged: dict[int, Arrival] = {}
        #: The life of the broker that this connection is to.
        self._life = 0
        #: PUBACKs of this connection: where each ends in what was sent, and when that was.
        self._pubacks: list[tuple[int, float, Arrival]] = []

    def begin(self, *, resumed: bool) -> None:
        self._open.clear()
        self._answers.clear()
        self._unacknowledged.clear()
        self._pubacks.clear()
        self._life = self.ledger.deaths
        if not resumed:
            self._has.clear()
        if self.subscribe_always or not self.subscribed.is_set():
            if self.received is None:
                self.received = self.ledger.subscribes(self.name, self.filter.raw.decode(), self.qos)
            self.send(Subscribe(_SUBSCRIBE_ID, (Subscription(self.filter, self.qos, retain_handling=2),)))

    def handle(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self._take(packet)
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._has.discard(packet.packet_id)
            self._answer(Ack(PUBCOMP, packet.packet_id))
        elif isinstance(packet, Suback):
            if packet.reasons != (self.qos,):
                self.ledger.wrong(f"{self.name}: {packet}")
            assert self.received is not None
            if not self.subscribed.is_set():
                self.received.granted_at = self.ledger.tick()
                self.subscribed.set()
        else:
            self.ledger.wrong(f"{self.name}: {packet} for a subscriber")

    def _take(self, packet: Publish) -> None:
        packet_id = packet.packet_id
        if packet.qos == 0:
            self.ledger.wrong(f"{self.name}: {packet} with QoS 0")
            return
        self._open.add(packet_id)
        if self.receive_maximum and len(self._open) > self.receive_maximum:
            self.ledger.wrong(f"{self.name}: {len(self._open)} in flight, receive maximum {self.receive_maximum}")
        if packet.qos == 2 and packet_id in self._has:
            if not packet.dup:
                self.ledger.wrong(f"{self.name}: {packet} under the id of a message that is not released")
        else:
            assert self.received is not None
            if packet.qos == 2:
                self._has.add(packet_id)
            number = int(packet.payload.split(b" ", 1)[0])
            arrival = self.ledger.arrives(
                self.received,
                packet.topic,
                number,
                dup=packet.dup,
                packet_id=packet_id,
                connection=self.connects,
            )
            if packet.qos == 1:
                self._unacknowledged[packet_id] = arrival
        self._answer(Ack(PUBACK if packet.qos == 1 else PUBREC, packet_id))

    def _answer(self, ack: Ack) -> None:
        self._answers.append(ack)
        if not self.slow:
            self._give_answers(len(self._answers))

    def _give_answers(self, count: int) -> None:
        for _ in range(count):
            ack = self._answers.popleft()
            if ack.kind != PUBREC:
                self._open.discard(ack.packet_id)
            self.send(ack)
            if ack.kind == PUBACK and self._life == self.ledger.deaths and ack.packet_id in self._unacknowledged:
                arrival = self._unacknowledged.pop(ack.packet_id)
                arrival.acknowledged = True
                self._pubacks.append((self.sent_bytes, time.monotonic(), arrival))

    def broker_stopped(self, unread: dict[int, int]) -> None:
        """The broker is killed next, and has not read so many bytes, by the port of the client."""
        read_bytes = self.read_bytes(unread)
        now_s = time.monotonic()
        for end, sent_s, arrival in self._pubacks:
            arrival.age_s = now_s - sent_s
            arrival.fate = READ if end <= read_bytes else UNREAD
        self._pubacks.clear()

    async def pause(self) -> None:
        if self.slow:
            while self._answers:
                await asyncio.sleep(0.02 * self.dice.random())
                self._give_answers(self.dice.randrange(1, len(self._answers) + 1))
