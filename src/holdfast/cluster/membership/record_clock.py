"""The clock of a broker in a cluster: that of its machine, as far as the logs agree with it.

Messages that expire, and versions of connections, are judged by the clock of the node that delivers or accepts. A node
with a wrong clock would drop messages long before their time. Record time is what all nodes have agreed on. So the time
of a broker is that of its machine as long as it is within thirty seconds of the newest record time, by the seconds that
have passed since; otherwise it is that.
"""

from typing import Final

from holdfast.durable.state_machine.record_time import MAX_LEAP_US
from holdfast.model.clock import Clock


class RecordClock:
    """A `Clock` by shape. Requires: `applied` with the time of every record that is applied here."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        #: 0 before the first record: then the clock of the machine counts.
        self._newest_us = 0
        #: When that was applied: monotonic.
        self._applied_us = 0

    def applied(self, time_us: int) -> None:
        """A record with this time was applied."""
        if time_us > self._newest_us:
            self._newest_us = time_us
            self._applied_us = self._clock.monotonic_us()

    def wall_us(self) -> int:
        now_us = self._clock.wall_us()
        if not self._newest_us:
            return now_us
        agreed_us = self._newest_us + self._clock.monotonic_us() - self._applied_us
        return now_us if abs(now_us - agreed_us) <= MAX_LEAP_US else agreed_us

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()
