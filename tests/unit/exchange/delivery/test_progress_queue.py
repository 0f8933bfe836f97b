"""How far sessions have come is stored soon, in turn, and within bounds."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.commit import Batch, CommitLog, Receipt
from holdfast.durable.log import LostRange, MessageLog
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.delivery.progress_queue import (
    CHANGES_PER_RECORD,
    MOST_BYTES,
    OWN_BATCH_AFTER_US,
    OWN_BATCH_RECORDS,
    TICK_RECORDS,
    ProgressQueue,
)
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import PUBACK
from holdfast.model.time import SECOND_US
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.progress import decode_progress
from holdfast.session.state import SessionState
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Unsuback, Unsubscribe
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import kept
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

SHARD = 1
HEAD_US = 1_700_000_000_000_000


class Sessions:
    """Sessions of a log that was delivered up to a head. They have a connection, and what tests put in flight."""

    def __init__(self, world: World) -> None:
        self._channel = Channel(world.peer(), 1000)
        self._delivered = {SHARD: HEAD_US}
        self._queue = world.broker.exchange.delivery.progress

    def add(self, name: str, inflight: int = 0) -> BrokerClient:
        session = SessionState(name)
        session.expiry_s = 60
        rule = OwedRule(name, session.subscriptions, upgrade_qos=False, with_qos0=False)
        queue = LogQueue(cast(MessageLog, self), self._delivered, rule, lambda: MemoryQueue(10, 1000), _nothing_is_lost)
        client = BrokerClient(session, queue)
        client.owner = self._channel
        for number in range(inflight):
            message = Message(b"t", b"", 1, ClientId("p"), 1)
            message.shard = SHARD
            message.position_us = HEAD_US - 7 * (inflight - number)
            session.window.admit(Owed(message, 1))
        return client

    def change(self, *clients: BrokerClient) -> None:
        for client in clients:
            self._queue.client_changed(client)


def _nothing_is_lost(_session_id: str, _lost: LostRange) -> None:
    raise AssertionError


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def queue(world: World) -> ProgressQueue:
    return world.broker.exchange.delivery.progress


@pytest.fixture
def sessions(world: World) -> Sessions:
    return Sessions(world)


def batch_of(messages: int) -> Batch:
    batch = Batch(1)
    batch.messages.extend(Message(b"t", b"", 1, ClientId("p"), 1) for _number in range(messages))
    return batch


def taken(queue: ProgressQueue, messages: int = 1) -> list[str]:
    """The sessions whose progress the next batch takes along."""
    batch = batch_of(messages)
    queue.join(batch)
    return [step.client_id for step in batch.progress]


@pytest.mark.parametrize("messages", [1, 15, 16, 100])
def test_a_batch_takes_along_as_many_records_as_its_messages_pay_for(
    queue: ProgressQueue, sessions: Sessions, messages: int
) -> None:
    sessions.change(*(sessions.add(f"c{number}") for number in range(100)))
    assert len(taken(queue, messages)) == 1 + messages // CHANGES_PER_RECORD


def test_sessions_are_stored_in_turn_and_each_once(queue: ProgressQueue, sessions: Sessions) -> None:
    """One that acknowledges all the time does not keep the others waiting."""
    busy, other, third = (sessions.add(name) for name in ("busy", "other", "third"))
    sessions.change(busy, other, third, busy, other)
    order = []
    for _commit in range(6):
        order += taken(queue)
        sessions.change(busy)
    assert order == ["busy", "other", "third", "busy", "busy", "busy"]


def test_a_batch_takes_no_more_bytes_than_it_may(queue: ProgressQueue, sessions: Sessions) -> None:
    sessions.change(*(sessions.add(f"c{number}", inflight=100) for number in range(50)))
    left = 50
    while left:
        batch = batch_of(2000)
        queue.join(batch)
        assert 0 < sum(len(step.value) for step in batch.progress) <= MOST_BYTES
        left -= len(batch.progress)
        assert left >= 0


def test_a_record_with_a_thousand_messages_in_flight_is_small_and_whole(
    queue: ProgressQueue, sessions: Sessions
) -> None:
    client = sessions.add("c", inflight=1000)
    sessions.change(client)
    batch = batch_of(2000)
    queue.join(batch)
    (step,) = batch.progress
    assert len(step.value) <= 3 * 1000 + 50
    progress = decode_progress(step.value)
    assert progress.sent == step.sent == {SHARD: HEAD_US}
    assert [entry.packet_id for entry in progress.unacknowledged] == list(range(1, 1001))
    assert [entry.position_us for entry in progress.unacknowledged] == [HEAD_US - 7 * n for n in range(1000, 0, -1)]


@pytest.mark.parametrize("messages", [0, 1, 100])
def test_one_with_much_in_flight_holds_up_no_other_and_waits_a_little_longer(
    world: World, queue: ProgressQueue, sessions: Sessions, messages: int
) -> None:
    """More than a small batch has room for: it is taken after a while, alone or with what else is committed then."""
    sessions.change(sessions.add("large", inflight=1000), sessions.add("small"))
    assert taken(queue) == ["small"]
    assert taken(queue) == []
    world.clock.advance(OWN_BATCH_AFTER_US)
    world.broker.deadlines.fire()
    assert queue.wants_batch()
    assert taken(queue, messages) == ["large"]


def test_one_with_more_in_flight_than_any_batch_has_room_for_waits_for_a_tick(
    world: World, queue: ProgressQueue, sessions: Sessions
) -> None:
    sessions.change(sessions.add("huge", inflight=10_000), sessions.add("small"))
    assert taken(queue) == ["small"]
    for _look in range(3):
        world.clock.advance(OWN_BATCH_AFTER_US)
        world.broker.deadlines.fire()
        assert not queue.wants_batch()
        assert taken(queue) == []
    queue.tick()
    assert taken(queue, 0) == ["huge"]


def test_without_commits_a_batch_is_asked_for_soon(world: World, queue: ProgressQueue, sessions: Sessions) -> None:
    sessions.change(*(sessions.add(f"c{number}") for number in range(OWN_BATCH_RECORDS + 1)))
    assert not queue.wants_batch()
    world.clock.advance(OWN_BATCH_AFTER_US)
    world.broker.deadlines.fire()
    assert queue.wants_batch()
    assert len(taken(queue, 0)) == OWN_BATCH_RECORDS
    assert not queue.wants_batch()
    world.clock.advance(OWN_BATCH_AFTER_US)
    world.broker.deadlines.fire()
    assert not queue.wants_batch(), "a large one is followed by a longer pause"
    world.clock.advance(SECOND_US)
    world.broker.deadlines.fire()
    assert len(taken(queue, 0)) == 1
    world.clock.advance(SECOND_US)
    world.broker.deadlines.fire()
    assert not queue.wants_batch(), "nothing is left"


@pytest.mark.parametrize("messages", [0, 1, 100, 500])
def test_those_who_have_waited_go_with_the_next_batch(
    world: World, queue: ProgressQueue, sessions: Sessions, messages: int
) -> None:
    """However few its messages pay for; the next such batch is further away."""
    sessions.change(*(sessions.add(f"c{number}") for number in range(50)))
    world.clock.advance(OWN_BATCH_AFTER_US)
    world.broker.deadlines.fire()
    assert queue.wants_batch()
    assert len(taken(queue, messages)) == 50
    sessions.change(*(sessions.add(f"d{number}") for number in range(50)))
    world.clock.advance(OWN_BATCH_AFTER_US)
    world.broker.deadlines.fire()
    assert not queue.wants_batch()
    assert len(taken(queue, messages)) == 1 + messages // CHANGES_PER_RECORD


def test_no_batch_is_asked_for_while_commits_take_those_who_wait(
    world: World, queue: ProgressQueue, sessions: Sessions
) -> None:
    client = sessions.add("c")
    for _commit in range(5):
        sessions.change(client)
        assert taken(queue) == ["c"]
        sessions.change(client)
        world.clock.advance(OWN_BATCH_AFTER_US)
        world.broker.deadlines.fire()
        assert not queue.wants_batch()
        assert taken(queue) == ["c"]


def test_a_tick_takes_the_rest_up_to_a_bound(queue: ProgressQueue, sessions: Sessions) -> None:
    sessions.change(*(sessions.add(f"c{number}") for number in range(TICK_RECORDS + 5)))
    queue.tick()
    first = taken(queue, 0)
    assert first == [f"c{number}" for number in range(TICK_RECORDS)]
    queue.tick()
    assert taken(queue, 0) == [f"c{number}" for number in range(TICK_RECORDS, TICK_RECORDS + 5)]
    queue.tick()
    assert not queue.wants_batch()


def test_a_tick_waits_for_a_batch_that_is_not_written_beside_a_sync(queue: ProgressQueue, sessions: Sessions) -> None:
    """Ten thousand records would hold up the loop twice."""
    sessions.change(*(sessions.add(f"c{number}") for number in range(200)))
    queue.tick()
    assert not queue.wants_batch(busy=True)
    batch = batch_of(1)
    batch.patient = True
    queue.join(batch)
    assert len(batch.progress) == 1
    assert queue.wants_batch()
    assert len(taken(queue, 0)) == 199


def test_a_session_that_has_left_or_ended_is_passed_over(queue: ProgressQueue, sessions: Sessions) -> None:
    gone, ended, there = (sessions.add(name) for name in ("gone", "ended", "there"))
    sessions.change(gone, ended, there)
    gone.owner = None
    ended.unsaved = False
    assert taken(queue) == ["there"]


def test_a_session_that_is_held_back_is_stored_by_a_tick_that_finds_it_free(
    queue: ProgressQueue, sessions: Sessions
) -> None:
    """Its vnode stands still: what it acknowledges meanwhile becomes one record, and others go on."""
    full = {"held"}
    queue.holds_back = lambda session_id: session_id in full
    held, free = sessions.add("held"), sessions.add("free")
    sessions.change(held, free)
    assert taken(queue) == ["free"]
    sessions.change(held, free)
    queue.tick()
    assert taken(queue) == ["free"]
    full.clear()
    assert taken(queue) == []
    queue.tick()
    assert taken(queue) == ["held"]
    queue.tick()
    assert not queue.wants_batch()


# ---- on a disk


class RecordingLog:
    """The real log, and what was written to it: changes and sessions of each batch, and whether it waits for a sync."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.written: list[tuple[int, list[str], bool]] = []

    def write(self, batch: Batch) -> Receipt | None:
        receipt = self._log.write(batch)
        self.written.append((len(batch), [step.client_id for step in batch.progress], receipt is None))
        return receipt

    def busy(self) -> bool:
        return self._log.busy()


