"""Clients that live with a broker second by second: they publish, acknowledge, come back, take over, leave wills.

Everything follows from the number of the second, so that every run is the same.
"""

from collections.abc import Callable
from pathlib import Path

from holdfast.broker.policy import Policy
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld
from tests.world import ORIGIN, Peer

HOUR_S = 3600
#: Subscribers with sessions that outlive their connections, by the QoS of their subscriptions.
SUBSCRIBERS = 12
PUBLISHERS = 3
MEMBERS = 3
#: Messages each second.
RATE = 6
RETAINED_TOPICS = 40


class LostPeer(Peer):
    """As with a socket, what is on its way to a connection that is gone is gone, too."""

    def write(self, data: bytes) -> None:
        if not self.closed:
            super().write(data)


class SoakWorld(DiskWorld):
    """A broker on a real database. Receipts come from its commit thread: each second waits for them."""

    def __init__(self, folder: Path, start_us: int) -> None:
        storage = {"durability": "os", "generation_s": HOUR_S // 2, "retention_s": 2 * HOUR_S}
        super().__init__(folder, Policy(), start_us=start_us, storage=storage)

    def settle(self) -> None:
        loop = self._loop
        for _round in range(2):
            for _turn in range(3):
                loop.call_soon(loop.stop)
                loop.run_forever()
            self.disk.engine.sync_now()
        loop.call_soon(loop.stop)
        loop.run_forever()
        if self._failures:
            raise self._failures.pop(0)

    def second(self, actions: list[Callable[[], None]]) -> None:
        """One second: what clients do in it, then what the node does once a second."""

        def act() -> None:
            for action in actions:
                action()

        self.do(act)
        self.clock.advance(1_000_000)
        self._loop.call_soon(self.broker.deadlines.fire)
        self.do(lambda: self.disk_maintenance.run_once(self.broker))
        while self.disk.maintenance.write_index_slice():
            pass


class Client:
    """One client id, whichever connection it has; it acknowledges what it gets."""

    def __init__(self, life: "Life", name: str, *, expiry_s: int = 0, will: bool = False) -> None:
        self.life = life
        self.name = name
        self.expiry_s = expiry_s
        self.will = will
        self.peer: Peer | None = None
        self.received = 0
        self.presences: list[bool] = []

    def connect(self, *, clean: bool = False) -> None:
        """A new connection; an old one is taken over by it."""
        world = self.life.world
        self.peer = LostPeer(world, V5, ORIGIN)
        will = (
            Will(f"will/{self.name}", b"gone", 1, properties=Properties(will_delay_interval=5)) if self.will else None
        )
        properties = Properties(session_expiry_interval=self.expiry_s)
        self.send(Connect(V5, self.name, clean, will=will, properties=properties))

    def send(self, *packets: Packet) -> None:
        peer = self.peer
        if peer is not None and not peer.closed:
            data = b"".join(encode(packet, V5) for packet in packets)
            self.life.world.broker.received(peer.channel, data)

    def subscribe(self, *filters: str, qos: int) -> None:
        lines = tuple(Subscription(parse_filter(text.encode()), qos) for text in filters)
        self.send(Subscribe(1, lines))

    def lose(self) -> None:
        """The network goes, without a word."""
        if self.peer is not None and not self.peer.closed:
            self.peer.closed = True
            self.life.world.broker.lost(self.peer.channel)

    def leave(self) -> None:
        self.send(Disconnect())
        if self.peer is not None:
            self.peer.closed = True
            self.life.world.broker.lost(self.peer.channel)

    def answer(self) -> None:
        """Acknowledge everything that came."""
        peer = self.peer
        if peer is None:
            return
        inbox, peer.inbox = peer.inbox, []
        answers: list[Packet] = []
        for packet in inbox:
            if isinstance(packet, Publish):
                self.received += 1
                if packet.qos:
                    answers.append(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
            elif isinstance(packet, Ack) and packet.kind == PUBREL:
                answers.append(Ack(PUBCOMP, packet.packet_id))
            elif isinstance(packet, Ack) and packet.kind == PUBREC:
                answers.append(Ack(PUBREL, packet.packet_id))
            elif isinstance(packet, Connack):
                self.presences.append(packet.session_present)
        if answers:
            self.send(*answers)


class Life:
    """All clients of one broker, over restarts of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.second = 0
        self.published = 0
        self.world = SoakWorld(folder, 1_700_000_000_000_000)
        self.subscribers = [
            Client(self, f"subscriber-{number}", expiry_s=HOUR_S, will=number % 4 == 0) for number in range(SUBSCRIBERS)
        ]
        self.publishers = [Client(self, f"publisher-{number}", expiry_s=HOUR_S) for number in range(PUBLISHERS)]
        self.members = [Client(self, f"member-{number}", expiry_s=HOUR_S) for number in range(MEMBERS)]
        #: A new client id every time, with a session that ends by itself.
        self.passing: list[Client] = []
        #: Without a session, with a will, and always again: each takes the last one over.
        self.restless = Client(self, "restless", will=True)
        self.begin()

    def everybody(self) -> list[Client]:
        return [*self.subscribers, *self.publishers, *self.members, *self.passing, self.restless]

    def begin(self) -> None:
        for client in [*self.subscribers, *self.publishers, *self.members, self.restless]:
            client.connect()
        for number, client in enumerate(self.subscribers):
            client.subscribe(f"plant/{number % 4}/#", "state/+", qos=number % 3)
        for client in self.members:
            client.subscribe("$share/workers/plant/+/work", qos=1 + self.members.index(client) % 2)
        self.pass_second([])

    def stop(self) -> None:
        """The broker stops in order."""
        for client in self.everybody():
            client.peer = None
        self.world.__exit__(None, None, None)

    def start(self) -> None:
        """It starts again on the same folder, and all clients come back."""
        self.passing.clear()
        self.world = SoakWorld(self.folder, self.world.clock.wall_us())
        for client in self.everybody():
            client.connect()
        self.pass_second([])

    def pass_second(self, actions: list[Callable[[], None]]) -> None:
        self.world.second([*actions, *(client.answer for client in self.everybody())])
        self.second += 1

    def live(self, seconds: int) -> None:
        for _second in range(seconds):
            now = self.second
            actions = [self._publication(now, number) for number in range(RATE)]
            self.pass_second(actions + self._comings_and_goings(now))

    def _publication(self, now: int, number: int) -> Callable[[], None]:
        publisher = self.publishers[(now + number) % PUBLISHERS]
        qos = (now + number) % 3
        packet_id = (now * RATE + number) % 60_000 + 1 if qos else 0
        if number == RATE - 1:
            expires = Properties(message_expiry_interval=30) if now % 2 else Properties()
            topic = f"state/{now % RETAINED_TOPICS}"
            message = Publish(topic, b"%d" % now, qos, packet_id, retain=True, properties=expires)
        elif number == RATE - 2:
            message = Publish(f"plant/{now % 4}/work", b"%d" % now, qos, packet_id)
        else:
            message = Publish(f"plant/{(now + number) % 4}/device-{now % 50}", b"%d" % now, qos, packet_id)
        self.published += 1
        return lambda: publisher.send(message)

    def _comings_and_goings(self, now: int) -> list[Callable[[], None]]:
        client = self.subscribers[now // 3 % SUBSCRIBERS]
        actions: list[Callable[[], None]] = []
        phase = now % 30
        if phase == 0:
            actions.append(client.lose)
        elif phase in (3, 6, 9, 12):
            actions.append(client.connect)  # back, or a takeover of the connection that is there
        elif phase == 15:
            actions += [client.leave, client.connect]
        elif phase == 18:
            other = self.subscribers[now // 30 % SUBSCRIBERS]
            actions.append(lambda: other.send(Unsubscribe(7, (parse_filter(b"state/+"),))))
            actions.append(lambda: other.subscribe("state/+", qos=now // 30 % 3))
        elif phase == 20:
            member = self.members[now // 30 % MEMBERS]
            actions += [member.lose, member.connect]
        elif phase == 22:
            self._let_one_pass(now, actions)
        elif phase == 25 and now % 300 == 25:
            actions.append(lambda: client.connect(clean=True))
            actions.append(lambda: client.subscribe(f"plant/{now % 4}/#", "state/+", qos=2))
        if now % 5 == 0:
            actions.append(self.restless.connect)
        for lost in self.subscribers:
            if phase == 29 and lost.peer is not None and lost.peer.closed:
                actions.append(lost.connect)
        return actions

    def _let_one_pass(self, now: int, actions: list[Callable[[], None]]) -> None:
        """A client that is seen once: its session waits for a minute, and ends."""
        actions += [gone.lose for gone in self.passing]
        client = Client(self, f"passing-{now}", expiry_s=60, will=now % 60 == 22)
        self.passing[:] = [client]
        actions.append(client.connect)
        actions.append(lambda: client.subscribe("plant/#", qos=2))
