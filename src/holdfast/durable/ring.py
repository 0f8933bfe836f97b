"""The newest messages of a shard in memory, so that readers near the present do not go to the disk.

    on disk only │ in the ring                    │ not yet
    ─────────────┼────────────────────────────────┼────────
         evicted_us                           the last position

What is in a ring is in the log too, or in a batch on its way there. A reader passes the durable head and sees nothing
above it. Messages come and go by commits: within one, positions follow each other.
"""

from bisect import bisect_right
from typing import Final

from holdfast.model.message import Message

#: Room that a message takes besides its bytes.
_OBJECT_BYTES: Final = 400
#: Room that a commit takes: its list, its first position and its size.
_COMMIT_BYTES: Final = 150
#: A commit above this share of the ring is cut into pieces: it would stay as a whole as long as nothing follows it.
_LARGEST_SHARE: Final = 4
#: Evicted commits are cut off when they are this many, so that cutting is cheap on average.
_CUT: Final = 4096


class Ring:
    """The last messages of one shard.

    1. Positions increase; every message of the shard above `evicted_us` is in the ring.
    2. `size_bytes` is at most `max_bytes`, unless a single commit is larger; such a commit has one message.
    """

    def __init__(self, max_bytes: int, evicted_us: int) -> None:
        self._max_bytes: Final = max_bytes
        #: The last position that is not in the ring.
        self.evicted_us = evicted_us
        self.size_bytes = 0
        #: Commits, their first positions and their sizes; empty before `_start`.
        self._commits: list[list[Message]] = []
        self._firsts: list[int] = []
        self._sizes: list[int] = []
        self._start = 0

    def append(self, messages: list[Message]) -> None:
        """Take the messages of the newest commit, whose places are known.

        Requires: their positions follow each other, and the list is not changed any more.
        """
        size_bytes = _COMMIT_BYTES + _OBJECT_BYTES * len(messages)
        for message in messages:
            size_bytes += len(message.topic) + len(message.payload) + len(message.properties)
        if len(messages) > 1 and size_bytes > self._max_bytes // _LARGEST_SHARE:
            middle = len(messages) // 2
            self.append(messages[:middle])
            self.append(messages[middle:])
            return
        self._commits.append(messages)
        self._firsts.append(messages[0].position_us)
        self._sizes.append(size_bytes)
        self.size_bytes += size_bytes
        while self.size_bytes > self._max_bytes and self._start < len(self._commits) - 1:
            self._evict()

    def _evict(self) -> None:
        start = self._start
        self.evicted_us = self._commits[start][-1].position_us
        self.size_bytes -= self._sizes[start]
        self._commits[start] = []
        self._start = start + 1
        if self._start >= _CUT:
            del self._commits[: self._start]
            del self._firsts[: self._start]
            del self._sizes[: self._start]
            self._start = 0

    def covers(self, from_us: int) -> bool:
        """Whether nothing at or above `from_us` is on disk only."""
        return from_us > self.evicted_us

    def read(self, from_us: int, before_us: int, limit: int) -> list[Message]:
        """At most `limit` messages with from_us <= position < before_us, in order.

        Requires: covers(from_us).
        """
        found: list[Message] = []
        number = max(bisect_right(self._firsts, from_us) - 1, self._start)
        while number < len(self._commits) and len(found) < limit:
            commit = self._commits[number]
            first_us = self._firsts[number]
            begin = max(0, from_us - first_us)
            end = min(len(commit), before_us - first_us, begin + limit - len(found))
            if begin < end:
                found.extend(commit[begin:end])
            elif first_us >= before_us:
                break
            number += 1
        return found

    def __len__(self) -> int:
        return sum([len(commit) for commit in self._commits])

    def check_invariants(self) -> None:
        commits = self._commits[self._start :]
        positions = [message.position_us for commit in commits for message in commit]
        assert positions == sorted(set(positions))
        assert not any(self._commits[: self._start])
        assert all(commits)
        for first_us, commit in zip(self._firsts[self._start :], commits, strict=True):
            assert [message.position_us for message in commit] == list(range(first_us, first_us + len(commit)))
        assert self.size_bytes == sum(self._sizes[self._start :])
        assert self.size_bytes <= self._max_bytes or (len(commits) == 1 and len(commits[0]) == 1)
        assert not positions or positions[0] > self.evicted_us
