"""A queue backend that the product has never heard of: it is a `QueueStore`, and its name is said once, in assembly.

Neither the exchange nor the broker knows which backends there are, so a message finds its way through a new one without
a change in either. What a node needs besides is one line in `node.queue_stores.OPENERS` and the name in the settings.
"""

from dataclasses import replace
from typing import cast

from holdfast.broker.policy import Policy, QueueBackendName, Sessions
from holdfast.broker.stores import Stores
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.wire.packets import Ack, Publish
from tests.memory_queue_store import MemoryQueueStore
from tests.slow_world import SlowWorld, kept

BACKEND = cast("QueueBackendName", "fifth")


class FifthWorld(SlowWorld):
    """Every session that outlives its connection has its queue in the new backend."""

    def __init__(self) -> None:
        super().__init__(Policy(sessions=Sessions(queue=BACKEND)))

    def make_stores(self, policy: Policy) -> Stores:
        return replace(super().make_stores(policy), queue_backends={BACKEND: MemoryQueueStore(self.clock)})


def test_an_absent_client_finds_its_messages_in_a_new_backend() -> None:
    with FifthWorld() as world:
        kept(world, "reader").subscribe("a/#", qos=2)
        world.connect("other")
        kept(world, "reader").drop()
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 1, 1))
        writer.send(Publish("a/b", b"2", 2, 2))
        assert writer.take_all(Ack) == [Ack(PUBACK, 1), Ack(PUBREC, 2)]

        reader = kept(world, "reader")
        first, second = reader.take_all(Publish)
        assert [(first.payload, first.qos), (second.payload, second.qos)] == [(b"1", 1), (b"2", 2)]
        reader.send(Ack(PUBACK, first.packet_id))
        reader.send(Ack(PUBREC, second.packet_id))
        assert reader.take(Ack) == Ack(PUBREL, second.packet_id)