class RecordedWorld(DiskWorld):
    def make_stores(self, policy: Policy) -> Stores:
        stores = super().make_stores(policy)
        self.log = RecordingLog(stores.log)
        return replace(stores, log=self.log)


def readers(world: DiskWorld, count: int) -> list[Peer]:
    found = [kept(world, f"c{number}") for number in range(count)]
    for reader in found:
        reader.subscribe("a", qos=1)
    return found


def acknowledge(peers: list[Peer]) -> None:
    for peer in peers:
        assert payloads(peer)


def test_progress_alone_waits_for_no_sync(tmp_path: Path) -> None:
    with RecordedWorld(tmp_path) as world:
        peers = readers(world, 3)
        publish(world, ("a", b"1"))
        world.log.written.clear()
        acknowledge(peers)
        assert world.log.written == []
        world.advance(OWN_BATCH_AFTER_US / 1_000_000)
        assert world.log.written == [(0, ["c0", "c1", "c2"], False)]


def test_progress_is_written_while_a_sync_is_under_way(tmp_path: Path) -> None:
    """M6: what the open batch holds goes with it, and waits for the next sync as it would have anyway."""
    with RecordedWorld(tmp_path) as world:
        peers = readers(world, 3)
        writer = world.connect("writer")
        writer.send(Publish("a", b"1", 1, 1))
        world.hold()
        writer.send(Publish("a", b"2", 1, 2))
        assert world.log.busy()
        writer.send(Publish("a", b"3", 1, 3))
        world.log.written.clear()
        acknowledge(peers)
        assert world.log.written == [], "no batch is written for each acknowledgement"
        world.advance(OWN_BATCH_AFTER_US / 1_000_000)
        assert world.log.written == [(1, ["c0", "c1", "c2"], True)]
        assert world.log.busy()
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        for number in range(3):
            assert payloads(back(world, f"c{number}")) == [b"2", b"3"]


