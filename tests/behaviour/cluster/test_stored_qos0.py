"""QoS 0 that a zone stores: it lies in the log, and what reads the log finds it at once."""

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from tests.cluster_world import ClusterWorld


def test_a_stored_qos_0_message_counts_as_delivered_when_it_is_applied() -> None:
    """A replay reads up to what was delivered: else it would end before such a message until another one comes."""
    with ClusterWorld() as world:
        exchange = world.nodes[0].broker.exchange
        message = Message(b"a", b"x", 0, ClientId("writer"), 1)
        message.shard, message.position_us = 1, 77
        exchange.deliver([message])
        assert exchange.delivered[1] == 77
