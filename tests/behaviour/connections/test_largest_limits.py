"""The largest numbers that a client may state, and an operator may set: all of them fit where connections keep them."""

import pytest

from holdfast.broker.policy import Mqtt, Policy
from holdfast.model.protocol import V5, V311
from holdfast.wire.framing import MAX_PACKET_BYTES
from holdfast.wire.packets import Ack, Connack, Connect, Publish
from holdfast.wire.properties import Properties
from tests.world import World

pytestmark = pytest.mark.compiled

U16, U32 = 0xFFFF, 0xFFFF_FFFF


def test_a_client_that_states_the_largest_limits_is_served() -> None:
    policy = Policy(
        mqtt=Mqtt(max_packet_size=MAX_PACKET_BYTES, receive_maximum=U16, max_inflight=U16, topic_alias_maximum=U16)
    )
    with World(policy) as world:
        limits = Properties(
            session_expiry_interval=U32, receive_maximum=U16, maximum_packet_size=U32, topic_alias_maximum=U16
        )
        peer = world.connect("c", clean_start=False, keep_alive_s=U16, properties=limits)
        assert peer.connack.properties.topic_alias_maximum == U16
        peer.subscribe("a", qos=1)
        peer.send(Publish("a", b"1", 1, U16, properties=Properties(topic_alias=U16)))
        assert peer.take(Ack).packet_id == U16
        sent = peer.take(Publish)
        assert (sent.topic, sent.payload) == ("a", b"1")
        assert sent.properties.topic_alias is not None, "it takes aliases"
        channel = peer.channel
        assert (channel.receive_limit, channel.alias_limit_in, channel.alias_limit_out) == (U16, U16, U16)
        assert channel.max_packet_bytes == MAX_PACKET_BYTES, "none can be larger"
        world.advance(U16)
        assert not peer.closed
        world.advance(U16)
        assert peer.closed, "one and a half times its keep alive"


def test_a_link_may_hold_back_as_much_as_a_packet_has() -> None:
    """An incomplete frame of WebSocket is counted by its bytes."""
    with World() as world:
        peer = world.connect("c")
        world.do(lambda: world.broker.unfinished(peer.channel, MAX_PACKET_BYTES))
        assert peer.channel.unfinished_bytes() == MAX_PACKET_BYTES
        world.do(lambda: world.broker.unfinished(peer.channel, 0))
        assert peer.channel.unfinished_bytes() == 0


@pytest.mark.parametrize("version", [V311, V5])
def test_a_bridge_and_any_version_are_told_apart(version: int) -> None:
    with World() as world:
        peer = world.peer(version)
        peer.send(Connect(version, "c", bridge=version == V311))
        peer.take(Connack)
        assert peer.channel.version == version
