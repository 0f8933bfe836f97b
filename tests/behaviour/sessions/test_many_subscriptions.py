"""Sessions with very many subscriptions, and topics with very many levels: what they cost does not multiply."""

from pathlib import Path

import pytest

from holdfast.broker.policy import Limits, Policy
from holdfast.durable.log import NO_END, ShardScan
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.sessions.session_store import KeepProgress, KeepSubscription
from holdfast.model.protocol import PUBACK
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.codec import encode
from holdfast.wire.packets import Ack, Publish, Suback, Subscribe, Subscription, Unsubscribe
from tests.broker_backends import OpenWorld
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import kept, rules
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

MANY = 1000


def subscribe_many(peer: Peer, count: int, *, qos: int = 1) -> None:
    peer.send(Subscribe(1, tuple(Subscription(parse_filter(b"plant/%d/+" % number), qos) for number in range(count))))
    assert peer.take(Suback).reasons == (qos,) * count


def test_by_default_a_session_may_have_a_hundred_thousand_subscriptions_and_a_topic_two_hundred_levels() -> None:
    policy = Policy()
    assert policy.limits.max_subscriptions == 100_000
    assert policy.mqtt.max_packet_size >= 2_000_000
    with World() as world:
        reader = world.connect("reader")
        deep = "/".join(["a"] * 200)
        assert reader.subscribe(deep, deep + "/a", qos=0) == [0, 0x8F]
        payload = b"x" * 2_000_000
        world.connect("writer").send(Publish(deep, payload))
        assert reader.payloads() == [payload]


def test_a_session_with_many_subscriptions_gets_its_backlog_by_them(open_world: OpenWorld) -> None:
    """L13: with as many as are found by a matcher, and with changes while it is behind."""
    with open_world() as world:
        reader = kept(world, "c")
        subscribe_many(reader, MANY)
        reader.drop()
        publish(world, *((f"plant/{number}/temp", b"%d" % number) for number in range(0, MANY + 100, 100)))
    with open_world() as world:
        assert payloads(back(world, "c")) == [b"%d" % number for number in range(0, MANY, 100)]
        slow = back(world, "c", receive_maximum=1)
        publish(world, *((f"plant/{number}/temp", b"%d" % number) for number in range(5)))
        first = slow.take(Publish)
        slow.send(Unsubscribe(2, (parse_filter(b"plant/2/+"),)))
        slow.send(Subscribe(3, (Subscription(parse_filter(b"plant/3/+"), 0),)))
        slow.send(Subscribe(4, (Subscription(parse_filter(b"new/+"), 1),)))
        publish(world, ("new/1", b"new"))
        slow.inbox.clear()
        slow.send(Ack(PUBACK, first.packet_id))
        assert payloads(slow) == [b"1", b"4", b"new"]


