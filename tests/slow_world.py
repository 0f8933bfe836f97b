"""A world whose receipts come when the test says so, and short ways to say common things.

`SlowWorld.hold` keeps receipts back, `receipts` hands them out (all, or up to a batch), `release` goes back to
receipts at once.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.sessions.session_store import MemorySessions
from holdfast.model.protocol import V5
from holdfast.node.assembly import memory_stores
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Connack,
    Connect,
    Packet,
    Subscribe,
    Subscription,
)
from holdfast.wire.properties import Properties
from tests.world import Peer, World

KEPT = Properties(session_expiry_interval=100)
MOUNTED = Origin("test", "127.0.0.1", 1, "tcp", mount_point="t1/", allow_anonymous=True)
MOUNTED_2 = Origin("test", "127.0.0.1", 1, "tcp", mount_point="t2/", allow_anonymous=True)


class DelayedLog:
    """Writes at once, as a log does; receipts come when they are asked for."""

    def __init__(self, sessions: MemorySessions) -> None:
        self.sessions = sessions
        self.delayed = False
        self.last = 0
        #: Sessions whose steps are not applied.
        self.rejecting: set[str] = set()

    def write(self, batch: Batch) -> Receipt | None:
        assert batch.number == self.last + 1
        self.last = batch.number
        self.sessions.apply([step for step in [*batch.steps, *batch.progress] if step.client_id not in self.rejecting])
        return None if self.delayed else Receipt(batch.number)

    def busy(self) -> bool:
        return False


class SlowWorld(World):
    def make_stores(self, policy: Policy) -> Stores:
        sessions = MemorySessions()
        self.log = DelayedLog(sessions)
        return replace(memory_stores(policy), log=self.log, sessions=sessions)

    def hold(self) -> None:
        self.log.delayed = True

    def receipts(self, upto: int | None = None) -> None:
        """Hand out receipts."""
        self.do(lambda: self.broker.exchange.committed(Receipt(self.log.last if upto is None else upto)))

    def release(self) -> None:
        self.log.delayed = False
        self.receipts()


def at_once(world: World, *what: tuple[Peer, Packet]) -> None:
    """Several peers send within one turn of the loop."""

    def act() -> None:
        for peer, packet in what:
            world.broker.received(peer.channel, encode(packet, peer.version))

    world.do(act)


def subscribe(text: str, qos: int = 1, packet_id: int = 50, identifier: int = 0) -> Subscribe:
    properties = Properties(subscription_identifiers=(identifier,)) if identifier else Properties()
    return Subscribe(packet_id, (Subscription(parse_filter(text.encode()), qos),), properties)


def connect(client_id: str, **options: Any) -> Connect:
    return Connect(V5, client_id, clean_start=False, properties=Properties(session_expiry_interval=100, **options))


def kept(world: World, client_id: str, **options: Any) -> Peer:
    peer = world.peer()
    peer.send(connect(client_id, **options))
    peer.take(Connack)
    return peer


def rules(tmp_path: Path, text: str) -> Authenticator:
    path = tmp_path / "access"
    path.write_text(text)
    return Authenticator(None, path)
