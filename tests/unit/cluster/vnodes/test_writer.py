"""The writer of a vnode: dense numbers, one record on its way, repetitions, gaps, and what each item hears."""

from collections import deque
from typing import Any

import pytest

from holdfast.cluster.vnodes.append_pace import LARGE_BYTES
from holdfast.cluster.vnodes.applier import ApplierStop
from holdfast.cluster.vnodes.writer import ItemOutcome, VnodeWriter
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import LOST, LogEntry
from holdfast.durable.state_machine.machine import StateMachine
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError
from holdfast.records.cluster.items import Claim, Closed, MessageItem, ReadRegistration
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, decode_record
from tests.unit.cluster.node_world import FakeTimers, founded_log, record
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, message

NODE, EPOCH = 1, 7
#: An item that is accepted in every record that counts.
READ = ReadRegistration("x")


class Node:
    """A writer whose records are applied as soon as they are in the log, unless a test holds them back."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.log: MemoryOrderedLog = founded_log(self.clock)
        self.tables = MemoryTables()
        self.machine = StateMachine(CLUSTER_ID, self.tables)
        self.timers = FakeTimers()
        self.writer = VnodeWriter(self.log, CLUSTER_ID, NODE, EPOCH, self.clock, self.timers, lambda: 5, **options)
        self.heard: list[ItemOutcome] = []
        self.entries_seen: list[LogEntry] = []
        self.outcomes: list[Outcome] = []
        self.queue: deque[LogEntry] = deque()
        self.busy = False
        self.log.read(1, self)

    def entries(self, entries: list[LogEntry]) -> None:
        self.queue.extend(entries)
        while self.queue and not self.busy:
            self.busy = True
            self.take(self.queue.popleft())
            self.busy = False

    def take(self, entry: LogEntry) -> None:
        outcome = self.machine.apply(entry)
        self.tables.write(outcome.changes, outcome.steps)
        self.entries_seen.append(entry)
        self.outcomes.append(outcome)
        self.writer.applied(entry, outcome)

    def stopped(self, why: str) -> None:
        raise AssertionError(why)

    def add(self, *items: Any, session: SessionEntry | None = None) -> None:
        for item in items:
            self.writer.add(item, self.heard.append, session)
        self.writer.flush()

    def claim(self, client: str) -> SessionEntry:
        self.add(Claim(client, 1, (1, NODE, 1), 0))
        return SessionEntry(client, self.heard[-1].revision)

    def accepted(self) -> list[bool]:
        return [heard.accepted for heard in self.heard]

    def written(self) -> list[ClusterRecord]:
        """Our records that are in the log, in its order."""
        found = [decode_record(entry.record, CLUSTER_ID) for entry in self.entries_seen]
        return [written for written in found if written is not None and written.node == NODE]

    def payloads(self) -> list[bytes]:
        return [found.message.payload for outcome in self.outcomes for found in outcome.published]


def test_items_are_written_in_dense_records_and_hear_of_their_outcome() -> None:
    node = Node()
    session = node.claim("c")
    assert session.revision
    node.add(message(payload=b"1"), message(payload=b"2"), session=session)
    node.add(ReadRegistration("c"))
    assert [(found.number, found.epoch, found.seen_version) for found in node.written()] == [
        (number, EPOCH, 5) for number in (1, 2, 3)
    ]
    assert node.accepted() == [True] * 4
    registration = node.heard[-1].registration
    assert registration is not None
    assert registration.revision == session.revision
    assert node.payloads() == [b"1", b"2"]
    assert node.writer.unsettled_bytes == 0


def test_a_refused_claim_hears_what_stands_in_its_way() -> None:
    node = Node()
    session = node.claim("c")
    node.add(Claim("c", 2, (2, NODE, 2), 99))
    assert not node.heard[-1].accepted
    assert node.heard[-1].revision == 0
    registration = node.heard[-1].registration
    assert registration is not None
    assert registration.revision == session.revision


def test_one_record_is_on_its_way_and_the_next_fills_meanwhile() -> None:
    node = Node()
    node.log.hold_appends = True
    node.add(READ)
    node.add(READ, ReadRegistration("a"))
    node.add(ReadRegistration("b"))
    assert len(node.log.held) == 1
    assert node.heard == []
    node.log.arrive()
    assert len(node.log.held) == 1
    node.log.arrive()
    assert [len(found.items) for found in node.written()] == [1, 3]
    assert len(node.heard) == 4


class BusyNode(Node):
    """A node whose log answered one record in 1 ms, and takes 8 ms from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.log.hold_appends = True
        for took_us in (1000, *[8000] * 10):
            self.add(READ)
            self.timers.advance(1.0)
            self.clock.advance(took_us)
            self.log.arrive()


