"""Sessions that an administrator ends, and queues that he empties."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.exchange.drops import DISCONNECTED, DROP_PURGED, DROP_SESSION_ENDED
from holdfast.model.errors import PermanentError
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.model.reasons import ADMINISTRATIVE_ACTION
from holdfast.wire.packets import Ack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.queue_world import QueueWorld
from tests.slow_world import kept
from tests.world import World

Result = TypeVar("Result")


def run(world: World, work: Callable[[], Awaitable[Result]]) -> Result:
    """The result of something that runs on the world's loop."""
    found: list[Result | BaseException] = []

    async def do() -> None:
        try:
            found.append(await work())
        except Exception as error:
            found.append(error)

    tasks: list[asyncio.Task[None]] = []
    world.do(lambda: tasks.append(world._loop.create_task(do())))
    world.settle()
    (result,) = found
    if isinstance(result, BaseException):
        raise result
    return result


def purge(world: World, session_id: str, bound: Callable[[Mapping[int, int]], int] | None = None) -> int | None:
    return run(world, lambda: world.broker.administration.purge(session_id, bound))


def end(world: World, session_id: str) -> bool:
    async def do() -> bool:
        return world.broker.end_session(session_id, "because")

    return run(world, do)


def events(world: World, reason: str) -> list[tuple[str, int]]:
    drops = world.broker.exchange.drops
    drops.close_window()
    return [(event.client, event.count) for event in drops.recent if event.reason == reason]


# ---- end


