"""Positions: the time in a shard that never stands still and never goes back.

    given out      … 41 42 43 │                         strictly increasing
    last                    ↑ 43
    ceiling                   │············↑ 53         synced; no reader has seen a position above it
    after a crash                          53 54 …      continues behind the ceiling, not behind what it remembers

A position is the wall clock's time in µs as long as that grows, and one more than the last where it does not. After a
crash the log does not tell where to continue: its last messages may be lost, or dropped by retention, and a reader may
have seen them. Hence the ceiling, which is synced before a position above it is given out.

`TrustedTime` stands between the system's clock and the shards of a node: a clock that leaps ahead would push every
shard ahead, for good, since positions never go back. `ShardClock` is asked once per message, `TrustedTime` once per
loop iteration.
"""

from typing import Final

from holdfast.model.errors import MisuseError

#: How far a ceiling is put ahead: a sync every few seconds, and at most that much is skipped after a crash.
CEILING_STEP_US: Final = 10_000_000
#: A new ceiling is asked for when less than this is left: time enough for a slow sync.
CEILING_LOW_US: Final = 5_000_000
#: A clock that leaps ahead by more than this was set wrong, or the machine slept: a person has to confirm it.
MAX_LEAP_US: Final = 300_000_000


class ShardClock:
    """The positions of one shard.

    1. Every position is greater than all before it, and not below the floor.
    2. A position that was shown is not above the ceiling: a position for which `needs_ceiling` is true is
       not shown before a higher ceiling is synced and `raise_ceiling` was called. A batch that waits for its own
       sync may carry the ceiling with it. One that is acknowledged before its sync may not.
    3. A clock opened on what was synced continues above everything that was ever shown.
    """

    def __init__(self, ceiling_us: int, tail_us: int) -> None:
        """`ceiling_us` and `tail_us` are the synced ceiling and the last position in the log; 0 if there is none."""
        self.last_us = max(ceiling_us, tail_us)
        self.ceiling_us = ceiling_us
        self._floor_us = 0

    def next(self, now_us: int) -> int:
        """Give out a position. `now_us` comes from `TrustedTime`."""
        position_us = self.last_us + 1
        if position_us < now_us:
            position_us = now_us
        if position_us < self._floor_us:
            position_us = self._floor_us
        self.last_us = position_us
        return position_us

    def next_many(self, now_us: int, count: int) -> int:
        """Give out `count` positions that follow each other; the first of them."""
        first_us = self.next(now_us)
        self.last_us = first_us + count - 1
        return first_us

    def earliest(self, now_us: int) -> int:
        """What `next` would give out."""
        return max(self.last_us + 1, now_us, self._floor_us)

    def raise_floor(self, floor_us: int) -> None:
        """A generation begins at `floor_us`: no position from now on is below."""
        if floor_us <= self.last_us:
            raise MisuseError(f"a generation cannot begin at {floor_us}, the shard is at {self.last_us} already")
        self._floor_us = max(self._floor_us, floor_us)

    def needs_ceiling(self, position_us: int) -> bool:
        """Whether no reader may see this position yet."""
        return position_us > self.ceiling_us

    def wanted_ceiling(self, now_us: int) -> int:
        """The ceiling to be synced now; 0 as long as the present one is far enough ahead."""
        earliest_us = self.earliest(now_us)
        return 0 if earliest_us + CEILING_LOW_US <= self.ceiling_us else earliest_us + CEILING_STEP_US

    def raise_ceiling(self, ceiling_us: int) -> None:
        """Requires: a ceiling record of `ceiling_us` is synced. It is never lowered, by retention neither."""
        self.ceiling_us = max(self.ceiling_us, ceiling_us)


def generation_start(clocks: list[ShardClock], now_us: int) -> int:
    """Where a generation of these shards can begin: above everything that they gave out."""
    return max([clock.earliest(now_us) for clock in clocks])


class TrustedTime:
    """The wall clock, followed as long as it is believable.

    1. Small steps ahead and every step back are followed: positions take care of the latter.
    2. A leap ahead of more than five minutes against the monotonic clock is not followed: time continues at its pace
       from where it was, and `leap_us` says by how much the clock is ahead, until it comes back or is confirmed.
    3. What counts is the furthest the clock was ever trusted: one that is set back and then right again has not leapt.
    """

    def __init__(self, wall_us: int, monotonic_us: int) -> None:
        """The clock is believed at the start: a long pause and a wrong clock look the same."""
        #: Wall time less monotonic time, at the furthest that was trusted, and as it is now.
        self._trusted_us = wall_us - monotonic_us
        self._present_us = self._trusted_us
        #: 0 unless the clock is not followed: raise the alarm.
        self.leap_us = 0

    def now_us(self, wall_us: int, monotonic_us: int) -> int:
        """The time to give out positions by."""
        self._present_us = wall_us - monotonic_us
        ahead_us = self._present_us - self._trusted_us
        if ahead_us > MAX_LEAP_US:
            self.leap_us = ahead_us
            return monotonic_us + self._trusted_us
        self.leap_us = 0
        if ahead_us > 0:
            self._trusted_us = self._present_us
        return wall_us

    def confirm(self) -> None:
        """The clock was confirmed to be right: follow it from now on."""
        self._trusted_us = max(self._trusted_us, self._present_us)
        self.leap_us = 0
