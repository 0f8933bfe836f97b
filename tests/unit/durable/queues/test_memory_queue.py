"""The queue in memory: order, limits, and acknowledgements out of order."""

import pytest

from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed

pytestmark = pytest.mark.compiled


def owed(number: int) -> Owed:
    return Owed(Message(b"a", b"%d" % number, 1, ClientId("publisher"), 0), 1)


def payloads(found: list[Owed]) -> list[bytes]:
    return [one.message.payload for one in found]


def test_messages_are_read_in_order_until_they_are_acknowledged() -> None:
    queue = MemoryQueue(10, 1000)
    queue.append([owed(number) for number in range(3)])

    assert payloads(queue.read(0, 2)) == [b"0", b"1"]
    assert payloads(queue.read(0, 9)) == [b"0", b"1", b"2"]
    queue.acknowledge(2)
    queue.check_invariants()
    assert payloads(queue.read(0, 9)) == [b"0", b"2"]
    queue.acknowledge(1)
    queue.acknowledge(3)
    queue.acknowledge(3)
    assert (queue.count(), queue.last_serial()) == (0, 3)
    queue.check_invariants()


@pytest.mark.parametrize(("max_messages", "max_bytes"), [(2, 1000), (100, 4)], ids=["messages", "bytes"])
def test_the_oldest_that_were_not_read_go_over_a_limit(max_messages: int, max_bytes: int) -> None:
    queue = MemoryQueue(max_messages, max_bytes)

    assert queue.append([owed(number) for number in range(5)]) == 3
    assert payloads(queue.read(0, 9)) == [b"3", b"4"]
    queue.check_invariants()


def test_what_was_read_does_not_count_toward_the_limit() -> None:
    queue = MemoryQueue(2, 1000)
    queue.append([owed(0), owed(1)])
    queue.read(0, 2)

    assert queue.append([owed(2), owed(3)]) == 0
    assert queue.count() == 4
    queue.check_invariants()


def test_a_dropped_queue_gives_out_no_serial_again() -> None:
    queue = MemoryQueue(10, 1000)
    queue.append([owed(0)])
    queue.drop()
    queue.append([owed(1)])

    assert [one.serial for one in queue.read(0, 9)] == [2]
    queue.check_invariants()


def test_a_backlog_ends_with_its_newest_message() -> None:
    queue = MemoryQueue(10, 1000)
    queue.append([owed(0), owed(1)])
    end = queue.backlog_end()
    queue.append([owed(2)])

    assert not queue.has_sent(end, 1)
    assert queue.has_sent(end, 2)


def test_what_was_not_read_is_dropped_and_what_is_in_flight_stays() -> None:
    queue = MemoryQueue(10, 1000)
    queue.append([owed(number) for number in range(5)])
    queue.read(0, 2)

    assert queue.drop_unread() == 3
    assert queue.count() == 2
    assert queue.read(2, 9) == []
    queue.check_invariants()
    queue.append([owed(5)])
    assert [one.serial for one in queue.read(2, 9)] == [6]
    queue.acknowledge(1)
    queue.acknowledge(2)
    queue.acknowledge(6)
    assert queue.count() == 0
    queue.check_invariants()
