"""Sessions with very many subscriptions hold up no other client: work is counted per loop iteration, never in time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.sessions.slices import SLICE
from holdfast.model.protocol import PUBACK, V5
from holdfast.model.reasons import SESSION_TAKEN_OVER
from holdfast.node.settings.tree import ZoneSettings
from holdfast.records.session.sessions import decode_subscription
from holdfast.storage.rocks.sessions import session_store as stored_sessions
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import connect, kept
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

#: Several slices.
MANY = 6 * SLICE + 7


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DiskWorld]:
    with DiskWorld(tmp_path) as world:
        yield world


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The stored subscriptions that were decoded."""
    found: list[bytes] = []

    def count(raw: bytes, value: bytes) -> Any:
        found.append(raw)
        return decode_subscription(raw, value)

    monkeypatch.setattr(stored_sessions, "decode_subscription", count)
    return found


def subscribe_many(peer: Peer, *more: str) -> None:
    filters = [*(f"plant/{number}/+" if number % 2 else f"plant/{number}/t" for number in range(MANY)), *more]
    lines = tuple(Subscription(parse_filter(text.encode()), 2) for text in filters)
    peer.send(Subscribe(1, lines))
    assert set(peer.take(Suback).reasons) == {2}


def leave_large(world: DiskWorld, *more: str, **options: Any) -> None:
    """A session with very many subscriptions whose client is away."""
    peer = world.peer()
    peer.send(Connect(V5, "large", False, properties=Properties(session_expiry_interval=100), **options))
    peer.take(Connack)
    subscribe_many(peer, *more)
    peer.drop()
    world.settle()
    assert subscriptions(world) == 0, "an offline session is not in the matcher"


def subscriptions(world: World) -> int:
    return len(world.broker.exchange.routes)


def start(peer: Peer, *packets: Packet) -> None:
    """Send packets in the next iteration of the loop, and do not wait for what follows."""
    data = b"".join(encode(packet, V5) for packet in packets)
    peer.world.begin(lambda: peer.world.broker.received(peer.channel, data))


def restoring(world: DiskWorld) -> Peer:
    """A client whose session is half restored."""
    peer = world.peer()
    start(peer, connect("large"))
    while subscriptions(world) < MANY // 2:
        world.iterate()
    assert not peer.inbox
    return peer


def changes_of(world: World, done: Callable[[], bool]) -> list[int]:
    """How many subscriptions enter or leave the matcher in each loop iteration, up to the last change."""
    changes: list[int] = []
    before = subscriptions(world)
    for _iteration in range(100):
        world.iterate()
        changes.append(abs(subscriptions(world) - before))
        before = subscriptions(world)
        if done():
            return changes
    raise AssertionError("it does not come to an end")


def test_a_connect_loads_and_restores_a_bounded_number_of_subscriptions_per_loop_iteration(
    world: DiskWorld, decoded: list[bytes]
) -> None:
    leave_large(world)
    peer = world.peer()
    start(peer, connect("large"))
    loaded: list[int] = []

    def done() -> bool:
        loaded.append(len(decoded))
        decoded.clear()
        return subscriptions(world) == MANY

    restored = changes_of(world, done)
    assert sum(loaded) == MANY
    assert sum(restored) == MANY
    assert max(loaded) <= SLICE
    assert max(restored) <= SLICE
    world.settle()
    assert peer.take(Connack).session_present


def test_a_connect_to_a_session_of_one_slice_is_done_in_one_loop_iteration(world: DiskWorld) -> None:
    first = kept(world, "small")
    lines = tuple(Subscription(parse_filter(b"plant/%d" % number), 1) for number in range(SLICE - 10))
    first.send(Subscribe(1, lines))
    first.drop()
    assert subscriptions(world) == 0
    peer = world.peer()
    start(peer, connect("small"))
    world.iterate()
    assert subscriptions(world) == SLICE - 10
    assert peer.channel.client is not None


def test_others_are_served_between_two_slices(world: DiskWorld) -> None:
    leave_large(world)
    reader = world.connect("reader")
    reader.subscribe("other", qos=0)
    writer = world.connect("writer")
    large = world.peer()
    start(large, connect("large"))
    seen: list[int] = []
    while subscriptions(world) <= MANY:
        start(writer, Publish("other", b"m"))
        world.iterate()
        world.iterate()
        seen.append(len(reader.payloads()))
        assert len(seen) < 100
    assert len(seen) > MANY // SLICE // 2
    assert sum(seen) >= len(seen) - 1
    assert max(seen) <= 2


