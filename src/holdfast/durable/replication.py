"""Copying a log, shard by shard, and following it: what one log hands to another.

    the first log                               the second
    snapshot(shard) ── Chunk, Chunk, … ──▶      install(shard)       all that is there
    each commit     ── Batch, Handover ──▶      append               all that follows

A follower decides nothing. Positions, serials and the borders of generations are given to it, and what it learns about
topics follows from those; so both logs answer every question alike.

1. An entry is a commit of the log that is followed. It has a sequence, and the last one that is in a shard is its
   applied mark, written in one commit with the entry. An entry that is there already is ignored.
2. Nothing leaves a log that is not durable there: a snapshot ends at the durable head.
3. A border arrives before the first message behind it, and may arrive again: of a known entry only the borders count.
   Shards need not pass it together.
4. Both logs have the same zones, with the same numbers of shards.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from holdfast.durable.commit import Batch, Receipt
from holdfast.records.generations import Generation
from holdfast.records.positions import AppliedMark


class Handover:
    """What the log that is followed says of a batch: one entry, of one shard."""

    def __init__(
        self,
        shard: int,
        mark: AppliedMark,
        places: list[tuple[int, int]],
        generations: list[Generation] | None = None,
    ) -> None:
        self.shard: Final = shard
        self.mark: Final = mark
        #: Position (µs) and serial of each message of the batch, in its order.
        self.places: Final = places
        #: Generations that end or begin with this entry, as their records are from now on.
        self.generations: Final = generations or []


class Chunk:
    """A piece of a snapshot.

    1. Everything of the shard up to `done_us` is in this chunk or was in one before; whoever was interrupted asks for
       a snapshot after that position.
    2. Values are encoded messages in the order of their positions, all of one generation.
    3. The last chunk, and only that, has a mark.
    """

    def __init__(
        self,
        shard: int,
        generation: Generation | None,
        *,
        done_us: int,
        serial: int,
        structure: list[tuple[bytes, bytes]] | None = None,
        values: list[bytes] | None = None,
        live: list[Generation] | None = None,
        dropped: list[Generation] | None = None,
        mark: AppliedMark | None = None,
    ) -> None:
        self.shard: Final = shard
        self.generation: Final = generation
        self.done_us: Final = done_us
        #: The serial of the last message up to `done_us`, whether or not that message still exists.
        self.serial: Final = serial
        #: What was learnt about the topics of the generation, as it is stored there.
        self.structure: Final = structure or []
        self.values: Final = values or []
        #: All generations of the shard, in the first chunk: a copy that is interrupted knows which one is open.
        self.live: Final = live or []
        #: Generations that are gone, in the last chunk: their records are handed on, for readers that come from before.
        self.dropped: Final = dropped or []
        self.mark: Final = mark


class ReplicatedLog(Protocol):
    """A log that can be copied, and that can be the copy of another."""

    def head(self, shard: int) -> tuple[int, int]:
        """Position (µs) and serial of the durable head; (0, 0) if nothing was ever stored."""
        ...

    def applied(self, shard: int) -> AppliedMark | None:
        """The last entry of another log that is in the shard, durably; None before an install is complete."""
        ...

    def append(self, batch: Batch, handover: Handover) -> Receipt | None:
        """Commit an entry of the log that is followed, with its mark.

        Requires: entries of a shard come in the order of their sequences; serials go on where the shard ends.
        Ensures: as `CommitLog.write`. An entry that is there already gets its receipt and is not stored again.
        Survives: as the zone's durability says; messages and mark together or not at all.
        """
        ...

    def snapshot(self, shard: int, after_us: int = 0) -> Iterator[Chunk]:
        """All of a shard above `after_us`, up to the durable head of now, in chunks of bounded size.

        Nothing of the store is held between two chunks. A generation that is dropped meanwhile ends it with a
        PermanentError: a new snapshot has to be begun.
        """
        ...

    def install(self, shard: int, chunks: Iterable[Chunk]) -> None:
        """Take a snapshot into a shard that is empty, or that an interrupted install left behind.

        Ensures: each chunk is one commit. A TransientError may be followed by another install of the rest: what is
        there already is skipped.
        """
        ...
