"""Which member of a group gets a message."""

import pytest

from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.exchange.client import BrokerClient, Channel, Group, Subscribed
from holdfast.exchange.delivery.group_delivery import HASH, LEAST_INFLIGHT, ROUND_ROBIN, STICKY, pick_member
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.session.state import SessionState
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord


class DeafLink:
    """Nothing that is written arrives."""

    def write(self, data: bytes) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""

    def pause_reading(self) -> None:
        """Nothing to do."""

    def resume_reading(self) -> None:
        """Nothing to do."""


RECORD = SubscriptionRecord(parse_filter(b"a"), 1, False, False, 0, 0, 1)
MESSAGE = Message(b"a", b"", 1, ClientId("p"), 1)


def group(strategy: str, members: int = 3) -> Group:
    made = Group("$share/g/a", strategy, RECORD, MemoryQueue(10, 1000))
    for number in range(members):
        client = BrokerClient(SessionState(f"m{number}"), MemoryQueue(10, 1000))
        client.channel = Channel(DeafLink(), 1000)
        made.members[f"m{number}"] = Subscribed(client, RECORD, made)
    return made


def picked(made: Group, message: Message = MESSAGE) -> str:
    member = pick_member(made, message)
    return "" if member is None else member.client.session.client_id


def test_members_take_turns() -> None:
    made = group(ROUND_ROBIN)
    assert {picked(made) for _turn in range(3)} == {"m0", "m1", "m2"}


def test_the_member_with_the_fewest_in_flight_is_picked() -> None:
    made = group(LEAST_INFLIGHT)
    for name in ("m0", "m2"):
        made.members[name].client.session.window.admit(Owed(MESSAGE, 1))
    assert [picked(made) for _turn in range(4)] == ["m1"] * 4


def test_one_publisher_stays_with_one_member_by_hash_and_sticky_picks_stay() -> None:
    for strategy in (HASH, STICKY):
        made = group(strategy)
        assert len({picked(made) for _turn in range(5)}) == 1


@pytest.mark.parametrize("strategy", [ROUND_ROBIN, LEAST_INFLIGHT, HASH, STICKY])
def test_a_member_that_cannot_take_a_message_is_not_picked(strategy: str) -> None:
    made = group(strategy)
    first, second, third = (member.client for member in made.members.values())
    first.channel = None
    second.behind = True
    assert picked(made) == "m2"
    assert third.channel is not None
    third.channel.congested = True
    assert picked(made) == ""
    assert picked(made, Message(b"a", b"", 0, ClientId("p"), 1)) == "m1", "QoS 0 goes to a member that is behind, too"
