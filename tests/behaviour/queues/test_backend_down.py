"""A home of client queues that does not answer: who is concerned waits, others go on, and it heals by itself."""

import asyncio

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.exchange.drops import DROP_AWAY, DROP_UNREADABLE, QUEUES_AWAY, QUEUES_BACK
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V311
from holdfast.model.reasons import QUOTA_EXCEEDED, UNSPECIFIED_ERROR
from holdfast.wire.packets import Ack, Disconnect, Packet, Pingreq, Publish
from tests.queue_world import BACKEND, QueueWorld
from tests.slow_world import kept, subscribe
from tests.world import Peer


def acks(peer: Peer) -> list[tuple[int, int]]:
    return [(ack.kind, ack.packet_id) for ack in peer.take_all(Ack)]


def readers(world: QueueWorld) -> tuple[Peer, Peer]:
    """One whose queue is outside, and one that has none, because its session ends with its connection."""
    outside_reader = kept(world, "outside")
    outside_reader.subscribe("a/#", qos=2)
    other = world.connect("other")
    other.subscribe("a/#", "b/#", qos=2)
    return outside_reader, other


def test_publishers_wait_others_go_on_and_it_heals() -> None:
    """T13: retried within bounds; nothing is lost and nothing comes twice."""
    with QueueWorld() as world:
        reader, other = readers(world)
        first, second = world.connect("first"), world.connect("second")
        world.store.away = True
        first.send(Publish("a/x", b"1", 1, 1))
        second.send(Publish("b/x", b"2", 1, 1))
        assert not first.inbox
        assert acks(second) == [(PUBACK, 1)]
        assert other.payloads() == [b"1", b"2"]
        assert not reader.inbox
        assert world.broker.exchange.external.backends[BACKEND].away
        world.advance(0.1)
        assert not first.inbox
        world.store.away = False
        world.advance(5)
        assert acks(first) == [(PUBACK, 1)]
        assert reader.payloads() == [b"1"]
        assert not world.broker.exchange.external.backends[BACKEND].away
        noted = [event.reason for event in world.broker.exchange.drops.take()]
        assert (noted.count(QUEUES_AWAY), noted.count(QUEUES_BACK)) == (1, 1)


def test_acknowledgements_leave_a_connection_in_the_order_of_its_packets() -> None:
    """Q6: what needs no queue waits behind what does; other connections do not."""
    with QueueWorld() as world:
        _reader, _other = readers(world)
        writer = world.connect("writer")
        writer.send(Publish("b/0", b"0", 2, 1))
        assert acks(writer) == [(PUBREC, 1)]
        world.store.away = True
        writer.send(Publish("a/x", b"1", 1, 2), Publish("b/x", b"2", 1, 3), Ack(PUBREL, 1), Publish("a/x", b"3", 2, 4))
        assert not writer.inbox
        writer.send(Pingreq(), subscribe("c/#", packet_id=9))
        answers: list[Packet] = [writer.inbox.pop(0), writer.inbox.pop(0)]
        assert [type(answer).__name__ for answer in answers] == ["Pingresp", "Suback"]
        world.store.away = False
        world.advance(5)
        assert acks(writer) == [(PUBACK, 2), (PUBACK, 3), (PUBCOMP, 1), (PUBREC, 4)]


def test_an_answer_that_was_lost_does_not_double_the_message() -> None:
    """T13: a queue knows by the number what it has."""
    with QueueWorld() as world:
        reader, _other = readers(world)
        writer = world.connect("writer")
        world.store.deaf = True
        writer.send(Publish("a/x", b"1", 1, 1))
        world.advance(0.2)
        assert len(world.store.appends) > 1
        world.store.deaf = False
        world.store.forgetful = True
        world.advance(5)
        assert acks(writer) == [(PUBACK, 1)]
        assert reader.payloads() == [b"1"]
        assert world.size("outside") == 1


def test_one_queue_that_fails_for_a_while_does_not_hold_up_the_others() -> None:
    with QueueWorld() as world:
        slow = kept(world, "slow")
        slow.subscribe("a/#", qos=1)
        fast = kept(world, "fast")
        fast.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        world.store.errors["slow"] = TransientError("its server is away")
        writer.send(Publish("a/x", b"1", 1, 1), Publish("a/x", b"2", 1, 2))
        assert fast.payloads() == [b"1", b"2"]
        writer.send(Publish("a/x", b"3", 1, 3))
        assert fast.payloads() == [b"3"]
        assert not writer.inbox
        world.store.errors.clear()
        world.advance(5)
        assert acks(writer) == [(PUBACK, 1), (PUBACK, 2), (PUBACK, 3)]
        assert slow.payloads() == [b"1", b"2", b"3"]


def test_a_publisher_with_too_much_unanswered_is_not_read_from() -> None:
    with QueueWorld() as world:
        world.broker.exchange.acks.max_deferred = 10
        reader, _other = readers(world)
        writer = world.connect("writer", V311)
        idle = world.connect("idle", V311)
        world.store.away = True
        for number in range(1, 11):
            assert writer.reading
            writer.send(Publish("a/x", b"%d" % number, 1, number))
        assert not writer.reading
        assert idle.reading
        world.store.away = False
        world.advance(5)
        assert writer.reading
        assert acks(writer) == [(PUBACK, number) for number in range(1, 11)]
        assert reader.payloads() == [b"%d" % number for number in range(1, 11)]


def test_a_connection_that_goes_while_it_waits_leaves_its_messages() -> None:
    with QueueWorld() as world:
        reader, _other = readers(world)
        writer = kept(world, "writer")
        world.store.away = True
        writer.send(Publish("a/x", b"1", 2, 1))
        writer.drop()
        writer = kept(world, "writer")
        writer.send(Publish("a/x", b"1", 2, 1, dup=True))
        assert acks(writer) == [(PUBREC, 1)]
        world.store.away = False
        world.advance(5)
        assert not writer.inbox
        assert reader.payloads() == [b"1"]