def test_what_is_published_between_two_slices_arrives_once(world: DiskWorld) -> None:
    """L13: also what was published before, and whether its subscription was in the matcher already or not."""
    leave_large(world)
    publish(world, ("plant/3/x", b"before"))
    writer = world.connect("writer")
    peer = world.peer()
    start(peer, connect("large"))
    sent = [b"before"]
    while subscriptions(world) < MANY:
        for number in (0, 1, MANY - 2, MANY - 1):
            packet_id = len(sent)
            sent.append(b"%d" % packet_id)
            start(writer, Publish(f"plant/{number}/t", sent[-1], 1 + packet_id % 2, packet_id))
        world.iterate()
        world.disk.engine.sync_now()
    world.settle()
    assert peer.take(Connack).session_present
    start(writer, Publish("plant/1/t", b"after", 1, 60_000))
    world.settle()
    assert len(sent) > 20
    assert sorted(payloads(peer)) == sorted([*sent, b"after"])


def test_a_client_that_leaves_between_two_slices_leaves_its_session_as_it_was(tmp_path: Path) -> None:
    """Also its groups: a session in one is in memory until the broker stops."""
    with DiskWorld(tmp_path) as world:
        peer = kept(world, "large")
        subscribe_many(peer, "$share/g/work")
        peer.drop()
        publish(world, ("plant/3/x", b"before"), ("work", b"shared"))
    with DiskWorld(tmp_path, start_us=1_700_000_001_000_000) as world:
        world.settle()
        record = world.disk.sessions.record("large")
        written = world.disk.engine.written
        peer = restoring(world)
        world.begin(lambda: world.broker.lost(peer.channel))
        assert max(changes_of(world, lambda: subscriptions(world) == 0)) <= SLICE
        world.settle()
        assert world.broker.exchange.state.batch.steps == []
        assert world.disk.engine.written == written, "nothing was stored"
        assert world.disk.sessions.record("large") == record
        publish(world, ("plant/4/t", b"after"))
        again = back(world, "large")
        assert subscriptions(world) == MANY + 1
        assert sorted(payloads(again)) == [b"after", b"before", b"shared"]


def test_a_connect_that_follows_one_that_left_between_two_slices_waits_for_the_removal(world: DiskWorld) -> None:
    leave_large(world)
    publish(world, ("plant/3/x", b"before"))
    first = restoring(world)
    second = world.peer()
    world.begin(lambda: world.broker.lost(first.channel))
    start(second, connect("large"))
    world.settle()
    assert second.take(Connack).session_present
    assert subscriptions(world) == MANY
    assert payloads(second) == [b"before"]
    world.broker.exchange.routes.check_invariants()


def test_a_takeover_between_two_slices_waits_until_the_session_is_whole(world: DiskWorld) -> None:
    leave_large(world)
    publish(world, ("plant/3/x", b"before"))
    first = restoring(world)
    second = world.peer()
    start(second, connect("large"))
    world.iterate()
    assert not second.inbox
    world.settle()
    assert first.take(Connack).session_present
    assert isinstance(first.inbox[-1], Disconnect)
    assert first.inbox[-1].reason == SESSION_TAKEN_OVER
    assert second.take(Connack).session_present
    assert payloads(second) == [b"before"]
    assert subscriptions(world) == MANY


def test_a_session_that_is_being_restored_does_not_expire(world: DiskWorld) -> None:
    leave_large(world)
    world.advance(99)
    peer = restoring(world)
    world.clock.advance(5_000_000)
    world.begin(world.broker.sessions.sweep)
    world.settle()
    assert peer.take(Connack).session_present
    assert world.broker.sessions.expired == 0


def test_a_session_whose_client_left_between_two_slices_expires(world: DiskWorld) -> None:
    leave_large(world)
    world.advance(99)
    restoring(world).drop()
    world.advance(5)
    world.do(world.broker.sessions.sweep)
    assert world.broker.sessions.expired == 1
    assert world.disk.sessions.record("large") is None


@pytest.mark.parametrize("leaves", [False, True])
def test_a_will_that_comes_due_between_two_slices_is_published_if_its_client_leaves(
    world: DiskWorld, *, leaves: bool
) -> None:
    """[MQTT-3.1.3-9]: not if a connection to the session is made in time."""
    will = Will("will", b"gone", properties=Properties(will_delay_interval=50))
    leave_large(world, will=will)
    witness = world.connect("witness")
    witness.subscribe("will")
    world.advance(49)
    peer = world.peer()
    start(peer, connect("large"))
    while subscriptions(world) < MANY // 2:
        world.iterate()
    world.clock.advance(2_000_000)
    world.begin(world.broker.deadlines.fire)
    world.iterate()
    if leaves:
        peer.drop()
    world.settle()
    assert witness.payloads() == ([b"gone"] if leaves else [])