def test_what_was_acknowledged_before_the_last_commits_does_not_come_again(tmp_path: Path) -> None:
    """M6: kill -9 without any tick; no time passes at all."""
    with DiskWorld(tmp_path) as world:
        peers = readers(world, 3)
        writer = world.connect("writer")
        for number in range(20):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
            acknowledge(peers)
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        for number in range(3):
            again = payloads(back(world, f"c{number}"))
            assert len(again) <= 3, "one record a commit, and three sessions in turn"
            assert again == [b"%d" % left for left in range(20 - len(again), 20)]


def test_a_pause_after_the_last_acknowledgement_is_enough(tmp_path: Path) -> None:
    """M6: kill -9 soon after the last acknowledgement, without a commit behind it."""
    with DiskWorld(tmp_path) as world:
        peers = readers(world, 20)
        publish(world, ("a", b"1"), ("a", b"2"))
        acknowledge(peers)
        world.advance(OWN_BATCH_AFTER_US / 1_000_000)
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        assert [payloads(back(world, f"c{number}")) for number in range(20)] == [[]] * 20


def test_what_is_not_acknowledged_comes_again_under_its_packet_id_and_ids_are_not_used_again(tmp_path: Path) -> None:
    """Q4: records that no reservation goes with still keep packet ids apart."""
    with DiskWorld(tmp_path) as world:
        (reader,) = readers(world, 1)
        publish(world, *(("a", b"%d" % number) for number in range(5)))
        sent = {packet.payload: packet.packet_id for packet in reader.take_all(Publish)}
        for payload in (b"0", b"3"):
            reader.send(Ack(PUBACK, sent[payload]))
        publish(world, ("a", b"5"))
        sent |= {packet.payload: packet.packet_id for packet in reader.take_all(Publish)}
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        reader = back(world, "c0")
        again = reader.take_all(Publish)
        assert [packet.payload for packet in again] == [b"1", b"2", b"4", b"5"]
        assert [packet.dup for packet in again] == [True] * 4
        assert [packet.packet_id for packet in again[:3]] == [sent[packet.payload] for packet in again[:3]]
        publish(world, ("a", b"6"))
        assert reader.take(Publish).packet_id not in sent.values()


