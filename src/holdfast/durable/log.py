"""The message log as its readers see it: one contract for every reader.

    store          CommitLog.write(batch) ──▶ Receipt                  durable/commit.py
    LogReplay      (filters, since, until) ──▶ Replay                  durable/replay.py; history: record_replay.py
    next           Replay.next(limit) ──▶ Page: messages | end         `next_stream`: of another shard than those before
    cursor         Replay.cursor() ──▶ Cursor                          how far it is, to be saved: records/cursors.py

    reader                                             its replay        gives
    a returning session, `$replay`, a shared group     LogReplay         messages, from the disk and from memory
    export, the history process, Spark                 RecordReplay      encoded messages, from a secondary

A log that wants to be read implements `MessageLog`: which shards a filter concerns, how far each is durable, and a scan
of one shard. A layout is behind the scan (`Layout.read`), so no reader knows which one a generation has.

1. A stream is what has one order: a shard. Its messages come in the order of their positions, each once.
2. Ranges are [since, until). A cursor holds the last position done in each shard: reading continues behind it; a shard
   that it does not know begins at `since`.
3. Nothing above a shard's durable head is read. A replay at its end continues when more arrives.
4. What retention dropped before its reader came, or is lost because it is damaged, is reported (`LostRange`), never
   skipped in silence.
5. A page may be empty before the end: after a long stretch without a match other readers get their turn.
6. Between two calls of `next` a replay holds a view of the store at most until the log revokes it.
"""

from typing import Final, Generic, Protocol, TypeVar

from holdfast.model.message import Message
from holdfast.records.cursors import Cursor

#: No end.
NO_END: Final = 2**63 - 1

#: What a replay gives: messages, or the bytes that they are stored as.
M = TypeVar("M")


class LostRange:
    """Messages that retention removed before a reader came to them, or that are lost because pages are damaged."""

    def __init__(
        self, shard: int, from_us: int, to_us: int, at_most: int, *, damaged: bool = False, last_serial: int = 0
    ) -> None:
        self.shard: Final = shard
        #: The range [from_us, to_us) of positions, and how many messages of all topics it held at most.
        self.from_us: Final = from_us
        self.to_us: Final = to_us
        self.at_most: Final = at_most
        #: Whether it is not retention that took them.
        self.damaged: Final = damaged
        #: The serial of the last of them; 0 if it is not known.
        self.last_serial: Final = last_serial

    def __repr__(self) -> str:
        return f"LostRange(shard {self.shard}, [{self.from_us}, {self.to_us}), at most {self.at_most} messages)"


class Page(Generic[M]):
    """What one `next` found.

    1. The messages are of `shard`, in the order of their positions; a replay by time merges shards, and `shard` is -1.
    2. `next_stream` tells that they are of another shard than those of the page before.
    3. `at_end` tells that nothing more was there, as of now.
    """

    def __init__(
        self, messages: list[M], shard: int, *, at_end: bool, next_stream: bool, lost: list[LostRange]
    ) -> None:
        self.messages: Final = messages
        self.shard: Final = shard
        self.at_end: Final = at_end
        self.next_stream: Final = next_stream
        self.lost: Final = lost


class Replay(Protocol[M]):
    """An iterator over the messages of a filter, from one time to another or to no end."""

    def next(self, limit: int) -> Page[M]:
        """The next messages, at most `limit`.

        Ensures: every message of the filter inside the range is returned once; one that is gone is reported.
        """

    def cursor(self) -> Cursor:
        """How far it has come."""

    def close(self) -> None:
        """It is not needed any more: let go of the store."""


class ShardScan(Protocol):
    """One shard for one filter, as far as its reader says.

    1. Everything below `from_us` is done; it never goes back.
    """

    from_us: int
    lost: list[LostRange]

    def next(self, limit: int, before_us: int) -> list[Message]:
        """The next messages below a position, at most `limit`; the end is reached when `from_us` is that position."""


class MessageLog(Protocol):
    """A log that can be replayed. Each shard has a number that is its own in all zones."""

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        """The shards that may hold a match."""

    def heads(self) -> dict[int, int]:
        """The durable head of every shard: the last position that may be read; 0 if there is none."""

    def boundary_after(self, position_us: int) -> int:
        """The first position above at which a generation begins or ends; NO_END if there is none."""

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> ShardScan:
        """Begin a scan at a position; at 0 with the earliest there is, before which nothing counts as lost."""
