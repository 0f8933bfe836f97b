"""The clock of a broker in a cluster: that of its machine, as far as the logs or another node agree with it.

Messages that expire, and versions of connections, are judged by the clock of the node that delivers or accepts. A node
with a wrong clock would drop messages long before their time. So the time of a broker is that of its machine as long as
one of two others is within thirty seconds of it:

    record time        what all nodes have agreed on
    another node       the clock that its last records were written by

Record time stands still for minutes where the servers' clocks are behind. Nodes whose clocks are right agree with each
other then, whenever they were started; otherwise the newest connection, at one that follows record time, would be
replaced by an older one. If neither agrees, record time counts.

A node that is behind applies a record long after it was written. So of the records of the last minutes the one counts
that says the latest time: the others have only waited longer.
"""

from typing import Final

from holdfast.durable.state_machine.record_time import MAX_LEAP_US
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

#: Of so long, twice, times are remembered: longer than a node is behind that serves clients.
_PERIOD_US: Final = 600 * SECOND_US


class _AppliedTime:
    """A clock that records tell of: by how much it was ahead of the monotonic clock when they were applied, at most, in
    this period and in the one before.
    """

    def __init__(self, time_us: int, now_us: int) -> None:
        self._ahead_us = self._ahead_before_us = time_us - now_us
        self._period_ends_us = now_us + _PERIOD_US

    def applied(self, time_us: int, now_us: int) -> None:
        ahead_us = time_us - now_us
        if now_us >= self._period_ends_us:
            self._ahead_before_us, self._ahead_us = self._ahead_us, ahead_us
            self._period_ends_us = now_us + _PERIOD_US
        elif ahead_us > self._ahead_us:
            self._ahead_us = ahead_us

    def at(self, now_us: int) -> int:
        """The time now, by the monotonic clock."""
        return now_us + max(self._ahead_us, self._ahead_before_us)


class RecordClock:
    """A `Clock` by shape. Requires: `applied` for every record that is applied here."""

    def __init__(self, clock: Clock, node: int) -> None:
        self._clock: Final = clock
        self._node: Final = node
        #: None before the first record: then the clock of the machine counts.
        self._records: _AppliedTime | None = None
        #: By node; its own records say nothing of its clock.
        self._others: Final[dict[int, _AppliedTime]] = {}

    def applied(self, time_us: int, writer: int, written_us: int) -> None:
        """A record with this time was applied, which a node wrote by its clock; without a writer it is none's."""
        now_us = self._clock.monotonic_us()
        if self._records is None:
            self._records = _AppliedTime(time_us, now_us)
        else:
            self._records.applied(time_us, now_us)
        if writer and writer != self._node:
            other = self._others.get(writer)
            if other is None:
                self._others[writer] = _AppliedTime(written_us, now_us)
            else:
                other.applied(written_us, now_us)

    def wall_us(self) -> int:
        wall_us = self._clock.wall_us()
        if self._records is None:
            return wall_us
        now_us = self._clock.monotonic_us()
        agreed_us = self._records.at(now_us)
        if abs(wall_us - agreed_us) <= MAX_LEAP_US:
            return wall_us
        for other in self._others.values():
            if abs(wall_us - other.at(now_us)) <= MAX_LEAP_US:
                return wall_us
        return agreed_us

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()
