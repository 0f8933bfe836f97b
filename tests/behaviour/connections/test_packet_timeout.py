"""A packet that has begun is completed in time, or its connection ends: what it holds in memory is given back."""

import pytest

from holdfast.broker.policy import Limits, Policy
from holdfast.exchange.drops import DISCONNECTED
from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import IMPLEMENTATION_SPECIFIC_ERROR
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Connect, Disconnect, Pingreq, Pingresp, Publish
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

LARGE = encode(Publish("a", bytes(200_000), 1, 1), V5)
SMALL = encode(Publish("a", bytes(1000), 0), V5)


def limited(timeout_s: float = 30) -> Policy:
    return Policy(limits=Limits(packet_timeout_s=timeout_s))


@pytest.mark.parametrize("data", [LARGE[:150_000], SMALL[:900], LARGE[:1], LARGE[:2]])
def test_a_half_packet_is_not_held_beyond_the_timeout_without_a_keep_alive(data: bytes) -> None:
    """Keep alive 0. MQTT 5: DISCONNECT 0x83; an event says why."""
    with World(limited()) as world:
        peer = world.connect("c")
        peer.send_bytes(data)
        world.advance(29)
        assert not peer.closed
        world.advance(2)
        goodbye = peer.take(Disconnect)
        assert goodbye.reason == IMPLEMENTATION_SPECIFIC_ERROR
        assert "limits.packet_timeout_s" in (goodbye.properties.reason_string or "")
        assert peer.closed
        assert [event.reason for event in world.stores.drops.take()] == [DISCONNECTED]


def test_an_mqtt_3_client_is_closed() -> None:
    with World(limited()) as world:
        peer = world.connect("c", V311)
        peer.send_bytes(encode(Publish("a", bytes(1000)), V311)[:900])
        world.advance(31)
        assert peer.closed
        assert peer.inbox == []


def test_a_packet_that_is_behind_the_connect_in_one_read_is_watched_too() -> None:
    with World(limited()) as world:
        peer = world.peer()
        peer.send_bytes(encode(Connect(V5, "c"), V5) + SMALL[:500])
        peer.take(Connack)
        world.advance(31)
        assert peer.closed


def test_bytes_that_trickle_in_do_not_put_off_the_timeout() -> None:
    with World(limited()) as world:
        peer = world.connect("c")
        for at in range(10):
            peer.send_bytes(SMALL[at * 5 : at * 5 + 5])
            world.advance(3.5)
        assert peer.closed


def test_a_large_packet_that_comes_slowly_and_steadily_is_completed() -> None:
    """16 KiB in each time of the timeout keep it going."""
    with World(limited()) as world:
        peer = world.connect("c")
        step = 20_000
        for at in range(0, len(LARGE), step):
            peer.send_bytes(LARGE[at : at + step])
            world.advance(29)
        assert not peer.closed
        assert len(peer.inbox) == 1, "it is acknowledged"
        peer.inbox.clear()
        world.advance(100)
        assert not peer.closed, "nothing has begun"


def test_a_large_packet_that_stops_after_a_while_is_given_up() -> None:
    with World(limited()) as world:
        peer = world.connect("c")
        for at in range(0, 60_000, 20_000):
            peer.send_bytes(LARGE[at : at + 20_000])
            world.advance(29)
        for _second in range(62):
            world.advance(1)
        assert peer.closed


def test_each_packet_has_its_own_time() -> None:
    """A stream of packets that is cut anywhere by the network is never late."""
    with World(limited()) as world:
        peer = world.connect("c")
        stream = SMALL * 20
        for at in range(0, len(stream), 600):
            peer.send_bytes(stream[at : at + 600])
            world.advance(10)
        assert not peer.closed


def test_a_client_that_is_not_read_from_is_not_late() -> None:
    with World(limited()) as world:
        peer = world.connect("c")
        peer.send_bytes(SMALL[:500])
        world.do(lambda: world.broker.writable(peer.channel, yes=False))
        world.advance(100)
        assert not peer.closed
        world.do(lambda: world.broker.writable(peer.channel, yes=True))
        peer.send_bytes(SMALL[500:])
        world.advance(100)
        assert not peer.closed


def test_a_frame_that_the_link_holds_back_counts_like_a_packet() -> None:
    """A WebSocket frame that is not complete yet: its bytes have not come in as far as MQTT is concerned."""
    with World(limited()) as world:
        peer, pings = world.connect("c"), world.connect("pings")
        tell(world, peer, 100_000)
        for _second in range(31):
            tell(world, pings, 3)
            pings.send(Pingreq())
            tell(world, pings, 0)
            world.advance(1)
        assert peer.closed
        assert not pings.closed
        assert len(pings.take_all(Pingresp)) == 31


def tell(world: World, peer: Peer, size_bytes: int) -> None:
    world.do(lambda: world.broker.unfinished(peer.channel, size_bytes))


def test_the_timeout_can_be_switched_off() -> None:
    with World(limited(0)) as world:
        peer = world.connect("c")
        peer.send_bytes(SMALL[:500])
        world.advance(100_000)
        assert not peer.closed
