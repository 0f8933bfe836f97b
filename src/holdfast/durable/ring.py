"""The newest messages of a shard in memory, so that readers near the present do not go to the disk.

    on disk only │ in the ring                    │ not yet
    ─────────────┼────────────────────────────────┼────────
         evicted_us                           the last position

What is in a ring is in the log too, or in a batch on its way there. A reader passes the durable head and sees nothing
above it.
"""

from bisect import bisect_left
from typing import Final

from holdfast.model.ids import ClientId
from holdfast.model.message import Message

#: Room that a message takes besides its bytes.
_OBJECT_BYTES: Final = 400
#: In the place of an evicted message until it is cut off: a list of large ones would hold memory that is not counted.
_GONE: Final = Message(b"-", b"", 0, ClientId("-"), 0)
#: Evicted messages are cut off when they are this many, so that cutting is cheap on average.
_CUT: Final = 4096


class Ring:
    """The last messages of one shard.

    1. Positions increase; every message of the shard above `evicted_us` is in the ring.
    2. `size_bytes` is at most `max_bytes`, unless a single message is larger.
    """

    def __init__(self, max_bytes: int, evicted_us: int) -> None:
        self._max_bytes: Final = max_bytes
        #: The last position that is not in the ring.
        self.evicted_us = evicted_us
        self.size_bytes = 0
        self._positions: list[int] = []
        self._messages: list[Message] = []
        self._start = 0

    def append(self, message: Message) -> None:
        """Take the newest message of the shard, whose place is known."""
        self._positions.append(message.position_us)
        self._messages.append(message)
        self.size_bytes += _weight(message)
        while self.size_bytes > self._max_bytes and self._start < len(self._messages) - 1:
            self._evict()

    def _evict(self) -> None:
        start = self._start
        self.evicted_us = self._positions[start]
        self.size_bytes -= _weight(self._messages[start])
        self._messages[start] = _GONE
        self._start = start + 1
        if self._start >= _CUT:
            del self._positions[: self._start]
            del self._messages[: self._start]
            self._start = 0

    def covers(self, from_us: int) -> bool:
        """Whether nothing at or above `from_us` is on disk only."""
        return from_us > self.evicted_us

    def read(self, from_us: int, before_us: int, limit: int) -> list[Message]:
        """At most `limit` messages with from_us <= position < before_us, in order.

        Requires: covers(from_us).
        """
        first = bisect_left(self._positions, from_us, self._start)
        end = bisect_left(self._positions, before_us, first)
        return self._messages[first : min(end, first + limit)]

    def __len__(self) -> int:
        return len(self._messages) - self._start

    def check_invariants(self) -> None:
        assert self._positions == sorted(set(self._positions))
        kept = self._messages[self._start :]
        assert [message.position_us for message in kept] == self._positions[self._start :]
        assert all(message is _GONE for message in self._messages[: self._start])
        assert self.size_bytes == sum(map(_weight, kept))
        assert self.size_bytes <= self._max_bytes or len(kept) == 1
        assert not kept or kept[0].position_us > self.evicted_us


def _weight(message: Message) -> int:
    return _OBJECT_BYTES + len(message.topic) + len(message.payload) + len(message.properties)
