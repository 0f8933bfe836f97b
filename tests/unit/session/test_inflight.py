"""The window of messages in flight: packet ids that wrap, limits, what comes again."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.session.inflight import Window

pytestmark = pytest.mark.compiled


def owed(qos: int = 1, size: int = 10) -> Owed:
    return Owed(Message(b"t", b"x" * (size - 1), qos, ClientId("p"), 1), qos)


def test_packet_ids_begin_at_one_and_follow_each_other() -> None:
    window = Window()
    assert [window.admit(owed()) for _n in range(3)] == [1, 2, 3]


def test_packet_ids_wrap_and_never_hit_one_in_use() -> None:
    """T3: a wrapped id never overwrites an unacknowledged message."""
    window = Window()
    stays = owed()
    assert window.admit(stays) == 1
    assert window.admit(owed()) == 2
    for _n in range(65_533):
        window.acknowledge(window.admit(owed()))
    assert window.admit(owed()) == 3
    assert window.owed(1) is stays
    window.check_invariants()


def test_a_full_window_has_no_room_and_an_acknowledgement_makes_some() -> None:
    window = Window()
    window.reconnected(65_535)
    for _n in range(65_535):
        assert window.room()
        window.admit(owed())
    assert not window.room()
    window.acknowledge(40_000)
    assert window.room()
    assert window.admit(owed()) == 40_000
    window.check_invariants()


def test_bytes_count_until_they_are_acknowledged_or_released() -> None:
    window = Window()
    window.limit_bytes = 25
    one, two = window.admit(owed(1)), window.admit(owed(2))
    assert window.room()
    window.admit(owed(1))
    assert not window.room()
    window.release(two)
    assert window.room()
    window.acknowledge(one)
    assert window.size_bytes == 10
    window.check_invariants()


def test_acknowledgements_of_the_wrong_kind_change_nothing() -> None:
    """T7, Q4."""
    window = Window()
    one, two = window.admit(owed(1)), window.admit(owed(2))
    assert window.acknowledge(two) is None
    assert window.release(one) is None
    assert window.complete(one) is None
    assert window.acknowledge(99) is None
    assert len(window) == 2
    window.check_invariants()


def test_after_a_reconnect_everything_comes_again_in_order_within_the_new_limit() -> None:
    window = Window()
    ids = [window.admit(owed(2)) for _n in range(4)]
    window.release(ids[1])
    window.reconnected(2)
    assert not window.room()
    assert [window.next_unsent(), window.next_unsent(), window.next_unsent()] == [1, 2, 0]
    assert window.is_released(2)
    window.complete(1)
    assert window.next_unsent() == 3
    window.check_invariants()
    assert window.resuming()


def test_an_entry_that_waits_to_be_sent_again_can_be_acknowledged_late() -> None:
    window = Window()
    ids = [window.admit(owed(1)) for _n in range(3)]
    window.reconnected(1)
    assert window.next_unsent() == ids[0]
    window.acknowledge(ids[1])
    window.acknowledge(ids[0])
    window.check_invariants()
    assert window.next_unsent() == ids[2]