def test_a_busy_log_is_left_time_and_what_comes_meanwhile_goes_with_the_next_record() -> None:
    node = BusyNode()
    node.add(READ)
    node.add(READ)
    assert len(node.log.held) == 0
    node.timers.advance(1.0)
    assert len(node.log.held) == 1
    node.log.arrive()
    assert len(node.written()[-1].items) == 2


def test_a_busy_log_is_not_waited_for_behind_the_pause() -> None:
    node = BusyNode()
    node.clock.advance(1_000_000)
    node.add(READ)
    assert len(node.log.held) == 1


def test_a_large_record_does_not_wait_for_a_busy_log() -> None:
    node = BusyNode()
    node.add(ReadRegistration("x" * 1000))
    assert len(node.log.held) == 0
    node.add(*[ReadRegistration("x" * 1000)] * 70)
    assert len(node.log.held) == 1


def test_a_writer_that_is_closed_in_a_pause_sends_nothing_more() -> None:
    node = BusyNode()
    node.add(READ)
    node.writer.close()
    node.timers.advance(1.0)
    assert len(node.log.held) == 0
    assert not node.heard[-1].accepted


def test_a_full_record_ends_between_two_items_and_the_order_of_a_session_stays() -> None:
    """A16: a message, its packet id and its number are one item, and never in two records."""
    node = Node(limit_bytes=300)
    session = node.claim("c")
    items = [message(payload=b"%d" % number, qos=2, packet_id=number, number=number) for number in range(1, 12)]
    node.add(*items, session=session)
    written = node.written()
    assert len(written) > 4
    assert [found.number for found in written] == list(range(1, len(written) + 1))
    assert all(len(entry.record) <= 300 for entry in node.entries_seen[1:])
    sent = [item for found in written for item in found.items if isinstance(item, MessageItem)]
    assert [(item.message.payload, item.packet_id, item.number) for item in sent] == [
        (b"%d" % number, number, number) for number in range(1, 12)
    ]
    assert node.accepted() == [True] * 12
    assert node.writer.unsettled_bytes == 0


def test_messages_and_steps_of_a_batch_are_told_of_together() -> None:
    """The last item speaks for all: they are in records of one order."""
    node = Node(limit_bytes=300)
    session = node.claim("c")
    first = [message(payload=b"%d" % number, qos=2, packet_id=number) for number in range(1, 8)]
    for item in first:
        node.writer.add_message(session, item.message, item.packet_id, item.number, item.user)
    heard: list[ItemOutcome] = []
    node.writer.notify(heard.append)
    assert heard == []
    node.writer.flush()
    sent = [item for found in node.written() for item in found.items if isinstance(item, MessageItem)]
    assert [(item.message.payload, item.packet_id) for item in sent] == [(b"%d" % one, one) for one in range(1, 8)]
    assert [one.accepted for one in heard] == [True]
    assert node.writer.unsettled_bytes == 0
    node.writer.close()
    node.writer.add_message(session, first[0].message, 0, -1, None)
    node.writer.notify(heard.append)
    assert heard[-1].outcome is None


def test_sessions_of_a_record_are_named_once_with_each_revision() -> None:
    node = Node()
    one, other = node.claim("a"), node.claim("b")
    node.log.hold_appends = True
    node.add(READ)
    for session in (one, other, one, SessionEntry("a", 1)):
        node.add(message(session=3), session=session)
    node.log.hold_appends = False
    node.log.arrive()
    last = node.written()[-1]
    assert last.sessions == [one, other, SessionEntry("a", 1)]
    assert [item.session for item in last.items if isinstance(item, MessageItem)] == [0, 1, 0, 2]
    assert node.accepted()[-4:] == [True, True, True, False], "of the older revision: fenced"


def test_an_item_that_no_record_has_room_for_is_refused_and_leaves_nothing() -> None:
    node = Node(limit_bytes=200)
    session = node.claim("c")
    with pytest.raises(MisuseError):
        node.add(message(payload=b"x" * 200), session=session)
    node.add(READ)
    assert [len(found.items) for found in node.written()] == [1, 1]
    assert node.writer.unsettled_bytes == 0


# ---- repetitions


@pytest.mark.parametrize(
    ("payload_bytes", "expected"),
    [(0, [2, 5, 8, 11, 14, 17, 20, 23, 26, 29]), (LARGE_BYTES, [2, 6, 14, 24])],
)
def test_the_same_bytes_are_sent_again_every_three_seconds_and_large_ones_less_often(
    payload_bytes: int, expected: list[float]
) -> None:
    """A log that has a leader again is used soon; one that stores every repetition is not filled by them."""
    node = Node()
    session = node.claim("c")
    node.log.hold_appends = True
    node.add(message(payload=b"x" * payload_bytes), session=session)
    sent_at: list[float] = []
    for _second in range(30):
        count = len(node.log.held)
        node.timers.advance(1)
        node.clock.advance(1_000_000)
        if len(node.log.held) > count:
            sent_at.append(node.timers.now_s)
    assert sent_at == expected
    assert len({held.record for held in node.log.held}) == 1