def test_a_stop_of_the_broker_between_two_slices_leaves_the_session(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        leave_large(world)
        publish(world, ("plant/3/x", b"before"))
        restoring(world)
        world.do(world.broker.disconnect_all)
    with DiskWorld(tmp_path, start_us=1_700_000_001_000_000) as world:
        leaving = restoring(world)
        world.begin(world.broker.disconnect_all)
        world.iterate()
        assert not leaving.take(Connack).session_present
    with DiskWorld(tmp_path, start_us=1_700_000_002_000_000) as world:
        restoring(world)
    with DiskWorld(tmp_path, start_us=1_700_000_003_000_000) as world:
        assert payloads(back(world, "large")) == [b"before"]


def test_shared_subscriptions_replays_and_retained_messages_of_a_large_session_go_on(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("old/1", b"o1"), ("old/2", b"o2"))
        keeper = world.connect("keeper")
        keeper.send(*(Publish(f"kept/{number}", b"k%d" % number, 1, number, retain=True) for number in (1, 2)))
        peer = kept(world, "large")
        subscribe_many(peer)
        peer.drop()
        slow = back(world, "large", receive_maximum=1)
        texts = ("$replay/earliest/old/+", "$share/g/work", "kept/+")
        slow.send(Subscribe(1, tuple(Subscription(parse_filter(text.encode()), 1) for text in texts)))
        slow.drop()
        assert len([packet for packet in slow.inbox if isinstance(packet, Publish)]) == 1, "the rest waits"
        publish(world, ("work", b"shared"), ("old/3", b"o3"), ("plant/1/x", b"plain"))
    with DiskWorld(tmp_path, start_us=1_700_000_001_000_000) as world:
        assert subscriptions(world) == 0
        again = back(world, "large")
        assert sorted(payloads(again)) == [b"k1", b"k2", b"o1", b"o2", b"o3", b"plain", b"shared"]
        assert subscriptions(world) == MANY + 3


def test_a_large_session_gets_what_each_zone_has_for_it(tmp_path: Path) -> None:
    zones = {name: ZoneSettings(filter=f"{name}/#") for name in ("few", "none", "late")}
    with DiskWorld(tmp_path, zones=zones, shards=2) as world:
        leave_large(world, "few/1")
        messages = [(topic, topic.encode()) for topic in ("few/1", "few/2", "none/1", "late/1", "plant/1/x", "other")]
        publish(world, *messages)
        slow = back(world, "large", receive_maximum=1)
        first = slow.take(Publish)
        world.advance(1)
        slow.send(Subscribe(9, (Subscription(parse_filter(b"late/+"), 1),)))
        slow.take(Suback)
        publish(world, ("late/2", b"late/2"), ("few/1", b"again"))
        slow.send(Ack(PUBACK, first.packet_id))
        assert sorted([first.payload, *payloads(slow)]) == [b"again", b"few/1", b"late/2", b"plant/1/x"]


# ---- ends


def bounded(world: World, action: Callable[[], object]) -> None:
    """All subscriptions leave the matcher, and not too many in one loop iteration."""
    count = subscriptions(world)
    assert count >= MANY
    world.begin(action)
    changes = changes_of(world, lambda: subscriptions(world) == 0)
    assert sum(changes) == count
    assert max(changes) <= SLICE


def test_the_end_of_a_connection_removes_a_bounded_number_of_subscriptions_per_loop_iteration(
    world: DiskWorld,
) -> None:
    peer = world.connect("large")
    subscribe_many(peer)
    bounded(world, lambda: world.broker.lost(peer.channel))
    world.broker.exchange.routes.check_invariants()


def test_a_session_that_waits_leaves_memory_a_bounded_number_of_subscriptions_per_loop_iteration(
    world: DiskWorld,
) -> None:
    peer = kept(world, "large")
    subscribe_many(peer)
    world.begin(lambda: world.broker.lost(peer.channel))
    while "large" in world.broker.sessions.clients:
        world.iterate()
        world.disk.engine.sync_now()
    bounded(world, lambda: None)


def test_a_client_that_is_back_while_its_session_leaves_memory_finds_it_whole(world: DiskWorld) -> None:
    peer = kept(world, "large")
    subscribe_many(peer)
    world.begin(lambda: world.broker.lost(peer.channel))
    while subscriptions(world) > MANY // 2:
        world.iterate()
        world.disk.engine.sync_now()
    again = world.peer()
    start(again, connect("large"))
    assert max(changes_of(world, lambda: subscriptions(world) == 0)) <= SLICE
    assert max(changes_of(world, lambda: subscriptions(world) == MANY)) <= SLICE
    world.settle()
    assert again.take(Connack).session_present
    publish(world, ("plant/1/t", b"1"), (f"plant/{MANY - 1}/t", b"2"))
    assert payloads(again) == [b"1", b"2"]
    world.broker.exchange.routes.check_invariants()


def test_messages_of_a_session_that_leaves_memory_wait_in_the_log(world: DiskWorld) -> None:
    peer = kept(world, "large")
    subscribe_many(peer)
    writer = world.connect("writer")
    world.begin(lambda: world.broker.lost(peer.channel))
    sent = 0
    returned = world.peer()
    for iteration in range(60):
        sent += 1
        topic = f"plant/{(1, MANY - 1)[sent % 2]}/t"
        start(writer, Publish(topic, b"%d" % sent, 1, sent))
        if iteration == 10:
            start(returned, connect("large"))
        world.iterate()
        world.disk.engine.sync_now()
    world.settle()
    assert returned.take(Connack).session_present
    assert payloads(returned) == [b"%d" % number for number in range(1, sent + 1)]


def test_a_clean_start_ends_a_large_session_in_slices_and_begins_with_none_of_its_subscriptions(
    world: DiskWorld,
) -> None:
    peer = kept(world, "large")
    subscribe_many(peer)
    taker = world.peer()
    lines = (Subscription(parse_filter(b"plant/1/+"), 1),)
    start(taker, Connect(V5, "large", True), Subscribe(7, lines))
    changes: list[int] = []
    before = MANY
    while not taker.inbox:
        world.iterate()
        world.disk.engine.sync_now()
        changes.append(abs(subscriptions(world) - before))
        before = subscriptions(world)
    assert max(changes) <= SLICE
    assert len([change for change in changes if change]) > MANY // SLICE
    world.settle()
    assert not taker.take(Connack).session_present
    assert taker.take(Suback).reasons == (1,)
    assert subscriptions(world) == 1
    publish(world, ("plant/1/x", b"1"), ("plant/2/t", b"2"))
    assert payloads(taker) == [b"1"]


def test_a_new_session_keeps_its_subscriptions_while_those_of_the_last_one_are_removed(world: DiskWorld) -> None:
    """The matcher knows both by the same client id."""
    first = world.connect("large")
    subscribe_many(first)
    world.begin(lambda: world.broker.lost(first.channel))
    second = world.peer()
    start(second, Connect(V5, "large", False), Subscribe(7, (Subscription(parse_filter(b"plant/1/+"), 1),)))
    world.settle()
    assert not second.take(Connack).session_present
    assert second.take(Suback).reasons == (1,)
    publish(world, ("plant/1/x", b"1"))
    assert payloads(second) == [b"1"]
    assert subscriptions(world) == 1


def test_a_group_ends_at_once_with_a_large_session_that_was_its_last_member(world: DiskWorld) -> None:
    peer = world.connect("large")
    subscribe_many(peer, "$share/g/work")
    assert world.broker.sessions.subscriptions.shared.count() == 1
    world.begin(lambda: world.broker.lost(peer.channel))
    world.iterate()
    assert world.broker.sessions.subscriptions.shared.count() == 0
    assert subscriptions(world) >= MANY - SLICE, "the rest follows"
    world.settle()
    assert subscriptions(world) == 0


def test_in_memory_a_large_session_ends_in_slices_as_well() -> None:
    with World() as world:
        peer = world.connect("large")
        subscribe_many(peer)
        bounded(world, lambda: world.broker.lost(peer.channel))


def test_several_large_sessions_share_the_slices_of_a_loop_iteration(world: DiskWorld) -> None:
    peers = [world.connect(f"large{number}") for number in range(3)]
    for peer in peers:
        subscribe_many(peer)

    def all_lost() -> None:
        for peer in peers:
            world.broker.lost(peer.channel)

    bounded(world, all_lost)


def test_subscribes_with_many_filters_share_loop_iterations_with_others(world: DiskWorld) -> None:
    peer = world.connect("large")
    packs = [
        Subscribe(pack + 1, tuple(Subscription(parse_filter(b"%d/%d" % (pack, number)), 0) for number in range(3000)))
        for pack in range(3)
    ]
    start(peer, *packs)
    changes = changes_of(world, lambda: subscriptions(world) == 9000)
    assert max(changes) == 3000
    world.settle()
    assert len(peer.take_all(Suback)) == 3
