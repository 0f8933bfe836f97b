"""The timer wheel: what is watched is looked at about its time, all of a tick together."""

import pytest

from holdfast.broker.deadlines import TICK_US, Deadlines, TimerWheel
from holdfast.model.clock import ManualClock

START_US = 7 * TICK_US + 1


class Looks:
    """A timer wheel over texts, and which of them were looked at."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance(START_US)
        self.deadlines = Deadlines(self.clock)
        self.seen: list[str] = []
        self.rounds = TimerWheel[str](self.deadlines, self.look)

    def look(self, item: str) -> None:
        if item == "bad":
            raise RuntimeError("our own fault")
        self.seen.append(item)

    def watch(self, item: str, delay_us: int) -> int:
        return self.rounds.watch(item, self.clock.monotonic_us(), delay_us)

    def advance(self, by_us: int) -> list[str]:
        self.clock.advance(by_us)
        self.deadlines.fire()
        return sorted(self.seen)


@pytest.mark.parametrize("delay_us", [0, 1, TICK_US - 1, TICK_US, TICK_US + 1, 90_000_000])
def test_an_item_is_never_looked_at_early_and_less_than_a_tick_late(delay_us: int) -> None:
    looks = Looks()
    looks.watch("a", delay_us)
    assert looks.advance(max(0, delay_us - 1)) == []
    assert looks.advance(TICK_US) == ["a"]


def test_items_of_one_tick_share_a_deadline_and_are_looked_at_once() -> None:
    looks = Looks()
    for item in ("a", "b", "c"):
        looks.watch(item, TICK_US)
    assert len(looks.deadlines) == 1
    assert looks.advance(2 * TICK_US) == ["a", "b", "c"]
    assert looks.advance(2 * TICK_US) == ["a", "b", "c"]
    assert len(looks.rounds) == 0


def test_a_forgotten_item_is_not_looked_at_and_an_empty_tick_holds_nothing() -> None:
    looks = Looks()
    tick = looks.watch("a", TICK_US)
    assert looks.watch("b", TICK_US) == tick
    looks.rounds.forget("a", tick)
    assert looks.advance(2 * TICK_US) == ["b"]
    for _ in range(1000):
        looks.rounds.forget("c", looks.watch("c", 3_600_000_000))
    assert len(looks.rounds) == 0
    assert len(looks.deadlines) < 100


def test_an_item_can_be_forgotten_after_its_tick() -> None:
    looks = Looks()
    tick = looks.watch("a", TICK_US)
    looks.advance(2 * TICK_US)
    looks.rounds.forget("a", tick)
    assert looks.seen == ["a"]


def test_an_item_that_fails_does_not_stop_the_others() -> None:
    looks = Looks()
    for item in ("a", "bad", "b"):
        looks.watch(item, TICK_US)
    assert looks.advance(2 * TICK_US) == ["a", "b"]
