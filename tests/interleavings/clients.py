"""Clients whose every move is a step of a story: what they send, and when they read what was sent to them.

They know the rules of the standard from the clients of the crash tests, and write into the same ledger. What the
broker has written and the client has not read is lost when the connection is.
"""

import random

from holdfast.model.protocol import V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet, Publish, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Ledger
from tests.crash.broker_publisher import Publisher
from tests.crash.broker_subscriber import Subscriber
from tests.world import Peer, World

_EXPIRY_S = 3600


class Client(SteadyClient):
    """One client id, on one connection after another."""

    peer: Peer | None = None
    expiry_s = _EXPIRY_S
    _greeted = False
    _first_time = True
    _outgoing: tuple[Packet, ...] = ()

    def connect(self, world: World, *, clean_start: bool = False) -> None:
        """Open a connection; one that is open already is left to the broker to close."""
        self.peer = world.peer(self.version)
        self.online = self._greeted = False
        self._first_time, self._asked = not self._asked, True
        if clean_start or self.expiry_s == 0:
            self._has_session, self._first_time = False, True
        maximum = self.receive_maximum or None
        properties = Properties(session_expiry_interval=self.expiry_s, receive_maximum=maximum)
        self.peer.send(Connect(self.version, self.name, clean_start=clean_start, properties=properties))

    def send(self, packet: Packet) -> None:
        """What answers a packet leaves together with the other answers; anything else leaves at once."""
        if self.online:
            self._outgoing += (packet,)

    def flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, ()
        if outgoing and self.peer is not None and not self.peer.closed:
            self.peer.send(*outgoing)

    def unread(self) -> bool:
        return self.peer is not None and len(self.peer.inbox) > 0

    def read(self) -> None:
        """Take everything that came, and answer it in one piece."""
        assert self.peer is not None
        packets, self.peer.inbox = self.peer.inbox, []
        for packet in packets:
            if not self._greeted:
                self._greeted = True
                self._greet(packet, first_time=self._first_time)
            elif isinstance(packet, Disconnect):
                self.online = False
            else:
                self.handle(packet)
        self.flush()

    def drop(self) -> None:
        """The connection breaks, with everything on it that was not read."""
        peer, self.peer = self.peer, None
        self.online = False
        if peer is not None and not peer.closed:
            peer.drop()

    def part(self) -> None:
        """Say goodbye: with an expiry of 0 that ends the session."""
        assert self.peer is not None
        self.online = False
        self.peer.send(Disconnect())

    def cut_off(self) -> None:
        """The broker is gone."""
        self.peer = None
        self.online = False


class Caller(Client):
    """Does nothing by itself, except for a subscription; keeps what it gets."""

    def __init__(self, name: str, ledger: Ledger, topic_filter: str = "") -> None:
        super().__init__(name, 0, ledger, random.Random(1), V5)
        self._filter = topic_filter
        self.answer: Connack | None = None
        self.got: list[bytes] = []

    def _greet(self, packet: Packet, *, first_time: bool) -> bool:
        assert isinstance(packet, Connack)
        self.answer = packet
        self.online = packet.reason == 0
        if self.online and self._filter:
            self.send(Subscribe(1, (Subscription(parse_filter(self._filter.encode()), 0),)))
        return self.online

    def begin(self, *, resumed: bool) -> None:
        raise NotImplementedError

    def handle(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self.got.append(packet.payload)

    def say(self, packet: Packet) -> None:
        self.send(packet)
        self.flush()

    def is_open(self) -> bool:
        return self.peer is not None and not self.peer.closed


class StoryPublisher(Client, Publisher):
    """Publishes when it is told to."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        super().__init__(name, 0, ledger, random.Random(1), V5, {})

    def publish_to(self, topic: str, qos: int) -> None:
        self._publish_one(topic, qos)
        self.flush()


class StorySubscriber(Client, Subscriber):
    """Subscribes when it is first greeted."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        topic_filter: str,
        qos: int,
        *,
        receive_maximum: int = 0,
        expiry_s: int = _EXPIRY_S,
    ) -> None:
        super().__init__(name, 0, ledger, random.Random(1), V5, topic_filter, qos, receive_maximum=receive_maximum)
        self.expiry_s = expiry_s


class StoryReplayer(StorySubscriber):
    """Subscribes to the past, once, for a second SUBSCRIBE would ask for it again: everything there is has to come."""

    def begin(self, *, resumed: bool) -> None:
        if resumed and self.received is not None:
            self.subscribed.set()
        super().begin(resumed=resumed)

    def handle(self, packet: Packet) -> None:
        super().handle(packet)
        assert self.received is not None
        self.received.asked_at = 0
        if self.received.granted_at:
            self.received.granted_at = 1
