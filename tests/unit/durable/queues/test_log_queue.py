"""What a session is owed, as the log has it: how a queue comes to its end."""

import pytest

from holdfast.durable.log import LostRange
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from tests.cluster_stores import MemoryMessages

pytestmark = pytest.mark.compiled

SUBSCRIPTION = SubscriptionRecord(parse_filter(b"t"), 1, False, False, 0, 0, 0)


class SessionLog:
    """A log of one shard, and the queue of a session that continues from its beginning."""

    def __init__(self) -> None:
        self._tables = MemoryTables()
        self._delivered: dict[int, int] = {}
        rule = OwedRule("c", {b"t": SUBSCRIPTION}, upgrade_qos=False)
        messages = MemoryMessages([self._tables])
        self.queue = LogQueue(messages, self._delivered, rule, lambda: MemoryQueue(10, 1000), _nothing_is_lost)
        self.queue.continue_from({}, set(), {})

    def publish(self, position_us: int) -> None:
        message = Message(b"t", b"", 1, ClientId("p"), 0)
        message.shard, message.position_us = 0, position_us
        self._tables.messages.append(PublishedMessage(0, message, position_us, 0, is_will=False))
        self._delivered[0] = position_us

    def read(self) -> list[int]:
        return [owed.message.position_us for owed in self.queue.read(0, 10)]


def _nothing_is_lost(_session_id: str, _lost: LostRange) -> None:
    raise AssertionError


def test_a_log_without_a_shard_is_read_to_its_end_at_once() -> None:
    """Else a broker would look again with every loop iteration, until the first message comes (Q1)."""
    log = SessionLog()
    assert log.read() == []
    assert log.queue.at_end()
    assert log.queue.count() == 0


def test_what_was_stored_before_the_first_read_is_read() -> None:
    log = SessionLog()
    log.publish(7)
    assert log.read() == [7]
    assert not log.queue.at_end()
    assert log.read() == []
    assert log.queue.at_end()


def test_a_shard_that_a_session_was_sent_nothing_of_is_named_at_no_place() -> None:
    """A node that opens the session would wait for that place, and no message ever has it."""
    tables = [MemoryTables(), MemoryTables()]
    for position_us in (1_000, 2_000):
        message = Message(b"a", b"", 1, ClientId("p"), position_us)
        message.shard, message.position_us = 0, position_us
        tables[0].messages.append(PublishedMessage(0, message, 1, 0, is_will=False))
    record = SubscriptionRecord(parse_filter(b"a"), 1, False, False, 0, 0, 0)
    rule = OwedRule("c", {b"a": record}, upgrade_qos=False)
    queue = LogQueue(
        MemoryMessages(tables), {0: 2_000, 1: 0}, rule, lambda: MemoryQueue(1, 1), lambda _session, _lost: None
    )
    queue.continue_from({0: 0, 1: 0}, set(), {})
    assert queue.sent() == {0: 0, 1: 0}
    assert [owed.message.position_us for owed in queue.read(0, 1)] == [1_000]
    assert queue.sent() == {0: 1_000, 1: 0}