def test_replays_of_a_session_with_many_subscriptions_come_once(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        subscribe_many(reader, MANY)
        reader.drop()
        publish(world, ("other/1", b"1"), ("plant/1/temp", b"2"))
        slow = back(world, "c", receive_maximum=1)
        first = slow.take(Publish)
        assert replay(slow, "$replay/earliest/other/+", qos=1) == [1]
        publish(world, ("other/2", b"3"))
        slow.send(Ack(PUBACK, first.packet_id))
        assert [first.payload, *sorted(payloads(slow))] == [b"2", b"1", b"3"]


def test_new_rights_hold_for_a_large_session_from_its_next_connection_on(tmp_path: Path) -> None:
    authenticator = rules(tmp_path, "topic readwrite #\npattern read %c/#\n")
    with World(authenticator=authenticator) as world:
        writer = world.connect("writer")
        reader = kept(world, "reader")
        subscribe_many(reader, MANY)
        writer.send(Publish("plant/1/t", b"1"), Publish("plant/1/t", b"2"), Publish("plant/2/t", b"3"))
        assert len(reader.payloads()) == 3
        reader.drop()
        (tmp_path / "access").write_text("topic write #\ntopic read plant/2/t\n")
        authenticator.reload()
        reader = kept(world, "reader")
        writer.send(Publish("plant/1/t", b"denied", 1, 3), Publish("plant/2/t", b"granted"))
        assert reader.payloads() == [b"granted"]


class _CountingLog:
    """A log with nothing in it, of one shard if not said otherwise; counts what it is asked."""

    def __init__(self, shards: dict[bytes, list[int]] | None = None) -> None:
        self.shards = shards or {}
        self.asked = 0
        self.scans: list[tuple[bytes, ...]] = []

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        self.asked += 1
        return self.shards.get(levels[0], [0])

    def heads(self) -> dict[int, int]:
        return {}

    def boundary_after(self, _position_us: int) -> int:
        return NO_END

    def scan(self, _shard: int, levels: tuple[bytes, ...], _from_us: int) -> ShardScan:
        self.scans.append(levels)
        raise _Enough


class _Enough(Exception):  # noqa: N818
    """The scan that was asked for is all that is of interest."""


def test_a_reader_is_begun_without_a_look_at_every_pair_of_subscriptions() -> None:
    filters = [parse_filter(b"a/%d" % number) for number in range(MANY)]
    records = {raw.raw: SubscriptionRecord(raw, 1, False, False, 0, 0, 0) for raw in filters}
    log = _CountingLog()
    queue = LogQueue(
        log, {0: 100}, OwedRule("c", records, upgrade_qos=False), lambda: MemoryQueue(1, 1), lambda *_: None
    )
    queue.continue_from({}, set(), {})
    with pytest.raises(_Enough):
        queue.read(0, 10)
    assert log.scans == [()]
    assert log.asked < 20


@pytest.mark.parametrize(("shard", "scan"), [(0, None), (1, ()), (2, (b"b", b"1"))])
def test_a_large_session_is_read_without_a_look_at_its_subscriptions_for_each_shard(
    shard: int, scan: tuple[bytes, ...] | None
) -> None:
    """Also for a shard that none or few of them concern: else each read would look at all of them."""
    log = _CountingLog({b"a": [1], b"b": [2]})
    records: dict[bytes, SubscriptionRecord] = {}
    queue = LogQueue(
        log, {shard: 100}, OwedRule("c", records, upgrade_qos=False), lambda: MemoryQueue(1, 1), lambda *_: None
    )
    queue.expect_many()
    for text in [*(b"a/%d" % number for number in range(MANY)), b"b/1", b"b/2", b"b/1", b"$share/g/c"]:
        parsed = parse_filter(text)
        records[text] = SubscriptionRecord(parsed, 1, False, False, 0, 0, 0)
        queue.subscribed(parsed)
    asked = log.asked
    queue.continue_from({shard: 1}, set(), {})
    if scan is None:
        assert queue.read(0, 10) == []
        assert queue.at_end()
    else:
        with pytest.raises(_Enough):
            queue.read(0, 10)
    assert log.scans == ([] if scan is None else [scan])
    assert log.asked == asked


def test_one_subscribe_stores_the_progress_of_its_session_once(tmp_path: Path) -> None:
    """It holds as much as there is in flight: once for each filter would be their product."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        data = encode(Subscribe(1, tuple(Subscription(parse_filter(b"a/%d" % n), 1) for n in range(MANY))), 5)
        steps: list[object] = []

        def receive() -> None:
            world.broker.received(reader.channel, data)
            steps.extend(world.broker.exchange.state.batch.steps)

        world.do(receive)
        assert sum(isinstance(step, KeepSubscription) for step in steps) == MANY
        assert sum(isinstance(step, KeepProgress) for step in steps) == 1


@pytest.mark.parametrize(
    ("limits", "filters"),
    [
        (Limits(max_shared_subscriptions=2), "$share/g/{}"),
        (Limits(max_replays=2), "$replay/earliest/{}"),
        (Limits(max_subscriptions=2), "{}"),
        (Limits(max_subscriptions=3), "/".join(["{}"] + ["a"] * 29)),
    ],
)
def test_what_costs_more_has_a_bound_of_its_own(tmp_path: Path, limits: Limits, filters: str) -> None:
    with DiskWorld(tmp_path, Policy(limits=limits)) as world:
        reader = world.connect("c")
        assert reader.subscribe(*(filters.format(name) for name in "abc"), qos=0) == [0, 0, 0x97]
        reader.inbox.clear()
        if "$replay" not in filters:  # those are through by now
            assert reader.subscribe(filters.format("d"), qos=0) == [0x97]
        assert reader.subscribe(filters.format("a"), qos=0) == [0]  # it has that one
        reader.inbox.clear()
        reader.send(Unsubscribe(2, (parse_filter(filters.format("a").encode()),)))
        reader.inbox.clear()
        assert reader.subscribe(filters.format("d"), qos=0) == [0]


@pytest.mark.parametrize("wildcards", ["+", "a"])
def test_topics_of_two_hundred_levels_are_stored_retained_and_replayed(tmp_path: Path, wildcards: str) -> None:
    deep = "/".join(["a"] * 200)
    every = "/".join([wildcards] * 199 + ["a"])
    with DiskWorld(tmp_path) as world:
        kept(world, "c").subscribe(every, qos=1)
        world.connect("writer").send(Publish(deep, b"x" * 1000, 1, 1, retain=True))
    with DiskWorld(tmp_path) as world:
        assert payloads(back(world, "c")) == [b"x" * 1000]
        reader = world.connect("reader")
        assert reader.subscribe(every, qos=0) == [0]
        assert reader.payloads() == [b"x" * 1000]
        assert replay(reader, f"$replay/earliest/{every}", qos=0) == [0]
        assert reader.payloads() == [b"x" * 1000]