def test_a_group_is_stored_as_its_members_acknowledge(tmp_path: Path) -> None:
    """L15: what a member has acknowledged is given to no other after a crash; what it has not, is."""
    with DiskWorld(tmp_path) as world:
        member = kept(world, "m")
        member.subscribe("$share/g/a", qos=1)
        publish(world, *(("a", b"%d" % number) for number in range(6)))
        sent = member.take_all(Publish)
        member.send(*(Ack(PUBACK, packet.packet_id) for packet in sent[:4]))
        world.advance(OWN_BATCH_AFTER_US / 1_000_000)
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        assert set(payloads(back(world, "m"))) == {b"4", b"5"}


def test_a_group_that_ends_leaves_no_progress(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        member = kept(world, "m")
        member.subscribe("$share/g/a", qos=1)
        publish(world, ("a", b"1"))
        assert payloads(member) == [b"1"]
        member.send(Unsubscribe(5, (parse_filter(b"$share/g/a"),)))
        member.take(Unsuback)
        world.tick()
        assert world.disk.sessions.load(GROUP_PREFIX + "$share/g/a") is None
    with DiskWorld(tmp_path, start_us=HEAD_US + 60_000_000) as world:
        member = back(world, "m")
        member.subscribe("$share/g/a", qos=1)
        assert payloads(member) == []