def test_messages_can_be_refused_instead() -> None:
    policy = Policy(sessions=Sessions(queue=BACKEND, on_queue_away="refuse"))
    with QueueWorld(policy) as world:
        reader, _other = readers(world)
        writer, old = world.connect("writer"), world.connect("old", V311)
        world.store.away = True
        writer.send(Publish("a/x", b"1", 1, 1))
        assert not writer.inbox
        writer.send(Publish("a/x", b"2", 1, 2), Publish("b/x", b"3", 1, 3))
        world.store.away = False
        world.advance(5)
        assert [(ack.packet_id, ack.reason) for ack in writer.take_all(Ack)] == [(1, 0), (2, QUOTA_EXCEEDED), (3, 0)]
        assert reader.payloads() == [b"1"]
        assert world.broker.exchange.counters.drops[DROP_AWAY] == 1
        world.store.away = True
        writer.send(Publish("a/x", b"4", 1, 4))
        old.send(Publish("a/x", b"5", 1, 5))
        assert old.closed


def test_a_queue_that_cannot_be_read_costs_its_client_the_connection_and_nobody_else() -> None:
    """T11: a failed load disconnects with a reason instead of skipping."""
    with QueueWorld() as world:
        reader = kept(world, "outside")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        writer = world.connect("writer")
        writer.send(Publish("a/x", b"1", 1, 1))
        world.store.errors["outside"] = PermanentError("its file is damaged")
        reader = kept(world, "outside")
        assert reader.take(Disconnect).reason == UNSPECIFIED_ERROR
        assert reader.closed
        writer.send(Publish("a/x", b"2", 1, 2))
        assert acks(writer) == [(PUBACK, 1), (PUBACK, 2)]
        assert world.broker.exchange.counters.drops[DROP_UNREADABLE] == 1
        world.store.errors.clear()
        writer.send(Publish("a/x", b"3", 1, 3))
        assert kept(world, "outside").payloads() == [b"1", b"3"]


def test_what_comes_for_a_queue_that_was_set_aside_goes_into_the_new_one() -> None:
    """S5: the client is told, and loses what was damaged and no more."""
    with QueueWorld() as world:
        reader, _other = readers(world)
        writer = world.connect("writer")
        world.store.once["outside"] = PermanentError("its file is damaged")
        writer.send(Publish("a/x", b"1", 1, 1))
        assert acks(writer) == [(PUBACK, 1)]
        assert reader.take(Disconnect).reason == UNSPECIFIED_ERROR
        assert kept(world, "outside").payloads() == [b"1"]


def test_a_home_that_has_lost_its_queues_is_noticed_and_loses_nothing_more() -> None:
    """T11: a Redis without persistence that was restarted gives out the same places again."""
    with QueueWorld() as world:
        reader, _other = readers(world)
        writer = world.connect("writer")
        writer.send(*(Publish("a/x", b"old", 1, number) for number in range(1, 6)))
        for message in reader.take_all(Publish):
            reader.send(Ack(PUBACK, message.packet_id))
        assert world.size("outside") == 0
        world.do(lambda: world.store.store.forget_everything())
        writer.send(Publish("a/x", b"1", 2, 6), Publish("a/x", b"2", 1, 7))
        assert reader.take(Disconnect).reason == UNSPECIFIED_ERROR
        reader = kept(world, "outside")
        got = reader.take_all(Publish)
        assert [message.payload for message in got] == [b"1", b"2"]
        reader.send(Ack(PUBREC, got[0].packet_id), Ack(PUBACK, got[1].packet_id))
        reader.send(Ack(PUBCOMP, got[0].packet_id))
        writer.send(Publish("a/x", b"3", 1, 8))
        assert [packet.payload for packet in reader.inbox if isinstance(packet, Publish)] == [b"3"]
        assert world.size("outside") == 1


@pytest.mark.parametrize("answers", [True, False])
def test_acknowledgements_of_a_lost_queue_do_not_reach_the_new_one(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T11: they were on their way when the loss was noticed, and the new queue has given out the same serials."""
    with QueueWorld() as world:
        reader, _other = readers(world)
        writer = world.connect("writer")
        writer.send(*(Publish("a/x", b"old", 1, number) for number in range(1, 4)))
        gate = asyncio.Event()

        async def on_its_way(_done: list[tuple[str, list[int]]]) -> None:
            await gate.wait()
            if not answers:
                raise TransientError("the store is away")

        with monkeypatch.context() as held:
            held.setattr(world.store, "acknowledge", on_its_way)
            for message in reader.take_all(Publish):
                reader.send(Ack(PUBACK, message.packet_id))
            world.advance(0.1)
            world.do(lambda: world.store.store.forget_everything())
            writer.send(Publish("a/x", b"1", 1, 6), Publish("a/x", b"2", 1, 7))
            reader = kept(world, "outside")
            first, second = reader.take_all(Publish)
            world.do(gate.set)
        world.advance(5)
        assert world.size("outside") == 2
        reader.send(Ack(PUBACK, first.packet_id), Ack(PUBACK, second.packet_id))
        world.advance(5)
        assert world.size("outside") == 0


def test_a_session_that_ends_while_its_queue_is_away_holds_up_nobody() -> None:
    with QueueWorld() as world:
        _reader, _other = readers(world)
        writer = world.connect("writer")
        world.store.away = True
        writer.send(Publish("a/x", b"1", 1, 1))
        assert not writer.inbox
        world.connect("outside", clean_start=True)
        assert acks(writer) == [(PUBACK, 1)]
        world.store.away = False
        world.advance(5)
        assert world.queues() == []
