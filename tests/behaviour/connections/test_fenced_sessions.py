"""A receipt that names sessions which were fenced: another channel has them, and this node's last steps for them were
rejected. The log says which; it is a log of the tests' own here.
"""

from holdfast.durable.commit import Batch, Receipt
from holdfast.wire.packets import Ack, Connack, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.slow_world import SlowWorld, at_once, connect, kept
from tests.world import Peer


class FencingWorld(SlowWorld):
    def fence(self, *session_ids: str) -> None:
        """Everything that was written has its receipt, but for these sessions it was rejected."""
        receipt = Receipt(self.log.last, frozenset(session_ids))
        self.do(lambda: self.broker.exchange.committed(receipt))


def numbered(number: int, packet_id: int) -> Publish:
    properties = Properties(user_properties=(("publish-number", str(number)),))
    return Publish("a", b"%d" % number, 1, packet_id, properties=properties)


def assert_taken_over(peer: Peer) -> None:
    assert peer.take(Disconnect).reason == 0x8E, "nothing came before it"
    assert peer.closed


def test_what_was_rejected_is_neither_acknowledged_nor_delivered() -> None:
    """A1: others of the same batch are."""
    with FencingWorld() as world:
        subscriber = kept(world, "subscriber")
        subscriber.subscribe("a", qos=1)
        old, other = kept(world, "old"), kept(world, "other")
        world.hold()
        at_once(world, (old, Publish("a", b"old", 1, 1)), (other, Publish("a", b"other", 1, 1)))
        world.fence("old")
        assert subscriber.payloads() == [b"other"]
        assert other.take(Ack).packet_id == 1
        assert_taken_over(old)


def test_a_subscriber_that_was_fenced_is_not_sent_what_its_new_owner_sends() -> None:
    """A2: an entry in flight that was rejected is not in flight."""
    with FencingWorld() as world:
        subscriber = kept(world, "subscriber")
        subscriber.subscribe("a", qos=2)
        publisher = kept(world, "publisher")
        world.hold()
        publisher.send(Publish("a", b"1", 2, 1))
        world.receipts()
        assert subscriber.inbox == [], "its entry in flight is not committed yet"
        world.fence("subscriber")
        assert_taken_over(subscriber)


def test_nothing_is_written_for_a_session_that_was_fenced_and_its_will_stays() -> None:
    """A1, A17: the will is the new owner's matter."""
    with FencingWorld() as world:
        watcher = kept(world, "watcher")
        watcher.subscribe("will", qos=1)
        old = world.connect(
            "old", clean_start=False, properties=Properties(session_expiry_interval=100), will=Will("will", b"gone", 1)
        )
        world.hold()
        old.send(Publish("a", b"x", 1, 1))
        written: list[Batch] = []
        write = world.log.write
        world.log.write = lambda batch: (written.append(batch), write(batch))[1]  # type: ignore[method-assign, func-returns-value]
        world.fence("old")
        assert_taken_over(old)
        world.release()
        world.clock.advance(200_000_000)
        world.settle()
        assert [step for batch in written for step in batch.steps] == []
        assert watcher.payloads() == []


def test_a_client_that_returns_gets_the_session_that_is_stored_and_not_the_one_in_memory() -> None:
    """A9, A15: what a fenced record has left here counts for nothing: QoS 2 ids and numbers are judged again."""
    with FencingWorld() as world:
        subscriber = kept(world, "subscriber")
        subscriber.subscribe("a", qos=1)
        old = kept(world, "old")
        world.hold()
        world.log.rejecting = {"old"}
        at_once(world, (old, Publish("a", b"twice", 2, 7)), (old, numbered(5, 8)))
        world.fence("old")
        assert_taken_over(old)
        world.log.rejecting = set()
        world.release()
        back = world.peer()
        back.send(connect("old"))
        assert back.take(Connack).session_present
        back.send(Publish("a", b"twice", 2, 7, dup=True))
        assert back.take(Ack).packet_id == 7
        back.send(numbered(5, 8))
        assert back.take(Ack).packet_id == 8
        assert subscriber.payloads() == [b"twice", b"5"], "stored once each, and not only acknowledged"
