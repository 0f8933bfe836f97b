"""A group as its leader has it: order, progress, and who gets what."""

from holdfast.cluster.groups.led_group import MAX_WAITING, LedGroup, LedMember, OpenWork, group_id_of, group_record
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.exchange.delivery.group_delivery import HASH, LEAST_INFLIGHT, ROUND_ROBIN, STICKY
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from tests.cluster_stores import MemoryMessages

GROUP = "\0group\0$share/g/t/#"


class GroupLog:
    """One shard of messages, and a group over it."""

    def __init__(self, strategy: str = ROUND_ROBIN, start: int = 0, assigned: tuple[int, ...] = ()) -> None:
        self.tables = MemoryTables()
        self.delivered = {0: 0}
        self.group = LedGroup(GROUP, strategy, {0: start}, [(0, one) for one in assigned], self._new_queue)

    def _new_queue(self, name: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
        rule = OwedRule(name, subscriptions, upgrade_qos=False)
        messages = MemoryMessages([self.tables])
        return LogQueue(messages, self.delivered, rule, lambda: MemoryQueue(10, 1000), lambda _name, _lost: None)

    def publish(self, position_us: int) -> Message:
        message = Message(b"t/1", b"%d" % position_us, 2, ClientId("c"), 0)
        message.shard, message.position_us = 0, position_us
        self.tables.messages.append(PublishedMessage(0, message, position_us, 0, is_will=False))
        self.group.offer(message)
        self.delivered[0] = position_us
        return message

    def take(self) -> list[int]:
        found: list[int] = []
        while (message := self.group.next()) is not None:
            found.append(message.position_us)
        return found

    def open(self, *positions: int) -> None:
        """A member is given these."""
        for position_us in positions:
            message = self.group.next()
            assert message is not None
            assert message.position_us == position_us
            self.group.open[0, position_us] = OpenWork(message, ("m", 1), 1, 0)


def test_a_group_is_named_by_its_filter_without_what_a_member_adds() -> None:
    record = SubscriptionRecord(parse_filter(b"$share/g/t/#"), 1, False, False, 0, 0, 0)
    assert group_id_of(record) == GROUP
    assert group_record(GROUP, {0: 7}).filter.levels == (b"t", b"#")
    assert not group_record(GROUP, {0: 7}).begins_before(0, 7)


def test_messages_above_the_start_come_in_order_from_the_log_and_live() -> None:
    log = GroupLog(start=2)
    for position_us in (1, 2, 3, 4):
        log.publish(position_us)
    assert log.take() == [3, 4]
    log.publish(5)
    assert log.take() == [5]


def test_what_an_earlier_leader_has_assigned_is_not_given_out() -> None:
    log = GroupLog(assigned=(2,))
    for position_us in (1, 2, 3):
        log.publish(position_us)
    assert log.take() == [1, 3]


def test_progress_stops_before_what_is_open_waits_or_is_being_assigned() -> None:
    """A20: whatever is above it is given out again by the next leader."""
    log = GroupLog()
    for position_us in (1, 2, 3, 4):
        log.publish(position_us)
    assert log.group.progress() == {0: 0}
    log.open(1, 2)
    log.group.finish((0, 2))
    assert log.group.progress() == {0: 0}
    log.group.finish((0, 1))
    assert log.group.progress() == {0: 2}
    message = log.group.next()
    assert message is not None
    log.group.assigning[0, 3] = message
    assert log.group.progress() == {0: 2}
    del log.group.assigning[0, 3]
    assert log.take() == [4]
    assert log.group.progress() == {0: 4}


def test_progress_is_never_below_the_start_though_this_node_is_behind_it() -> None:
    log = GroupLog(start=10)
    log.publish(5)
    assert log.take() == []
    assert log.group.progress() == {0: 10}


def test_what_comes_back_comes_first_and_in_order() -> None:
    log = GroupLog()
    for position_us in (1, 2, 3, 4):
        log.publish(position_us)
    log.open(1, 2, 3)
    log.group.give_back([(0, 3), (0, 1), (0, 1), (0, 99)])
    log.group.check_invariants()
    assert log.take() == [1, 3, 4]


def test_what_members_of_an_earlier_leader_have_done_is_not_given_out() -> None:
    log = GroupLog()
    log.publish(1)
    log.publish(2)
    log.group.finish((0, 1))
    assert log.take() == [2]


def test_more_than_a_group_keeps_in_memory_stays_in_the_log() -> None:
    log = GroupLog()
    assert log.take() == []
    for position_us in range(1, MAX_WAITING + 11):
        log.publish(position_us)
    assert log.group.progress() == {0: 0}
    assert log.take() == list(range(1, MAX_WAITING + 11))


def members(log: GroupLog, **free: int) -> None:
    for name, count in free.items():
        member = log.group.members[name, 1] = LedMember((name, 1), 1, 1)
        member.free = count


def picked(log: GroupLog, count: int) -> list[str]:
    message = log.publish(len(log.tables.messages) + 1)
    found: list[str] = []
    for _message in range(count):
        member = log.group.pick(message)
        if member is not None:
            member.unseen += 1
            found.append(member.name[0])
    return found


def test_nobody_is_given_more_than_it_takes() -> None:
    for strategy in (ROUND_ROBIN, LEAST_INFLIGHT, HASH, STICKY):
        log = GroupLog(strategy)
        members(log, a=2, b=1, c=0)
        assert sorted(picked(log, 5)) == ["a", "a", "b"], strategy


def test_strategies_choose_as_on_one_node() -> None:
    log = GroupLog(ROUND_ROBIN)
    members(log, a=9, b=9)
    assert picked(log, 4) in (["a", "b", "a", "b"], ["b", "a", "b", "a"])
    log = GroupLog(LEAST_INFLIGHT)
    members(log, a=9, b=9)
    log.group.members["a", 1].in_flight = 3
    assert picked(log, 3) == ["b", "b", "b"]
    for strategy in (STICKY, HASH):
        log = GroupLog(strategy)
        members(log, a=9, b=9)
        assert len(set(picked(log, 4))) == 1
