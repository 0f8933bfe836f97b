"""A broker without sockets and without time: for tests of its rules.

A `World` owns an event loop, a clock that moves only when told to, and a broker. A `Peer` is the other end of one
connection: what it sends is handled at once, what the broker sends is decoded and kept.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.broker import Broker
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.takeover.registry import MemoryRegistry
from holdfast.exchange.client import BrokerClient
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import SERVER, V5
from holdfast.node.assembly import memory_stores
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Packet, Publish, Suback, Subscribe, Subscription

P = TypeVar("P", bound=Packet)

ORIGIN = Origin("test", "127.0.0.1", 1, "tcp", allow_anonymous=True)


class World:
    """A running broker; use it as a context manager."""

    def __init__(
        self,
        policy: Policy | None = None,
        authenticator: Authenticator | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.clock = ManualClock()
        #: What the broker keeps its state in; another world can go on with it.
        self.policy = policy or Policy()
        self.stores = stores or self.make_stores(self.policy)
        if stores is not None:  # connections, unlike sessions, end with their broker
            self.stores = replace(stores, registry=MemoryRegistry())
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._failed)
        self._failures: list[BaseException] = []
        self.broker = self._loop.run_until_complete(self._start(self.policy, authenticator))

    async def _start(self, policy: Policy, authenticator: Authenticator | None) -> Broker:
        broker = Broker(policy, self.clock, authenticator or Authenticator(), self.stores)
        return await broker.__aenter__()

    def make_stores(self, policy: Policy) -> Stores:
        return memory_stores(policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self.broker.__aexit__(kind, error, trace))
        self._loop.close()

    def settle(self) -> None:
        """Let everything happen that can happen without time passing; what went wrong is raised here."""
        for _turn in range(12):
            self.iterate()
        if self._failures:
            raise self._failures.pop(0)

    def iterate(self) -> None:
        """Let the loop make one iteration."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def begin(self, action: Callable[[], object]) -> None:
        """Do something with the next iteration of the loop."""
        self._loop.call_soon(action)

    def do(self, action: Callable[[], object]) -> None:
        """Do something on the loop, as a listener would, and let the broker work."""
        self._loop.call_soon(action)
        self.settle()

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._failures.append(error if isinstance(error, BaseException) else AssertionError(context["message"]))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(int(seconds * 1_000_000))
        self._loop.call_soon(self.broker.deadlines.fire)
        self.settle()

    def client_of(self, session_id: str) -> BrokerClient | None:
        """A session that the broker has in memory."""
        return self.broker.sessions.clients.get(session_id)

    def drops(self) -> dict[str, int]:
        """How many messages were dropped, by reason."""
        return self.broker.exchange.counters.drops

    def peer(self, version: int = V5, origin: Origin = ORIGIN) -> "Peer":
        return Peer(self, version, origin)

    def connect(self, client_id: str, version: int = V5, **options: object) -> "Peer":
        """A peer that has its CONNACK."""
        peer = self.peer(version)
        peer.send(Connect(version, client_id, **options))  # type: ignore[arg-type]
        peer.connack = peer.take(Connack)
        return peer


class Peer:
    """One connection, seen from the client."""

    def __init__(self, world: World, version: int, origin: Origin) -> None:
        self.world = world
        self.version = version
        self.closed = False
        self.reading = True
        self.inbox: list[Packet] = []
        self.connack = Connack()
        self._framer = Framer()
        self.channel = world.broker.opened(self, origin)

    # ---- Link: what the broker calls

    def write(self, data: bytes) -> None:
        assert not self.closed, "written after close"
        self.inbox += decode_all(self._framer, data, self.version, SERVER)

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    # ---- what tests call

    def send(self, *packets: Packet) -> None:
        """Send packets in one piece and let the broker work."""
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.world.do(lambda: self.world.broker.received(self.channel, data))

    def drop(self) -> None:
        """The network is gone, without a word."""
        self.closed = True
        self.world.do(lambda: self.world.broker.lost(self.channel))

    def take(self, kind: type[P]) -> P:
        """The next packet, which has to be of this kind."""
        assert self.inbox, f"no {kind.__name__}, nothing came"
        packet = self.inbox.pop(0)
        assert isinstance(packet, kind), f"{packet!r} instead of {kind.__name__}"
        return packet

    def take_all(self, kind: type[P]) -> list[P]:
        """Everything that came, which has to be of this kind."""
        return [self.take(kind) for _packet in list(self.inbox)]

    def subscribe(self, *filters: str, qos: int = 2, packet_id: int = 1, **options: object) -> list[int]:
        """Subscribe, and return the reasons of the SUBACK; what follows it stays in the inbox."""
        lines = tuple(Subscription(parse_filter(text.encode()), qos, **options) for text in filters)  # type: ignore[arg-type]
        self.send(Subscribe(packet_id, lines))
        return list(self.take(Suback).reasons)

    def payloads(self) -> list[bytes]:
        """Payloads of the messages that came, and nothing else came."""
        return [packet.payload for packet in self.take_all(Publish)]
