"""Writers and appliers of two nodes over one log that is slow, loses answers and records, and repeats what it gets.

1. Every item is settled exactly once, in the order in which its node added it.
2. Every message whose item was accepted is published once, on both nodes; no other one is (A1, A4).
3. The messages of a session are published in the order in which they were added.
4. Numbers of a node's records are dense in the order in which they count, whatever the log did (A4).
5. Both nodes have the same digest at every sequence.
"""

import os
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from holdfast.cluster.vnodes.writer import ItemOutcome, VnodeWriter
from holdfast.durable.memory_ordered_log import MemoryOrderedLog, MemoryReading
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.machine import StateMachine
from holdfast.durable.state_machine.outcome import APPLIED, Outcome
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.items import Claim
from holdfast.records.cluster.record import SessionEntry, decode_record
from tests.unit.cluster.node_world import FakeTimers, founded_log
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, message

#: About five seconds. HOLDFAST_CLUSTER_EXAMPLES for a longer run.
EXAMPLES = int(os.environ.get("HOLDFAST_CLUSTER_EXAMPLES", "100"))
NODES = [1, 2]
nodes = st.sampled_from(NODES)


class Node:
    """A writer, and a reader that applies what it is given."""

    def __init__(self, node: int, log: MemoryOrderedLog, clock: ManualClock) -> None:
        self.node = node
        self.tables = MemoryTables()
        self.machine = StateMachine(CLUSTER_ID, self.tables)
        self.timers = FakeTimers()
        self.writer = VnodeWriter(log, CLUSTER_ID, node, 1, clock, self.timers, lambda: 0, limit_bytes=400)
        self.outcomes: list[tuple[LogEntry, Outcome]] = []
        self.added = 0
        self.settled: list[int] = []
        self.accepted: list[bytes] = []
        #: The claim of this node's client, or the last one that was accepted.
        self.session: SessionEntry | None = None
        self._queue: deque[LogEntry] = deque()
        self._busy = False
        reading = log.read(1, self)
        assert isinstance(reading, MemoryReading)
        self.reading = reading

    def entries(self, entries: list[LogEntry]) -> None:
        self._queue.extend(entries)
        while self._queue and not self._busy:
            self._busy = True
            entry = self._queue.popleft()
            outcome = self.machine.apply(entry)
            self.tables.write(outcome.changes, outcome.steps, outcome.published)
            self.outcomes.append((entry, outcome))
            self.writer.applied(entry, outcome)
            self._busy = False

    def stopped(self, why: str) -> None:
        raise AssertionError(why)

    def claim(self, client: str, version: int, expected: int) -> None:
        place = self.added
        self.added += 1

        def settled(outcome: ItemOutcome) -> None:
            self.settled.append(place)
            if outcome.accepted:
                self.session = SessionEntry(client, outcome.revision)

        self.writer.add(Claim(client, version, (version, self.node, version), expected), settled)

    def publish(self, session: SessionEntry) -> None:
        place = self.added
        self.added += 1
        payload = b"%d-%06d" % (self.node, place)

        def settled(outcome: ItemOutcome) -> None:
            self.settled.append(place)
            if outcome.accepted:
                self.accepted.append(payload)

        self.writer.add(message(payload=payload), settled, session)

    def published(self) -> list[bytes]:
        return [found.message.payload for _entry, outcome in self.outcomes for found in outcome.published]


class WriterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.log = founded_log(self.clock)
        self.log.hold_appends = self.log.hold_reads = True
        self.nodes = {node: Node(node, self.log, self.clock) for node in NODES}
        self.versions = 0

    @rule(node=nodes, flush=st.booleans())
    def claim(self, node: int, flush: bool) -> None:
        """A client connects to a node, in place of the connection that this node knows of."""
        self.versions += 1
        known = max([0, *[other.session.revision for other in self.nodes.values() if other.session is not None]])
        self.nodes[node].claim("c", self.versions, known)
        if flush:
            self.nodes[node].writer.flush()

    @rule(node=nodes, count=st.integers(1, 6), flush=st.booleans())
    def publish(self, node: int, count: int, flush: bool) -> None:
        writer = self.nodes[node]
        for _message in range(count):
            writer.publish(writer.session or SessionEntry("c", 1))
        if flush:
            writer.writer.flush()

    @rule(place=st.integers(0, 9))
    def arrive(self, place: int) -> None:
        """Any of the records that are on their way is stored."""
        if self.log.held:
            self.log.arrive(place % len(self.log.held))

    @rule(place=st.integers(0, 9), lost=st.booleans(), repeated=st.booleans())
    def arrive_badly(self, place: int, lost: bool, repeated: bool) -> None:
        self.log.lose_answers = int(not lost)
        self.log.lose_appends = int(lost)
        self.log.repeat_appends = int(repeated)
        self.arrive(place)
        self.log.lose_answers = self.log.lose_appends = self.log.repeat_appends = 0

    @rule(node=nodes, limit=st.integers(1, 4))
    def read(self, node: int, limit: int) -> None:
        self.log.deliver(self.nodes[node].reading, limit)
        self.check()

    @rule(passed_s=st.integers(1, 12))
    def wait(self, passed_s: int) -> None:
        self.clock.advance(passed_s * 1_000_000)
        for node in self.nodes.values():
            node.timers.advance(passed_s)

    def check(self) -> None:
        one, other = (self.nodes[node] for node in NODES)
        for (entry, outcome), (same, again) in zip(one.outcomes, other.outcomes, strict=False):
            assert (entry.sequence, outcome.digest) == (same.sequence, again.digest)
        for node in self.nodes.values():
            assert node.settled == list(range(len(node.settled)))
            assert not node.writer.closed
            numbers = []
            for entry, outcome in node.outcomes:
                found = decode_record(entry.record, CLUSTER_ID)
                if found is not None and found.node == node.node and outcome.verdict == APPLIED:
                    numbers.append(found.number)
            assert numbers == list(range(1, len(numbers) + 1))

    def teardown(self) -> None:
        """In the end the log answers, and everything is settled."""
        for node in self.nodes.values():
            node.writer.flush()
        for _round in range(10_000):
            if all(len(node.settled) == node.added for node in self.nodes.values()):
                break
            while self.log.held:
                self.log.arrive()
            for node in self.nodes.values():
                self.log.deliver(node.reading)
            self.wait(10)
        for node in self.nodes.values():
            self.log.deliver(node.reading)
        self.check()
        for node in self.nodes.values():
            assert node.settled == list(range(node.added))
            assert node.writer.unsettled_bytes == 0
            for writer in self.nodes.values():
                mine = [payload for payload in node.published() if payload.startswith(b"%d-" % writer.node)]
                assert mine == writer.accepted


def test_what_was_accepted_is_published_once_and_in_order_whatever_the_log_does() -> None:
    run_state_machine_as_test(
        WriterMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
    )
