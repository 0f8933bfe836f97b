"""Bounds on what clients leave behind: sessions and retained messages."""

import pytest

from holdfast.broker.policy import Limits, Policy
from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import NO_MATCHING_SUBSCRIBERS, QUOTA_EXCEEDED, SUCCESS
from holdfast.wire.codec import encode
from holdfast.wire.packets import Ack, Connack, Connect, Publish, Will
from holdfast.wire.properties import Properties
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

KEPT = Properties(session_expiry_interval=3600)


def refused(world: World, client_id: str, version: int = V5) -> int:
    peer = world.peer(version)
    peer.send(Connect(version, client_id))
    reason = peer.take(Connack).reason
    assert peer.closed
    return reason


def test_beyond_the_limit_of_sessions_new_ones_are_refused_and_old_ones_resumed() -> None:
    with World(Policy(limits=Limits(max_sessions=2))) as world:
        kept = world.connect("kept", properties=KEPT)
        world.connect("online")
        assert refused(world, "new") == QUOTA_EXCEEDED
        assert refused(world, "new", V311) == 3
        assert world.broker.exchange.counters.refusals[QUOTA_EXCEEDED] == 2
        kept.drop()
        assert refused(world, "new") == QUOTA_EXCEEDED, "a session without a connection counts as well"
        again = world.connect("kept", clean_start=False, properties=KEPT)
        assert (again.connack.reason, again.connack.session_present) == (SUCCESS, True)
        again.drop()
        fresh = world.connect("kept", clean_start=True)
        assert (fresh.connack.reason, fresh.connack.session_present) == (SUCCESS, False)
        fresh.drop()
        assert world.connect("new").connack.reason == SUCCESS


def test_a_client_refused_for_lack_of_room_leaves_nothing_behind() -> None:
    with World(Policy(limits=Limits(max_sessions=1))) as world:
        first = world.connect("first")
        for _time in range(3):
            assert refused(world, "new") == QUOTA_EXCEEDED
        assert list(world.broker.sessions.clients) == ["first"]
        assert len(world.broker.connections) == 1
        first.drop()
        assert world.connect("new").connack.reason == SUCCESS


def publish(peer: Peer, topic: str, payload: bytes) -> int:
    peer.send(Publish(topic, payload, 1, 1, retain=True))
    return peer.take(Ack).reason


def retained(world: World) -> set[tuple[str, bytes]]:
    reader = world.connect("reader")
    reader.subscribe("#", qos=0)
    found = {(message.topic, message.payload) for message in reader.take_all(Publish)}
    reader.drop()
    return found


def test_beyond_the_limit_of_retained_messages_only_known_topics_may_change() -> None:
    with World(Policy(limits=Limits(max_retained=2))) as world:
        writer = world.connect("writer")
        for topic in ("a", "b"):
            assert publish(writer, topic, b"1") == NO_MATCHING_SUBSCRIBERS
        assert publish(writer, "c", b"1") == QUOTA_EXCEEDED
        assert publish(writer, "c", b"") == NO_MATCHING_SUBSCRIBERS, "there is nothing to keep"
        assert publish(writer, "a", b"2") == NO_MATCHING_SUBSCRIBERS
        writer.send(Publish("d", b"1", 0, retain=True))
        assert retained(world) == {("a", b"2"), ("b", b"1")}
        assert world.broker.exchange.counters.drops == {"retained_full": 2}
        publish(writer, "a", b"")
        assert publish(writer, "c", b"3") == NO_MATCHING_SUBSCRIBERS
        assert retained(world) == {("b", b"1"), ("c", b"3")}


def test_a_will_beyond_the_limit_is_published_and_not_kept() -> None:
    with World(Policy(limits=Limits(max_retained=1))) as world:
        publish(world.connect("writer"), "a", b"1")
        watcher = world.connect("watcher")
        watcher.subscribe("will")
        world.connect("mortal", will=Will("will", b"gone", 0, retain=True)).drop()
        assert watcher.payloads() == [b"gone"]
        assert retained(world) == {("a", b"1")}


def test_new_limits_hold_at_once() -> None:
    with World() as world:
        writer = world.connect("writer")
        publish(writer, "a", b"1")
        world.do(lambda: world.broker.change_policy(Policy(limits=Limits(max_retained=1, max_sessions=1))))
        assert publish(writer, "b", b"1") == QUOTA_EXCEEDED
        assert refused(world, "new") == QUOTA_EXCEEDED
        world.do(lambda: world.broker.change_policy(Policy(limits=Limits(max_retained=0, max_sessions=0))))
        assert publish(writer, "b", b"1") == NO_MATCHING_SUBSCRIBERS
        assert world.connect("new").connack.reason == SUCCESS


def test_one_client_gets_few_messages_on_new_topics_into_one_loop_iteration() -> None:
    """Each is matched, learnt and indexed: others have their turn after 250 of them, and after 2,000 on known ones."""
    with World() as world:
        writer = world.connect("writer")
        counters = world.broker.exchange.counters

        def taken(topics: list[str]) -> int:
            data = b"".join(encode(Publish(topic, b""), V5) for topic in topics)
            before = counters.messages_in
            world.begin(lambda: world.broker.received(writer.channel, data))
            world.iterate()
            first = counters.messages_in - before
            world.settle()
            assert counters.messages_in - before == len(topics), "the others follow"
            return first

        assert taken([f"t/{number}" for number in range(1000)]) == 250
        world.settle()
        assert taken(["t/1"] * 5000) > 1900