def test_the_end_of_a_session_disconnects_its_client_and_leaves_nothing(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a")
        peer.subscribe("t")
        assert end(world, "a")
        goodbye = peer.take(Disconnect)
        assert goodbye.reason == ADMINISTRATIVE_ACTION
        assert goodbye.properties.reason_string == "because"
        assert world.client_of("a") is None
        assert world.count_keys("a") == 0
        assert len(world.broker.exchange.routes) == 0
        assert events(world, DROP_SESSION_ENDED) == [("a", 0)]
        assert events(world, DISCONNECTED) == [("a", 1)]
        assert not kept(world, "a").connack.session_present
        assert world.broker.connections.clients == 1


def test_a_stored_session_without_a_connection_is_ended(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a")
        peer.subscribe("t")
        peer.drop()
        assert world.client_of("a") is None, "it is in the store alone"
        assert end(world, "a")
        assert world.count_keys("a") == 0
        assert not end(world, "a")
        assert events(world, DROP_SESSION_ENDED) == [("a", 0)]


def test_a_session_in_memory_without_a_connection_is_ended() -> None:
    with World() as world:
        peer = kept(world, "a")
        peer.subscribe("t", qos=1)
        peer.drop()
        world.connect("writer").send(Publish("t", b"", 1, 1))
        assert end(world, "a")
        assert world.client_of("a") is None
        assert world.drops()[DROP_SESSION_ENDED] == 1


@pytest.mark.parametrize("connected", [True, False])
def test_a_will_that_waits_is_published_with_the_end_of_its_session(tmp_path: Path, connected: bool) -> None:
    """[MQTT-3.1.3-9]"""
    with DiskWorld(tmp_path) as world:
        reader = world.connect("reader")
        reader.subscribe("will")
        peer = world.peer()
        will = Will("will", b"gone", 0, retain=False, properties=Properties(will_delay_interval=50))
        peer.send(Connect(V5, "a", properties=Properties(session_expiry_interval=100), will=will))
        if not connected:
            peer.drop()
        assert reader.inbox == []
        assert end(world, "a")
        assert reader.payloads() == [b"gone"]


def test_a_session_that_ends_with_its_connection_is_ended() -> None:
    with World() as world:
        peer = world.connect("a")
        assert end(world, "a")
        assert peer.closed
        assert world.client_of("a") is None


def test_what_is_no_session_is_not_ended() -> None:
    with World() as world:
        assert not end(world, "a")


# ---- purge


def test_a_queue_in_memory_is_emptied_and_what_is_in_flight_stays() -> None:
    with World() as world:
        peer = kept(world, "a", receive_maximum=1)
        peer.subscribe("t", qos=1)
        world.connect("writer").send(*(Publish("t", b"%d" % number, 1, number + 1) for number in range(5)))
        (first,) = peer.take_all(Publish)
        assert purge(world, "a") == 4
        assert world.drops()[DROP_PURGED] == 4
        assert events(world, DROP_PURGED) == [("a", 4)]
        peer.send(Ack(PUBACK, first.packet_id))
        assert peer.inbox == []
        world.connect("writer").send(Publish("t", b"new", 1, 1))
        assert payloads(peer) == [b"new"]


def test_the_backlog_of_a_connected_session_is_skipped_and_stays_skipped(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a", receive_maximum=1)
        peer.subscribe("t", qos=1)
        publish(world, *(("t", b"%d" % number) for number in range(5)))
        (first,) = peer.take_all(Publish)
        assert purge(world, "a", lambda _sent: 4) == 4
        assert world.drops()[DROP_PURGED] == 4
        assert events(world, DROP_PURGED) == [("a", 4)]
        peer.send(Ack(PUBACK, first.packet_id))
        assert peer.inbox == []
        publish(world, ("t", b"new"))
        assert payloads(peer) == [b"new"]
        world.tick()
    with DiskWorld(tmp_path) as world:
        assert payloads(back(world, "a")) == []


def test_what_came_after_a_purge_is_delivered_also_after_a_crash(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a", receive_maximum=1)
        peer.subscribe("t", qos=1)
        publish(world, *(("t", b"%d" % number) for number in range(5)))
        purge(world, "a")
        publish(world, ("t", b"new"))
    with DiskWorld(tmp_path) as world:
        assert payloads(back(world, "a")) == [b"0", b"new"], "the first was in flight"


def test_qos_2_goes_on_where_it_was(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a", receive_maximum=2)
        peer.subscribe("t", qos=2)
        publish(world, *(("t", b"%d" % number) for number in range(5)), qos=2)
        one, two = peer.take_all(Publish)
        peer.send(Ack(PUBREC, one.packet_id))
        assert peer.take(Ack).kind == PUBREL
        purge(world, "a")
        peer.send(Ack(PUBCOMP, one.packet_id), Ack(PUBREC, two.packet_id))
        assert peer.take(Ack).kind == PUBREL
        peer.send(Ack(PUBCOMP, two.packet_id))
        assert peer.inbox == []
        publish(world, ("t", b"new"), qos=2)
        assert payloads(peer) == [b"new"]
        client = world.client_of("a")
        assert client is not None
        assert len(client.session.window) == 0


@pytest.mark.parametrize("acknowledged", [True, False])
def test_the_backlog_of_a_stored_session_is_skipped(tmp_path: Path, acknowledged: bool) -> None:
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "a")
        peer.subscribe("t", qos=1)
        publish(world, ("t", b"first"))
        if acknowledged:
            assert payloads(peer) == [b"first"]
        peer.drop()
        publish(world, *(("t", b"%d" % number) for number in range(5)))
        assert world.client_of("a") is None
        assert purge(world, "a", lambda _sent: 5) == 5
        assert events(world, DROP_PURGED) == [("a", 5)]
        publish(world, ("t", b"new"))
        assert payloads(back(world, "a")) == ([b"new"] if acknowledged else [b"first", b"new"])


def test_an_empty_queue_is_emptied_without_a_drop(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        kept(world, "a").subscribe("t", qos=1)
        assert purge(world, "a") == 0
        assert DROP_PURGED not in world.drops()
        assert events(world, DROP_PURGED) == []


def test_what_is_no_session_has_no_queue(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        assert purge(world, "a") is None


def test_an_external_queue_cannot_be_emptied() -> None:
    with QueueWorld() as world:
        peer = kept(world, "a")
        peer.subscribe("t", qos=1)
        with pytest.raises(PermanentError, match="holdfast sessions end"):
            purge(world, "a")