def test_a_repetition_is_applied_once_and_settles_once() -> None:
    """A4: the answer was lost, the record is sent again, and both copies are in the log."""
    node = Node()
    session = node.claim("c")
    node.log.hold_reads = True
    node.log.lose_answers = 1
    node.add(message(), session=session)
    node.timers.advance(2)
    assert node.timers.due() == [], "answered"
    node.log.hold_reads = False
    node.log.deliver(node.log.readings()[0])
    assert [found.number for found in node.written()] == [1, 2, 2]
    assert node.payloads() == [b"x"]
    assert node.accepted() == [True, True]


def test_a_record_that_is_read_back_needs_no_answer() -> None:
    node = Node()
    node.log.lose_answers = 1
    node.add(READ)
    assert node.accepted() == [True]
    assert node.timers.due() == []
    node.add(READ)
    assert [found.number for found in node.written()] == [1, 2]


def test_a_record_that_was_lost_on_its_way_is_sent_again() -> None:
    node = Node()
    node.log.lose_appends = 2
    node.add(READ)
    assert node.heard == []
    node.timers.advance(1.9)
    node.timers.advance(4.2)
    assert node.accepted() == [True]
    assert [found.number for found in node.written()] == [1]


def test_a_late_copy_behind_the_next_record_counts_for_nothing() -> None:
    """A4: the first copy arrives when a second one was answered long ago."""
    node = Node()
    session = node.claim("c")
    node.log.hold_appends = True
    node.add(message(payload=b"1"), session=session)
    node.timers.advance(2)
    node.add(message(payload=b"2"), session=session)
    node.log.arrive(1)
    node.log.arrive(1)
    node.log.arrive(0)
    assert [found.number for found in node.written()] == [1, 2, 3, 2]
    assert node.payloads() == [b"1", b"2"]
    assert node.accepted() == [True] * 3


# ---- gaps and closings


def test_writing_goes_on_from_a_gap() -> None:
    """A record that was answered is missing: those behind it are rejected, and all of them are sent again."""
    node = Node()
    session = node.claim("c")
    node.log.hold_reads = True
    node.add(message(payload=b"1"), session=session)
    node.log.lose_tail(1)
    node.add(message(payload=b"2"), session=session)
    node.add(message(payload=b"3"), session=session)
    node.log.hold_reads = False
    node.log.deliver(node.log.readings()[0])
    assert node.payloads() == [b"1", b"2", b"3"]
    assert node.accepted() == [True] * 4
    assert node.writer.unsettled_bytes == 0
    assert node.timers.due() == []


def test_a_closed_epoch_rejects_everything_that_is_not_settled() -> None:
    """A1: what lands behind the closing is never acknowledged."""
    node = Node()
    node.log.hold_appends = True
    node.add(READ)
    node.add(READ)
    node.log.hold_appends = False
    node.log.append(record(2, 1, Closed(NODE, EPOCH + 1)), lambda _result: None)
    node.log.arrive()
    assert node.accepted() == [False, False]
    assert "closed" in node.writer.closed
    node.add(READ)
    assert node.accepted() == [False] * 3
    assert len(node.written()) == 1
    assert node.timers.due() == []
    assert node.writer.unsettled_bytes == 0


def test_a_vnode_that_is_applied_no_further_acknowledges_nothing() -> None:
    """A10: the log has lost records."""
    node = Node()
    node.log.hold_appends = True
    node.add(READ)
    node.writer.stopped(ApplierStop(LOST, "it is another log"))
    assert node.accepted() == [False]
    assert node.timers.due() == []
    node.timers.advance(60)
    assert len(node.log.held) == 1


def test_an_outcome_that_this_node_has_not_seen_is_not_made_up() -> None:
    """A record of ours was applied while this node did not look: its items cannot be told what became of them."""
    node = Node()
    node.log.hold_reads = True
    node.add(READ)
    entry = node.log._entries[-1]
    outcome = node.machine.apply(entry)
    node.tables.write(outcome.changes, outcome.steps)
    node.log._put(entry.record)
    again = LogEntry(entry.sequence + 1, entry.stamp_us, entry.record)
    node.writer.applied(again, node.machine.apply(again))
    assert node.accepted() == [False]
    assert "before this node has seen" in node.writer.closed


def test_an_item_may_be_added_when_another_one_is_settled() -> None:
    node = Node()
    order: list[str] = []

    def first(_outcome: ItemOutcome) -> None:
        order.append("first")
        node.writer.add(READ, lambda _outcome: order.append("third"))
        node.writer.flush()

    node.writer.add(READ, first)
    node.writer.add(READ, lambda _outcome: order.append("second"))
    node.writer.flush()
    assert order == ["first", "second", "third"]
    assert [len(found.items) for found in node.written()] == [2, 1]
