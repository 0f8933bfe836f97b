"""The contract of a layout: how the messages of one (shard, generation) become keys of a column family.

A key begins with one tag byte. What follows it is the layout's own, and fixed for good: an incompatible change is a new
layout with a new name, because old generations stay readable with the layout that wrote them.

    0x00  structure     what was learnt about topics
    0x01  messages      the value is an encoded message, or a commit page
    0x02  postings      which messages have a certain token at a certain level
    0x03  marks         up to where the postings are written, or the segments made
    0x04  segments      pages of the layout `paged`, in a family of their own

A layout has one writer. Any number of other objects may read what it wrote, also in other processes.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import MessageSink
from holdfast.model.message import Message
from holdfast.records.messages import decode_message
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.topics.learned import LearnedTopics

#: Never change.
STRUCTURE: Final = b"\x00"
MESSAGES: Final = b"\x01"
POSTINGS: Final = b"\x02"
MARKS: Final = b"\x03"
SEGMENTS: Final = b"\x04"

#: A message that a backward read found, with its position in front; or `NOTHING_YET`: no other match lies at or above.
Passed = tuple[int, bytes]

#: What a reader of columns gets: an encoded message, or a page with many.
StoredColumns = bytes | CommitPage | SegmentPage

#: What a read gives instead of a message while it looks through many that do not match: its reader may pause here.
NOTHING_YET: Final = b""


class Puts(Protocol):
    """What the open batch will write into the column family, in order."""

    def put(self, key: bytes, value: bytes) -> None: ...


def decode_each(values: Iterator[bytes], shard: int) -> Iterator[list[Message]]:
    """`read_messages` of a layout that stores each message under its own key."""
    for value in values:
        if not value:
            yield []
            continue
        stored = decode_message(value)
        message = stored.message
        message.shard = shard
        message.position_us = stored.position_us
        yield [message]


class Layout(Protocol):
    """The layout of one shard's generation.

    1. A read gives exactly the messages whose topic matches the filter and whose position is in [lo, hi), each once,
       in the order of their positions.
    2. It gives the same whether or not anything was written behind, settled, or loaded after a crash.
    3. A backward read gives the same in the opposite order.
    """

    @property
    def name(self) -> str: ...

    @property
    def reopens_cheaply(self) -> bool:
        """Whether a read that goes on at a position costs little more than one that was never interrupted. A reader
        then holds nothing of the store while it waits: pages are large.
        """
        ...

    @property
    def sink(self) -> MessageSink:
        """What takes messages, as `put` does, and as fast as it goes."""
        ...

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        """Add a message and every structure change it causes to one commit.

        Requires: `position_us` is above every one before; commits are written in order, or not at all at a crash.
        """
        ...

    def read(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, *, in_order: bool = True
    ) -> Iterator[bytes]:
        """The encoded messages that match the filter `levels`, lazily; all, `$`-topics too, if there are no levels.
        In between come `NOTHING_YET`s. A reader that does not need them `in_order` may get them sooner.

        Requires: `hi_us` does not pass what `family` hold now (a reader stops at the durable head). A stream that is
        made meanwhile has later messages only, so the next read, from the last position on, finds it.
        """
        ...

    def read_back(self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int) -> Iterator[Passed]:
        """What `read` gives in order, the newest first, each with its position. A `NOTHING_YET` has the position down
        to which all was looked through, so a reader that stops there goes on below it.
        """
        ...

    def read_pages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[StoredColumns]:
        """The same in any order, for readers of columns: encoded messages that match, and whole pages that may hold
        matches, besides messages that are not wanted.
        """
        ...

    def read_messages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, shard: int
    ) -> Iterator[list[Message]]:
        """The same in order, decoded, with their places in `shard`; some at a time, and none for a `NOTHING_YET`."""
        ...

    def write_behind(self, puts: Puts, limit: int) -> int:
        """Add index entries that may be written later, at most `limit`; how many were added."""
        ...

    def keep_up(self, family: FamilyReader, puts: Puts) -> None:
        """Add index entries to a commit whose messages brought new topics, if memory would not stay bounded without."""
        ...

    def settle(self, family: FamilyReader) -> None:
        """Let go of what is in memory and, written behind, also in `family` by now. Index writing waits for it."""
        ...

    def finish(self) -> None:
        """No message follows: from now on `write_behind` writes all there is."""
        ...

    def load(self, family: FamilyReader) -> None:
        """Become the writer after an open: restore the structure and what is not indexed yet. Not for readers."""
        ...

    def learned(self) -> LearnedTopics | None:
        """What was learnt about topics, with its counts up to date; None if this layout does not learn."""
        ...
