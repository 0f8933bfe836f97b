"""Questions of SUBSCRIBEs: each is answered once, by the leader or by the end of its patience."""

from collections.abc import Callable

import pytest

from holdfast.cluster.groups.subscribe_asks import PATIENCE_S, SubscribeAsks


class Handle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        assert delay == PATIENCE_S
        self.handles.append(Handle(callback))
        return self.handles[-1]


def test_a_confirmation_is_for_one_question_alone() -> None:
    timers, heard = Timers(), list[tuple[str, bool]]()
    asks = SubscribeAsks(timers)
    first = asks.begin(lambda listed: heard.append(("first", listed)))
    second = asks.begin(lambda listed: heard.append(("second", listed)))
    assert first != second
    asks.confirm(second)
    assert heard == [("second", True)]
    assert [handle.cancelled for handle in timers.handles] == [False, True]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_question_is_answered_once(is_late: bool) -> None:
    timers, heard = Timers(), list[bool]()
    asks = SubscribeAsks(timers)
    ask = asks.begin(heard.append)
    if is_late:
        timers.handles[0].callback()
    asks.confirm(ask)
    asks.confirm(ask)
    assert heard == [not is_late]
