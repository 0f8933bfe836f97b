"""How long a writer waits before its next record, so that records are few and large while the log is busy.

A record costs its servers a millisecond or two of processor time and six syncs, however few items it has. Several
nodes write into several logs at the same servers, each with one record on its way. If all of them send the next record
at once, the servers are kept busy with small ones, and every record waits in their queues. What waits in a writer
instead goes with the next record, and costs nothing.

    answered after      about the least time of late      longer
    next record         at once                           after a pause that grows with what is above it

1. A log that answers as quickly as it can is never waited for.
2. A pause is bounded: an append that hung for seconds says nothing of the next one.
3. A record with many items does not wait. It shares its cost already.
"""

from typing import Final

#: Answers that take up to so many halves of the least time are quick.
_QUICK_HALVES: Final = 3
#: Of what an answer takes beyond that, so much is waited for.
_PAUSES: Final = 3
LONGEST_PAUSE_US: Final = 20_000
#: The least time is that of this stretch and the one before.
_STRETCH_US: Final = 10_000_000
#: Bytes of items with which a record is sent at once.
LARGE_BYTES: Final = 64 << 10


class AppendPace:
    """Of the appends of one writer."""

    def __init__(self, longest_pause_us: int = LONGEST_PAUSE_US) -> None:
        self._longest_pause_us: Final = longest_pause_us
        #: The least time of an answer in this stretch and in the one before; 0 if there was none.
        self._least_us = 0
        self._least_before_us = 0
        self._stretch_began_us = 0
        #: A mean in which the last answers count most.
        self._mean_us = 0

    def answered(self, took_us: int, now_us: int) -> None:
        """An append was answered after so long."""
        if now_us - self._stretch_began_us > _STRETCH_US:
            self._stretch_began_us = now_us
            self._least_before_us, self._least_us = self._least_us, 0
        if not self._least_us or took_us < self._least_us:
            self._least_us = took_us
        self._mean_us += (took_us - self._mean_us) // 4

    def pause_us(self) -> int:
        """How long the next record is to wait."""
        least_us = self._least_us
        if self._least_before_us:
            least_us = min(least_us, self._least_before_us) if least_us else self._least_before_us
        late_us = self._mean_us - _QUICK_HALVES * least_us // 2
        return min(_PAUSES * late_us, self._longest_pause_us) if late_us > 0 else 0
