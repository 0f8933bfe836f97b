"""The stores of two nodes in a cluster, against what their logs say and brute force.

One node applies every record at once. The other one follows the ordered logs with its appliers, late and in pieces, is
killed between any two records, and makes segments now and then. Whatever it has applied, it shows what looking at all
records shows: messages at the places that the log gave them, by every filter and from every time, retained messages and
sessions.
"""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.durable.changes import Changes
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.sessions.session_store import KeepIncoming, KeepSession, MemorySessions, SessionStep
from holdfast.durable.state_machine.machine import StateMachine
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.model.message import Message
from holdfast.records.cluster.items import Border, DropGeneration, Item
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.generations import Generation
from holdfast.records.messages import decode_message
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.topics.filters import TopicFilter, parse_filter
from tests.conformance.session_steps import step_lists
from tests.conformance.test_session_store import passed_by, same, shown
from tests.replays import replay_of
from tests.retained_scans import rest_of
from tests.unit.cluster.node_world import Listener, settle
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, S, T, message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, ZONES, Logs, Node, client_of, opened

#: Histories, and records of each: a few seconds in all.
SEEDS = 4
RECORDS = 60
TOPICS = [b"a", b"a/b", b"a/b/c", b"b", b"audit", b"audit/x", b"$s/a"]
FILTERS = [parse_filter(text) for text in (b"#", b"a/#", b"+/b", b"a", b"audit/+", b"$s/#")]
#: A few records make a segment.
SMALL_SEGMENTS = SegmentSize(messages=8, commits=4)
#: Later than all that a log says.
LATE_US = 2 * T


class Entry:
    """A message of the log, and the record that brought it."""

    def __init__(self, sequence: int, stored: Message, serial: int) -> None:
        self.sequence = sequence
        self.message = stored
        self.serial = serial
        #: The record that dropped its generation.
        self.dropped_by = 2**62


