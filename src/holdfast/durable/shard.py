"""One shard of the log: its clock, its serials, its durable head, its newest messages."""

from collections import deque
from typing import Final

from holdfast.durable.positions import ShardClock
from holdfast.durable.ring import Ring


class Shard:
    """What a node knows of a shard.

    1. head_us <= position_us <= the clock's last; head_serial <= serial.
    2. The head moves only when the batch that wrote a position has its receipt.
    """

    def __init__(self, number: int, clock: ShardClock, *, position_us: int, serial: int, commits: int, ring: Ring):
        self.id: Final = number
        self.clock: Final = clock
        self.ring: Final = ring
        #: The last position and serial that were given out.
        self.position_us = position_us
        self.serial = serial
        self.commits = commits
        #: The durable head.
        self.head_us = position_us
        self.head_serial = serial
        #: Ends of commits without a receipt: the engine's number, last position, last serial.
        self._pending: Final[deque[tuple[int, int, int]]] = deque()

    def wrote(self, mark: int) -> None:
        """A commit with messages of this shard is on its way."""
        self.commits += 1
        self.position_us = self.clock.last_us
        self._pending.append((mark, self.position_us, self.serial))

    def receipt(self, mark: int) -> None:
        """Everything up to `mark` is durable."""
        pending = self._pending
        while pending and pending[0][0] <= mark:
            _mark, self.head_us, self.head_serial = pending.popleft()

    def awaiting(self) -> bool:
        """Whether messages of it wait for their receipt."""
        return bool(self._pending)
