"""The log as its readers see it: messages of a filter from a time on, shard by shard, in order.

    start_replay(filter, since) ──▶ Replay ──next(n)──▶ Page, Page, … end … Page

A replay that has reached its end goes on when more arrives. Its cursor can be saved and resumed, after a restart too.
Nothing above a shard's durable head is ever read.
"""

from typing import Final, Protocol

from holdfast.model.message import Message
from holdfast.records.cursors import Cursor

#: No end.
FOR_EVER: Final = 2**63 - 1


class Lost:
    """Messages that retention removed before a reader came to them. It is told, never skipped in silence."""

    def __init__(self, shard: int, from_us: int, to_us: int, at_most: int) -> None:
        self.shard: Final = shard
        #: The range [from_us, to_us) of positions, and how many messages of all topics it held at most.
        self.from_us: Final = from_us
        self.to_us: Final = to_us
        self.at_most: Final = at_most

    def __repr__(self) -> str:
        return f"Lost(shard {self.shard}, [{self.from_us}, {self.to_us}), at most {self.at_most} messages)"


class Page:
    """What one `next` found.

    1. Messages of one shard are in the order of their positions. A page of a replay by time is in order as a whole,
       any other page holds messages of one shard.
    2. `at_end` tells that nothing more was there, as of now.
    3. `next_stream` tells that the messages are of another shard than those of the page before.
    """

    def __init__(self, messages: list[Message], *, at_end: bool, next_stream: bool, lost: list[Lost]) -> None:
        self.messages: Final = messages
        self.at_end: Final = at_end
        self.next_stream: Final = next_stream
        self.lost: Final = lost


class Replay(Protocol):
    """A walk through the log, from one time to another or to no end."""

    def next(self, limit: int) -> Page:
        """The next messages, at most `limit`.

        Ensures: every message of the filter inside the range is returned once; one that is gone is reported.
        """
        ...

    def cursor(self) -> Cursor:
        """How far it has come."""
        ...

    def close(self) -> None:
        """It is not needed any more: what it holds of the store is let go."""
        ...


class MessageLog(Protocol):
    """The reading side of a log."""

    def start_replay(
        self, levels: tuple[bytes, ...], since_us: int, until_us: int = FOR_EVER, *, by_time: bool = False
    ) -> Replay:
        """Messages that match the filter, with since_us <= position < until_us.

        `by_time` merges all shards by time; else each shard is in order for itself. At the present, a shard whose clock
        is behind may still come with an earlier position on a later page.
        """
        ...

    def resume(
        self,
        levels: tuple[bytes, ...],
        cursor: Cursor,
        since_us: int,
        until_us: int = FOR_EVER,
        *,
        by_time: bool = False,
    ) -> Replay:
        """Go on behind a cursor. A shard that it does not know is read from `since_us` on."""
        ...

    def head_us(self, shard: int) -> int:
        """The durable head of a shard: the last position that readers may see; 0 if there is none."""
        ...


class ShardWalk(Protocol):
    """A walk through one shard for one filter, as far as its reader says.

    1. Everything below `from_us` is done; it never goes back.
    """

    from_us: int
    lost: list[Lost]

    def next(self, limit: int, barrier_us: int) -> list[Message]:
        """The next messages below the barrier, at most `limit`; the end is reached when `from_us` is the barrier."""
        ...


class ShardLog(Protocol):
    """The log as sessions follow it: shard by shard, each with a number of its own."""

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        """The shards that may hold a match."""
        ...

    def walk(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> ShardWalk:
        """Begin a walk at a position."""
        ...
