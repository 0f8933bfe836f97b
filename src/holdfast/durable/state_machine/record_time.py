"""Rule 4, the time of a record: no clock is looked at but those that stand in the log.

A record claims the time min(stamp of the log, time of its writer). Its record time is the greater of that and the
record time before. A claim that leaps ahead by more than 30 s is not believed by itself, since writer and server often
share one wrong clock, and record time never goes back:

    claim ≤ time                     time
    claim ≤ time + 30 s              claim
    a leap                           as far as the newest record of another node claims it, too, or by as much as the
                                     stamps have gone on since the record before, at most 30 s: whichever is later

The first record of a vnode sets its time: there is nothing to compare it with. Record time is never 0, which stands for
"not yet" in other rows.
"""

from typing import Final

from holdfast.model.time import SECOND_US
from holdfast.records.cluster.rows import ClockRow

#: How far a single record may carry the time ahead.
MAX_LEAP_US: Final = 30 * SECOND_US


def advance_clock(clock: ClockRow | None, node: int, stamp_us: int, writer_us: int) -> ClockRow:
    """The clock of a vnode behind a record of `node`; None for a vnode without records."""
    claimed_us = min(stamp_us, writer_us)
    if clock is None:
        return ClockRow(max(claimed_us, 1), stamp_us, node, claimed_us, 0, 0)
    other_us = clock.other_claimed_us if clock.node == node else clock.claimed_us
    time_us = _record_time(clock, stamp_us, claimed_us, other_us)
    return ClockRow(time_us, stamp_us, node, claimed_us, other_us, clock.version)


def _record_time(clock: ClockRow, stamp_us: int, claimed_us: int, other_us: int) -> int:
    time_us = clock.time_us
    if claimed_us <= time_us + MAX_LEAP_US:
        return max(time_us, claimed_us)
    by_stamps_us = time_us + min(max(stamp_us - clock.stamp_us, 0), MAX_LEAP_US)
    return max(by_stamps_us, min(claimed_us, other_us))
