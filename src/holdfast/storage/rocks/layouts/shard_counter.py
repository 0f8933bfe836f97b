"""Where the messages of one shard's generation are, without decoding them: what pictures of the past are counted from.

    serials      the last message before a position: two of them tell how many messages lie in between
    positions    those of all messages that a filter matches, from columns, keys and postings

    layout       a serial costs                     positions of a filter come from
    paged        a map of a segment, a commit page  columns of the pages that the index names       page_counter.py
    learned      a seek for each stream             keys of whole streams, postings                 stream_counter.py
    timeline     a seek                             the topics of all messages                      here
    others       not to be had                      what the layout reads for the filter            here

1. What is counted is what is stored: erased messages, too, and nothing that was left out when an edition was made.
2. A counter shows the state of the family at its making. Requires: one thread at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from holdfast.durable.tails import POSITION
from holdfast.model.errors import MisuseError
from holdfast.records.messages import stored_position, stored_publisher, stored_serial, stored_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, open_cursor
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS, Layout
from holdfast.storage.rocks.layouts.topic_check import TopicCheck, filter_check
from holdfast.topics.filters import matching_topics
from holdfast.topics.names import SEPARATOR, is_dollar

#: Messages that are looked at between two pauses.
SLICE: Final = 4_096
#: Keys of messages end here. It outlives all cursors, see `open_cursor`.
MESSAGES_END: Final = POSTINGS
_pack: Final = POSITION.pack


class Place(NamedTuple):
    """Where a message is."""

    position_us: int
    serial: int


class Wanted:
    """Which messages are counted: those of a filter, those on `$`-topics, or those of a client."""

    def __init__(self, levels: tuple[bytes, ...] = (), *, client: str = "") -> None:
        """Without levels and client: those on `$`-topics, which no filter names."""
        self.levels: Final = levels
        self.client: Final = client
        self.is_dollar: Final = not levels and not client

    @property
    def name(self) -> bytes:
        """Different for all that differ."""
        if self.client:
            return b"client\0" + self.client.encode()
        return b"$" if self.is_dollar else b"filter\0" + SEPARATOR.join(self.levels)

    @cached_property
    def topic_check(self) -> TopicCheck:
        return is_dollar if self.is_dollar else filter_check(self.levels)

    def matching(self, topics: list[bytes]) -> list[bool]:
        return list(map(is_dollar, topics)) if self.is_dollar else matching_topics(self.levels, topics)

    def has(self, value: bytes) -> bool:
        """Whether an encoded message is wanted."""
        return stored_publisher(value) == self.client if self.client else self.topic_check(stored_topic(value))


class ShardCounter(ABC):
    """Finds serials and positions in one shard's generation, whatever its layout."""

    #: Whether `last_before` costs some seeks and no more.
    knows_serials: bool = True
    #: Whether a look at a file of marks is less work.
    marks_help: bool = True

    def __init__(self, layout: Layout, family: FamilyReader) -> None:
        self._layout: Final = layout
        self._family: Final = family

    def stretches(self) -> list[tuple[int, int]]:
        """Ranges [lo, hi) of positions that are best counted as a whole, oldest first; what is between them is not."""
        return []

    @abstractmethod
    def last_before(self, position_us: int) -> Place | None:
        """The last message before a position; None if there is none."""

    @abstractmethod
    def positions(self, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        """The positions of [lo, hi) with a message that is wanted, some at a time and in no order; none for a pause."""

    def position_of(self, serial: int, first: Place, last: Place) -> int:
        """The position of a message; -1 if it was left out. Requires: `knows_serials`.

        It lies at or above `first`, up to `last`, and its serial is above that of `first`, up to that of `last`.
        """
        lo_us, hi_us = first.position_us, last.position_us
        place_us = hi_us
        while lo_us <= hi_us:
            found = self.last_before(place_us + 1)
            if found is not None and found.serial == serial:
                return found.position_us
            if found is None or found.serial < serial:
                lo_us = place_us + 1
            else:
                # The messages of a commit follow each other: if it is in the same one, it is here.
                guess_us = found.position_us - (found.serial - serial)
                hi_us = found.position_us - 1
                if guess_us >= lo_us and self.last_before(guess_us + 1) == Place(guess_us, serial):
                    return guess_us
            place_us = lo_us + (hi_us - lo_us) // 2
        return -1

    def topic_at(self, position_us: int) -> bytes | None:
        """The topic of the message at a position."""
        for found in self._layout.read_messages(self._family, (), position_us, position_us + 1, 0):
            for message in found:
                return message.topic
        return None


class ScanCounter(ShardCounter):
    """Reads what the layout finds for a filter."""

    knows_serials = False

    def last_before(self, position_us: int) -> Place | None:
        raise MisuseError(
            f"the layout {self._layout.name} has no way from {position_us} to a serial; see `knows_serials`"
        )

    def positions(self, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        found: list[int] = []
        values = self._layout.read(self._family, wanted.levels, lo_us, hi_us, in_order=False)
        for looked, value in enumerate(values, 1):
            if value and (wanted.levels or wanted.has(value)):
                found.append(stored_position(value))
            if not value or looked % SLICE == 0:
                yield found
                found = []
        yield found


class TimelineCounter(ScanCounter):
    """Keys are positions."""

    knows_serials = True
    marks_help = False

    def last_before(self, position_us: int) -> Place | None:
        cursor = open_cursor(self._family, MESSAGES_END)
        cursor.seek_for_prev(MESSAGES + _pack(position_us - 1))
        if cursor.valid() and cursor.key()[:1] == MESSAGES:
            value = cursor.value()
            return Place(stored_position(value), stored_serial(value))
        check_end(cursor)
        return None
