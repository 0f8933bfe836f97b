"""What one client can make grow, and where it ends."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.broker.access.authenticator import Allowed, Authenticator, Verdict
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Limits, Policy, Sessions
from holdfast.exchange.client import BrokerClient
from holdfast.model.protocol import PUBACK, V5, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connect,
    Disconnect,
    Publish,
    Subscribe,
    Subscription,
)
from holdfast.wire.properties import Properties
from tests.slow_world import MOUNTED, MOUNTED_2, connect, kept, rules, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_reconnecting_with_a_long_expiry_does_not_leave_deadlines_behind() -> None:
    with World() as world:
        for _number in range(300):
            peer = world.connect("c", clean_start=False, properties=Properties(session_expiry_interval=10_000_000))
            peer.drop()
        world.advance(11)  # the connect timeouts are through
        assert len(world.broker.deadlines) < 100


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def clients_in_memory() -> int:
    return sum(type(found) is BrokerClient for found in gc.get_objects())


@pytest.mark.parametrize("no_local", [False, True])
def test_a_client_that_left_is_gone_from_memory_before_garbage_is_collected(no_local: bool) -> None:
    """It was owed messages, and would keep them: full collections are rare in a broker that has much in memory."""
    with World() as world, no_garbage_collection():
        before = clients_in_memory()
        writer = world.connect("writer")
        for number in range(20):
            reader = world.connect(f"reader-{number}")
            reader.subscribe("a/#", qos=1, no_local=no_local)
            reader.subscribe("a/b", qos=2)
            writer.send(Publish("a/b", b"x", 1, 1 + number))
            reader.drop()
        writer.drop()
        del reader, writer
        world.advance(1)
        assert clients_in_memory() == before


class SlowAuthenticator(Authenticator):
    async def authenticate(
        self,
        origin: Origin,
        client_id: str,
        user_name: str | None,
        password: bytes | None,
        gone: Callable[[], bool] = lambda: False,
    ) -> Verdict:
        self.verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self.verdict
        return Allowed(None)


def test_nothing_more_is_read_from_a_client_that_is_not_let_in_yet() -> None:
    with World(authenticator=SlowAuthenticator()) as world:
        peer = world.peer()
        peer.send(Connect(V5, "c"))
        for _number in range(20):
            if peer.reading:
                peer.send_bytes(encode(Publish("a", b"x" * 100_000), V5))
        assert len(peer.channel.framer.data) + peer.channel.framer.buffered_bytes() < 1_500_000


def test_a_client_over_its_publish_rate_is_not_read_from() -> None:
    with World(Policy(limits=Limits(publish_rate=2))) as world:
        writer = world.connect("writer", V311)
        reader = world.connect("reader", V311)
        reader.subscribe("a", qos=0)
        chunk = b"".join(encode(Publish("a", b"x"), V311) for _number in range(1000))
        fed = 0
        for _second in range(10):
            if writer.reading:
                writer.send_bytes(chunk)
                fed += 1
            world.advance(1)
        assert fed <= 1, "each second a buffer is read, and two of its messages are handled"
        assert len(reader.payloads()) <= 2 + 2 * 10


def test_repeating_a_subscription_does_not_pile_up_walks() -> None:
    with World() as world:
        writer = world.connect("writer")
        for number in range(3):
            writer.send(Publish(f"a/{number}", b"r", 1, 1, retain=True))
        peer = kept(world, "c", receive_maximum=1)
        line = Subscription(parse_filter(b"a/#"), 1)
        for number in range(100):
            peer.send(Subscribe(number + 1, (line,) * 100))
        assert len(world.broker.sessions.clients["c"].retained or ()) == 1


def test_long_topics_are_not_remembered_with_their_rights(tmp_path: Path) -> None:
    with World(authenticator=rules(tmp_path, "topic readwrite #\n")) as world:
        writer = world.connect("writer")
        for number in range(100):
            writer.send(Publish(f"{number}" + "x" * 60_000, b""))
        assert sum(map(len, writer.channel.may_publish or ())) < 1_000_000


def test_retained_messages_that_expired_are_not_kept_for_ever() -> None:
    with World() as world:
        writer = world.connect("writer")
        for number in range(100):
            brief = Properties(message_expiry_interval=1)
            writer.send(Publish(f"a/{number}", b"r", retain=True, properties=brief))
        for _hour in range(24):
            world.advance(3600)
            writer.send(Publish("b", b"r", retain=True))
        assert world.broker.retained.count() == 1


def test_what_is_in_flight_is_not_counted_as_dropped_when_the_queue_is_full() -> None:
    """The limit is for what waits beyond what is in flight; the queue drops what the window holds, and counts it."""
    with World(Policy(sessions=Sessions(max_queued_messages=3))) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        reader.drop()
        writer = world.connect("writer")
        for number in range(3):
            writer.send(Publish("a", b"%d" % number, 1, 1))
        reader = kept(world, "c", receive_maximum=3)
        for number in range(3, 6):
            writer.send(Publish("a", b"%d" % number, 1, 1))
        messages = reader.take_all(Publish)
        reader.send(*[Ack(PUBACK, message.packet_id) for message in messages])
        assert len(messages + reader.take_all(Publish)) == 6
        assert world.broker.exchange.counters.drops == {}


def test_a_session_that_ends_leaves_no_route_behind() -> None:
    with World() as world:
        peers = [world.peer(V5, MOUNTED), world.peer(V5, MOUNTED_2)]
        for peer in peers:
            peer.send(connect("c"), subscribe("a"))
        for peer in peers:
            peer.send(Disconnect(properties=Properties(session_expiry_interval=0)))
        assert world.broker.sessions.clients == {}
        assert len(world.broker.exchange.routes) == 0
