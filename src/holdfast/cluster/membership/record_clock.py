"""The clock of a broker in a cluster: that of its machine, as far as the logs agree with it.

Messages that expire, and versions of connections, are judged by the clock of the node that delivers or accepts. A node
with a wrong clock would drop messages long before their time. Record time is what all nodes have agreed on. So the time
of a broker is that of its machine as long as it is within thirty seconds of record time, by the seconds that have
passed since a record was applied; otherwise it is that.

A node that is behind applies a record long after it was written. So of the records of the last minutes the one counts
that says the latest time: the others have only waited longer.
"""

from typing import Final

from holdfast.durable.state_machine.record_time import MAX_LEAP_US
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

#: Of so long, twice, records are remembered: longer than a node is behind that serves clients.
_PERIOD_US: Final = 600 * SECOND_US


class RecordClock:
    """A `Clock` by shape. Requires: `applied` with the time of every record that is applied here."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        #: The most by which record time was ahead of the monotonic clock when a record was applied, in this period and
        #: in the one before. None before the first record: then the clock of the machine counts.
        self._ahead_us: int | None = None
        self._ahead_before_us = 0
        self._period_ends_us = 0

    def applied(self, time_us: int) -> None:
        """A record with this time was applied."""
        now_us = self._clock.monotonic_us()
        ahead_us = time_us - now_us
        if self._ahead_us is None:
            self._ahead_us = self._ahead_before_us = ahead_us
            self._period_ends_us = now_us + _PERIOD_US
        elif now_us >= self._period_ends_us:
            self._ahead_before_us, self._ahead_us = self._ahead_us, ahead_us
            self._period_ends_us = now_us + _PERIOD_US
        elif ahead_us > self._ahead_us:
            self._ahead_us = ahead_us

    def wall_us(self) -> int:
        now_us = self._clock.wall_us()
        if self._ahead_us is None:
            return now_us
        agreed_us = self._clock.monotonic_us() + max(self._ahead_us, self._ahead_before_us)
        return now_us if abs(now_us - agreed_us) <= MAX_LEAP_US else agreed_us

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()
