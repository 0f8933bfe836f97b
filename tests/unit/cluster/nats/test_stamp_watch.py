"""When the leader of a stream whose stamps are wrong is asked to step down (A12)."""

import pytest

from holdfast.cluster.nats.stamp_watch import StampWatch
from tests.unit.durable.state_machine.vnode import S


@pytest.mark.parametrize("ahead_s", [600, -600, 10 * 365 * 86400])
def test_a_leader_is_asked_once_a_minute_and_as_often_as_there_are_servers(ahead_s: int) -> None:
    watch = StampWatch("vnode 0", 30)
    assert not watch.look(29 * S, 0)
    asked = [second for second in range(1000) if watch.look(ahead_s * S, second * S)]
    assert asked == [0, 60, 120]
    assert watch.is_wrong


def test_stamps_that_are_right_again_begin_anew() -> None:
    watch = StampWatch("vnode 0", 30)
    assert [watch.look(600 * S, 0), watch.look(0, S), watch.look(-600 * S, 2 * S)] == [True, False, True]
    assert not watch.look(0, 3 * S)
    assert not watch.is_wrong