class Cluster:
    """Writes histories into the logs, and knows what becomes of each record."""

    def __init__(self) -> None:
        self.logs = Logs(apart_us=600 * S)
        self.tables = [MemoryTables() for _vnode in range(VNODES)]
        self.machines = [StateMachine(CLUSTER_ID, tables) for tables in self.tables]
        self.ordered = [MemoryOrderedLog(ManualClock(0)) for _vnode in range(VNODES)]
        self.stored: dict[int, list[Entry]] = {shard: [] for shard in range(VNODES * len(ZONES))}
        #: Retained messages: record, version and shard, by vnode and topic.
        self.retained: list[dict[bytes, list[tuple[int, int, int, Message]]]] = [{} for _vnode in range(VNODES)]
        self.newest = 0
        self.payloads = 0
        self.last: dict[tuple[int, str], int] = {}
        for vnode, ordered in enumerate(self.ordered):
            ordered.hold_reads = True
            for entry in self.logs.entries[vnode]:
                self.take(vnode, entry.sequence)

    def write(self, chance: random.Random) -> None:
        """A record of any vnode. Sometimes its writer knows all versions of retained messages."""
        vnode = chance.randrange(VNODES)
        items = [self.item(vnode, chance) for _item in range(chance.randint(1, 6))]
        passed_us = chance.choice([0, 1, 5]) * S
        entry = self.logs.write(vnode, *items, passed_us=passed_us, seen=chance.choice([0, self.newest]))
        self.take(vnode, entry.sequence)

    def item(self, vnode: int, chance: random.Random) -> Item:
        kind = chance.randrange(20)
        if kind < 13:
            self.payloads += 1
            payload = b"" if chance.random() < 0.3 else b"%d" % self.payloads
            expires_us = T + 3 * S if chance.random() < 0.2 else 0
            qos, retain = chance.randrange(3), chance.random() < 0.5
            return message(chance.choice(TOPICS), payload, qos=qos, retain=retain, expires_us=expires_us)
        client = client_of(vnode)
        if kind == 13:
            record = SessionRecord(expiry_s=chance.randint(1, 99), disconnected_us=0)
            return step_item(KeepSession(client, record, None), 0)
        if kind == 14:
            return step_item(KeepIncoming(client, chance.randint(1, 3)), 0)
        zone = chance.choice(list(ZONES))
        last = self.last.get((vnode, zone), 1)
        if kind < 17:
            return DropGeneration(zone, chance.randint(1, last))
        self.last[vnode, zone] = last + 1
        ahead_us = self.logs.now_us - vnode * self.logs.apart_us + 50 * S
        layout = chance.choice(["paged", "paged", "timeline"])
        return Border(zone, last + 1, layout, {}, b"", chance.choice([0, 0, ahead_us]))

    def take(self, vnode: int, sequence: int) -> None:
        entry = self.logs.entries[vnode][sequence - 1]
        self.ordered[vnode].stamp_offset_us = entry.stamp_us
        self.ordered[vnode].append(entry.record, lambda _result: None)
        outcome = self.machines[vnode].apply(entry)
        self.tables[vnode].write(outcome.changes, outcome.steps, outcome.published)
        self.note(vnode, outcome)

    def note(self, vnode: int, outcome: Outcome) -> None:
        for published in outcome.published:
            found = published.message
            if published.serial:
                self.stored[found.shard].append(Entry(outcome.sequence, found, published.serial))
            if published.version:
                shard = len(ZONES) * vnode + found.topic.startswith(b"audit")
                entries = self.retained[vnode].setdefault(found.topic, [])
                entries.append((outcome.sequence, published.version, shard, found))
                self.newest = max(self.newest, published.version)
        for generation in outcome.dropped:
            self.drop(generation, outcome.sequence)

    def drop(self, generation: Generation, sequence: int) -> None:
        for entry in self.stored[generation.shards[0]]:
            if generation.start_us <= entry.message.position_us < generation.end_us:
                entry.dropped_by = min(entry.dropped_by, sequence)

    # ---- what a node shows that has applied so much

    def readable(self, shard: int, applied: list[int]) -> list[Entry]:
        sequence = applied[shard // len(ZONES)]
        return [entry for entry in self.stored[shard] if entry.sequence <= sequence < entry.dropped_by]

    def head(self, shard: int, applied: list[int]) -> int:
        sequence = applied[shard // len(ZONES)]
        entries = self.stored[shard]
        return max([entry.message.position_us for entry in entries if entry.sequence <= sequence], default=0)

    def retained_by(self, topic_filter: TopicFilter, now_us: int, applied: list[int]) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        for topic in TOPICS:
            entries = [
                (version, shard, kept)
                for vnode in range(VNODES)
                for sequence, version, shard, kept in self.retained[vnode].get(topic, [])[-99:]
                if sequence <= applied[vnode]
            ]
            if entries and topic_filter.matches(topic):
                kept = max(entries, key=lambda entry: entry[:2])[2]
                if kept.payload and not kept.expired(now_us):
                    found.append((topic, kept.payload))
        return sorted(found, key=lambda entry: entry[0].replace(b"/", b"\0"))


def check(node: Node, cluster: Cluster) -> None:
    """The node shows what its logs say, as far as it has applied them."""
    applied = [node.applied(vnode) for vnode in range(VNODES)]
    log = node.stores.log
    shards = sorted(log.heads())
    assert log.heads() == {shard: cluster.head(shard, applied) for shard in shards}
    readable = {shard: cluster.readable(shard, applied) for shard in shards}
    assert all(not entries for shard, entries in cluster.stored.items() if shard not in shards and applied[shard // 2])
    times = sorted({entry.message.position_us for entries in readable.values() for entry in entries})
    for topic_filter in FILTERS:
        for since_us in {1, *times[::3], *times[-1:], LATE_US}:
            expected = {
                shard: [
                    (entry.message.position_us, entry.message)
                    for entry in entries
                    if entry.message.position_us >= since_us and topic_filter.matches(entry.message.topic)
                ]
                for shard, entries in readable.items()
            }
            found = node.replay(topic_filter.levels, since_us)
            assert {shard: [(one.position_us, one) for one in some] for shard, some in found.items()} == expected
            by_time = [place for some in expected.values() for place in some]
            assert in_time_order(node, topic_filter, since_us) == sorted([position for position, _one in by_time])
    for shard, entries in readable.items():
        for entry in entries:
            assert log.at(shard, (), entry.message.position_us) == entry.message
        assert serials(node, shard) == [entry.serial for entry in entries]
    retained = node.stores.retained
    for now_us in (T, LATE_US):
        for topic_filter in FILTERS:
            expected_retained = cluster.retained_by(topic_filter, now_us, applied)
            scan = retained.match(topic_filter, now_us)
            assert [(one.topic, one.payload) for one in rest_of(scan)] == expected_retained
        for topic in TOPICS:
            one = retained.get(topic, now_us)
            kept = dict(cluster.retained_by(parse_filter(topic), now_us, applied))
            assert (one and one.payload) == kept.get(topic)


def in_time_order(node: Node, topic_filter: TopicFilter, since_us: int) -> list[int]:
    replay = replay_of(node.stores.log, topic_filter.levels, since_us, by_time=True)
    found: list[int] = []
    while True:
        page = replay.next(4)
        found += [one.position_us for one in page.messages]
        if page.at_end:
            return found


def serials(node: Node, shard: int) -> list[int]:
    (part,) = [part for part in node.stores.log.parts() if part.id == shard]
    return [
        decode_message(value).serial
        for piece, lo_us, hi_us in part.pieces(shard, 0, 2**62)
        for value in piece.layout.read(node.engine.family(piece.family), (), lo_us, hi_us)
        if value
    ]


def follow(node: Node, cluster: Cluster, vnode: int, count: int) -> None:
    """The node applies some entries of one vnode with its applier, and is killed."""

    async def some() -> None:
        listener = Listener()
        store = node.stores.vnodes[vnode]
        async with asyncio.TaskGroup() as group:
            task = group.create_task(VnodeApplier(cluster.ordered[vnode], CLUSTER_ID, store, listener).run())
            await settle()
            for reading in cluster.ordered[vnode].readings():
                # The first one is that which it has applied last.
                cluster.ordered[vnode].deliver(reading, count + (node.applied(vnode) > 0))
            await settle()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert listener.stops == []

    asyncio.run(some())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nodes_show_what_their_logs_say_whenever_they_are_killed(tmp_path: Path, seed: int) -> None:
    """A13, A18."""
    chance = random.Random(seed)
    cluster = Cluster()
    with opened(tmp_path / "1") as one, opened(tmp_path / "2") as other:
        steady, killed = Node(one), Node(other)
        for _record in range(RECORDS):
            cluster.write(chance)
            steady.catch_up(cluster.logs)
            if chance.random() < 0.1:
                check(steady, cluster)
            if chance.random() < 0.3:
                follow(killed, cluster, chance.randrange(VNODES), chance.randint(1, 5))
                check(killed, cluster)
                killed = killed.restarted()
                if chance.random() < 0.5:
                    killed.stores.segments.writer(SMALL_SEGMENTS).write_all()
                check(killed, cluster)
        check(steady, cluster)
        for vnode in range(VNODES):
            follow(killed, cluster, vnode, 1000)
        check(killed, cluster)
        check(killed.restarted(), cluster)
        for vnode in range(VNODES):
            client = client_of(vnode)
            expected = shown(client, cluster.tables[vnode].sessions.load(client), {})
            assert shown(client, steady.stores.sessions.load(client), {}) == expected
            assert shown(client, killed.stores.sessions.load(client), {}) == expected
        families = [name for name in one.families() if name.startswith("log-")]
        assert families == [name for name in other.families() if name.startswith("log-")]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(step_lists)
def test_sessions_of_all_vnodes_are_as_those_of_one_store(steps: list[SessionStep]) -> None:
    model = MemorySessions()
    with TemporaryDirectory() as folder, opened(Path(folder)) as engine:
        node = Node(engine)
        for at in range(0, len(steps), 7):
            model.apply(steps[at : at + 7])
            for vnode, store in node.stores.vnodes.items():
                own = [step for step in steps[at : at + 7] if vnode_of(step.client_id, VNODES) == vnode]
                store.write(Changes(), own)
        for sessions in (node.stores.sessions, node.restarted().stores.sessions):
            same(sessions, model, passed_by(steps))
            for limit in (1, 3):
                assert sessions.expiring(2**62, limit) == model.expiring(2**62, limit)
                assert sessions.connected("a", limit) == model.connected("a", limit)
                assert sessions.waiting_wills(0, "a", limit) == model.waiting_wills(0, "a", limit)
