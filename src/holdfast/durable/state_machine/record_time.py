"""Rule 4, the time of a record: no clock is looked at but those that stand in the log.

A record claims the time min(stamp of the log, time of its writer). Its record time is the greater of that and the
record time before. A claim that is more than 30 s away is not believed by itself, since writer and server often share
one wrong clock, and record time never goes back:

    time + 30 s < claim              as far as the newest record of another node claims it, too, or by the pace of the
                                     stamps: whichever is later
    time < claim                     claim
    time - 30 s ≤ claim              time
    claim < time - 30 s              by the pace of the stamps

The pace of the stamps is what they have gone on by since the record before, at most 30 s, and not beyond a stamp that
is ahead. Time that stood still for a slow clock would jump when another node writes again, and end sessions too early;
30 s is what it may stand still at most.

A log that was silent for long, and then has one writer alone, is behind by as much until another node agrees. What was
left meanwhile would end too early. So the clock remembers since when its time is in doubt, because claims are more than
30 s away, and its last leaps over such times. What began to wait in one of them waits from its end on
(`Scope.has_passed`). What began before that has waited all the time.

The first record of a vnode sets its time: there is nothing to compare it with. Record time is never 0, which stands for
"not yet" in other rows.
"""

from typing import Final

from holdfast.model.time import SECOND_US
from holdfast.records.cluster.rows import ClockRow

#: How far a single record may carry the time ahead, and how far behind a clock is that says nothing of the time.
MAX_LEAP_US: Final = 30 * SECOND_US
#: Leaps that are remembered.
MOST_LEAPS: Final = 4


def advance_clock(clock: ClockRow | None, node: int, stamp_us: int, writer_us: int) -> ClockRow:
    """The clock of a vnode behind a record of `node`; None for a vnode without records."""
    claimed_us = min(stamp_us, writer_us)
    if clock is None:
        return ClockRow(max(claimed_us, 1), stamp_us, node, claimed_us, 0, 0)
    other_us = clock.other_claimed_us if clock.node == node else clock.claimed_us
    time_us = _record_time(clock, stamp_us, claimed_us, other_us)
    doubted_us, leaps = clock.doubted_us, clock.leaps
    if time_us > clock.time_us + MAX_LEAP_US:
        if doubted_us:
            leaps = (*leaps, (doubted_us, time_us))[-MOST_LEAPS:]
        doubted_us = 0
    elif not _is_near(claimed_us, time_us):
        doubted_us = doubted_us or time_us
    elif _is_near(other_us, time_us):
        doubted_us = 0
    return ClockRow(time_us, stamp_us, node, claimed_us, other_us, clock.version, doubted_us, leaps)


def _is_near(claimed_us: int, time_us: int) -> bool:
    return abs(claimed_us - time_us) <= MAX_LEAP_US


def _record_time(clock: ClockRow, stamp_us: int, claimed_us: int, other_us: int) -> int:
    time_us = clock.time_us
    if claimed_us > time_us + MAX_LEAP_US:
        return max(_by_stamps(clock, stamp_us), min(claimed_us, other_us))
    if claimed_us < time_us - MAX_LEAP_US:
        return _by_stamps(clock, stamp_us)
    return max(time_us, claimed_us)


def _by_stamps(clock: ClockRow, stamp_us: int) -> int:
    pace_us = min(max(stamp_us - clock.stamp_us, 0), MAX_LEAP_US)
    if stamp_us > clock.time_us:
        pace_us = min(pace_us, stamp_us - clock.time_us)
    return clock.time_us + pace_us
