"""Retained messages of several vnodes, merged: the greatest version of a topic counts, whatever became of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.retained.retained_store import ScanBudget
from holdfast.durable.state_machine.tables import CLUSTER, RETAINED
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.items import Horizon
from holdfast.records.cluster.rows import CLOCK_KEY, ClockRow, decode_clock, encode_clock
from holdfast.records.messages import StoredMessage
from holdfast.records.retained import RetainedRecord, encode_retained, retained_key
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.vnode_retained import VnodeRetained
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from holdfast.topics.filters import parse_filter
from tests.retained_scans import rest_of, take
from tests.unit.durable.state_machine.vnode import S, T, message
from tests.unit.storage.rocks.layouts.counting import CountingFamily
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, opened

NOW_US = 100 * S


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def node(engine: Engine) -> Node:
    return Node(engine)


def retain(
    vnode: RocksVnode, topic: bytes, version: int, payload: bytes = b"x", *, shard: int = 0, expires_us: int = 0
) -> None:
    """What a record leaves that retains a message."""
    changes = Changes()
    kept = Message(topic, payload, 1, ClientId("p"), 0, retain=True, expires_us=expires_us)
    record = RetainedRecord(StoredMessage(kept, 0, 0), shard or vnode.id, version)
    changes.into(RETAINED).put(retained_key(topic), encode_retained(record))
    before = vnode.get(CLUSTER, CLOCK_KEY)
    last = max(version, 0 if before is None else decode_clock(before).version)
    changes.into(CLUSTER).put(CLOCK_KEY, encode_clock(ClockRow(1, 1, 1, 1, 0, last)))
    vnode.write(changes, [])


def found(store: VnodeRetained, text: bytes = b"#", now_us: int = NOW_US) -> list[tuple[bytes, bytes]]:
    return [(one.topic, one.payload) for one in rest_of(store.match(parse_filter(text), now_us))]


def test_the_greatest_version_of_a_topic_hides_all_others(node: Node) -> None:
    """A18."""
    first, second = node.stores.vnodes.values()
    retain(first, b"a", 5, b"old")
    retain(second, b"a", 9, b"new")
    retain(first, b"b", 5)
    retain(second, b"b", 9, b"")
    retain(first, b"c", 9, expires_us=NOW_US)
    retain(second, b"c", 5)
    retain(first, b"d", 7, b"lower shard", shard=1)
    retain(second, b"d", 7, b"higher shard", shard=2)
    retained = node.stores.retained
    assert found(retained) == [(b"a", b"new"), (b"d", b"higher shard")]
    assert [retained.get(topic, NOW_US) is not None for topic in (b"a", b"b", b"c", b"d", b"e")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert found(retained, now_us=NOW_US - 1) == [(b"a", b"new"), (b"c", b"x"), (b"d", b"higher shard")]
    assert found(node.restarted().stores.retained) == found(retained)


def test_topics_of_all_vnodes_come_in_the_order_of_levels(node: Node) -> None:
    first, second = node.stores.vnodes.values()
    for number, topic in enumerate([b"a", b"a-b", b"a/b", b"a/b/c", b"a/c", b"b"]):
        retain((first, second)[number % 2], topic, number + 1)
    retained = node.stores.retained
    topics = [topic for topic, _payload in found(retained)]
    assert topics == [b"a", b"a/b", b"a/b/c", b"a/c", b"a-b", b"b"]
    assert [topic for topic, _payload in found(retained, b"a/#")] == [b"a", b"a/b", b"a/b/c", b"a/c"]
    assert [topic for topic, _payload in found(retained, b"a/b")] == [b"a/b"]
    for at, topic in enumerate(topics):
        rest = retained.rest(parse_filter(b"#"), NOW_US, topic, retained.newest())
        assert [one.topic for one in rest_of(rest)] == topics[at + 1 :], "it goes on behind any of them"


def test_a_scan_is_as_of_the_versions_of_all_vnodes(node: Node) -> None:
    """A vnode that is slow applies a lower version later: its reader is a subscriber by then, and got it live."""
    fast, slow = node.stores.vnodes.values()
    retain(fast, b"a", 50)
    retain(slow, b"b", 5)
    retained = node.stores.retained
    scan = retained.match(parse_filter(b"#"), NOW_US)
    versions, newest = retained.versions(), retained.newest()
    assert (versions, newest, retained.written()) == ({0: 50, 1: 5}, 50, 50)
    retain(slow, b"c", 7, b"came later")
    assert [one.topic for one in rest_of(scan)] == [b"a", b"b"]
    exact = retained.rest_as_of(parse_filter(b"#"), NOW_US, b"", versions)
    assert [one.topic for one in rest_of(exact)] == [b"a", b"b"]
    by_one_number = retained.rest(parse_filter(b"#"), NOW_US, b"", newest)
    assert [one.topic for one in rest_of(by_one_number)] == [b"a", b"b", b"c"], "more, never less"


def test_what_was_replaced_in_another_vnode_meanwhile_is_not_shown(node: Node) -> None:
    first, second = node.stores.vnodes.values()
    retain(first, b"a", 5)
    retained = node.stores.retained
    scan = retained.match(parse_filter(b"#"), NOW_US)
    newest = retained.newest()
    assert retained.at(b"a", newest) is not None
    retain(second, b"a", 9)
    assert rest_of(scan) == []
    assert retained.at(b"a", newest) is None
    assert retained.at(b"a", 9) is not None


def test_a_message_that_is_removed_while_a_scan_goes_on_is_not_shown_later(node: Node) -> None:
    first, second = node.stores.vnodes.values()
    for number in range(300):
        retain(first, b"t/%03d" % number, number + 1)
    scan = node.stores.retained.match(parse_filter(b"#"), NOW_US)
    assert take(scan).topic == b"t/000"
    retain(second, b"t/299", 1000, b"")
    assert [one.topic for one in rest_of(scan)] == [b"t/%03d" % number for number in range(1, 299)]


@pytest.mark.parametrize("text", [b"+/+/none", b"#", b"a/+/1", b"+/b3/#", b"a/b1/1"])
def test_a_slice_visits_no_more_keys_than_its_budget_and_a_scan_can_go_on_behind_it(node: Node, text: bytes) -> None:
    retained = node.stores.retained
    vnodes = list(node.stores.vnodes.values())
    for number in range(60):
        topic = b"%c/b%d/%d" % (b"abc"[number % 3], number // 3, number % 4)
        retain(vnodes[number % 2], topic, number + 1)
        if number % 5 == 0:
            retain(vnodes[1 - number % 2], topic, number + 1000, b"" if number % 2 else b"newer")
    expected = found(retained, text)
    cells = CountingFamily(node.engine.family(CLUSTER))
    for vnode in vnodes:
        vnode.retained().family = lambda: cells  # type: ignore[method-assign]
    topic_filter = parse_filter(text)
    scan = retained.match(topic_filter, NOW_US)
    seen: list[tuple[bytes, bytes]] = []
    before = b""
    while not scan.over():
        cells.moves = cells.gets = 0
        one = scan.next(ScanBudget(7))
        # Each vnode that has to read on seeks first.
        assert cells.moves + cells.gets <= 7 + VNODES
        seen += [] if one is None else [(one.topic, one.payload)]
        assert scan.at().split(b"/") >= before.split(b"/")
        before = scan.at()
        rest = retained.rest(topic_filter, NOW_US, before, retained.newest())
        assert seen + [(one.topic, one.payload) for one in rest_of(rest)] == expected
    assert seen == expected


def test_a_scan_is_no_further_than_the_vnode_that_has_found_something(node: Node) -> None:
    first, second = node.stores.vnodes.values()
    retain(first, b"a/x", 1)
    for number in range(20):
        retain(second, b"b%02d/y" % number, number + 1)
    retained, topic_filter = node.stores.retained, parse_filter(b"+/x")
    scan = retained.match(topic_filter, NOW_US)
    assert scan.next(ScanBudget(7)) is None
    rest = retained.rest(topic_filter, NOW_US, scan.at(), retained.newest())
    assert [one.topic for one in rest_of(rest)] == [b"a/x"]
    assert [one.topic for one in rest_of(scan)] == [b"a/x"]
    assert scan.at() == b"b19/y"


def test_own_topics_are_in_memory_and_those_of_clients_are_not_kept_twice(node: Node) -> None:
    retained = node.stores.retained
    own = Message(b"$SYS/uptime", b"1", 0, ClientId(""), 1, retain=True)
    retained.keep(own)
    retained.keep(Message(b"a", b"1", 0, ClientId("p"), 1, retain=True))
    assert retained.get(b"$SYS/uptime", NOW_US) == own
    assert found(retained, b"$SYS/#") == [(b"$SYS/uptime", b"1")]
    assert retained.get(b"a", NOW_US) is None
    assert retained.count() == 1


def test_what_was_erased_is_not_shown_and_hides_what_is_below_it(node: Node) -> None:
    first, second = node.stores.vnodes.values()
    retain(first, b"a", 9)
    retain(second, b"a", 5)
    retain(second, b"b", 7)
    retained = node.stores.retained
    retained.erasures = Erasures([Erasure("", (b"a",), {}, 9, "ops@host")])
    assert found(retained) == [(b"b", b"x")]
    assert retained.get(b"a", NOW_US) is None
    retain(second, b"a", 12, b"later")
    assert found(retained) == [(b"a", b"later"), (b"b", b"x")]


def test_a_record_that_cannot_be_read_is_counted_and_skipped(node: Node) -> None:
    vnode = node.stores.vnodes[0]
    retain(vnode, b"b", 1)
    changes = Changes()
    changes.into(RETAINED).put(retained_key(b"a"), b"\x09damaged")
    vnode.write(changes, [])
    assert found(node.stores.retained) == found(node.stores.retained) == [(b"b", b"x")]
    assert node.stores.retained.get(b"a", NOW_US) is None
    assert node.stores.retained.unreadable == 1, "however often it is read"


def test_messages_that_were_applied_are_counted_and_versions_are_those_of_the_log(node: Node) -> None:
    logs = Logs()
    kept = [message(b"a", retain=True), message(b"b", retain=True), message(b"a", b"2", retain=True)]
    logs.write(0, *kept, message(b"c", b"", retain=True))
    logs.write(1, message(b"b", b"", retain=True), seen=10 * T)
    outcomes = node.catch_up(logs)
    retained = node.stores.retained
    assert retained.newest() == 10 * T + 1 == max(one.version for outcome in outcomes for one in outcome.published)
    assert found(retained, now_us=T) == [(b"a", b"2")]
    assert [one.stores.retained.count() for one in (node, node.restarted())] == [2, 2], "b counts in its vnode"
    versions = [one.version for outcome in outcomes for one in outcome.published]
    logs.write(0, Horizon(b"b", versions[1]), message(b"a", b"", retain=True))
    node.catch_up(logs)
    assert [one.stores.retained.count() for one in (node, node.restarted())] == [0, 0]
