"""A replay of history: encoded messages of one part after the other, as many at a time as memory allows.

    parts(since, until) ──▶ start_replay(parts, filter) ──▶ next(limit) ──▶ Page of encoded messages

It is the `Replay` of readers that take columns or files and not messages one by one: export, the history process, jobs
on Spark. A part says where it begins and ends, so that many processes can share the parts of one replay.

1. A page holds messages of one part. In order, its positions increase; else the streams of a generation come one after
   the other, which is faster.
2. Without a filter the messages of a part are counted: PermanentError if some are missing.
3. What was erased is counted, and not returned.
4. A part that retention has dropped is an error (`DroppedError`) when its turn comes. What was dropped before the parts
   were made lies in none of them: `HistoryReader.lost` names it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from holdfast.durable.erasures import Erasures
from holdfast.durable.log import Page
from holdfast.history.reader.view import UNKNOWN, Part
from holdfast.model.errors import PermanentError
from holdfast.records.cursors import EVERY_ZONE, Cursor
from holdfast.records.messages import stored_position, stored_publisher, stored_serial, stored_topic

#: The column of serials in a record batch.
SERIAL: Final = "serial"
#: Messages may be large: a page ends with the one that reaches so many bytes.
PAGE_BYTES: Final = 32 * 2**20
#: Messages of a page for a reader that takes them one by one: few at first, because it may want no more.
_FIRST_ROWS: Final = 64
_ROWS: Final = 1024


class RecordReplay:
    """See the module."""

    def __init__(
        self,
        parts: Sequence[Part],
        read: Callable[[Part], Iterator[bytes]],
        erasures: Erasures,
        *,
        counted: bool,
        in_order: bool,
    ) -> None:
        self._parts: Final = list(reversed(parts))
        self._read: Final = read
        self._erasures: Final = erasures
        self._counted: Final = counted
        self._in_order: Final = in_order
        self._done: Final[dict[int, int]] = {}
        self._part: Part | None = None
        self._source: Iterator[bytes] = iter(())
        self._count: SerialCount | None = None
        self._last_shard = -1

    def next(self, limit: int) -> Page[bytes]:
        while True:
            part = self._part
            if part is None:
                if not self._parts:
                    return Page([], -1, at_end=True, next_stream=False, lost=[])
                part = self._begin(self._parts[-1])
            found = self._take(limit)
            if not found:
                self._end(part)
                continue
            self._note(part, found)
            shown = self._shown(part, found)
            if shown:
                next_stream = part.shard != self._last_shard
                self._last_shard = part.shard
                return Page(shown, part.shard, at_end=False, next_stream=next_stream, lost=[])

    def records(self) -> Iterator[bytes]:
        """The encoded messages one by one, up to the end."""
        limit = _FIRST_ROWS
        while not (page := self.next(limit)).at_end:
            yield from page.messages
            limit = _ROWS

    def cursor(self) -> Cursor:
        """A part that is not read in order is done as a whole."""
        return Cursor(EVERY_ZONE, dict(self._done))

    def close(self) -> None:
        self._parts.clear()
        self._part = None
        self._source = iter(())

    def _begin(self, part: Part) -> Part:
        self._source = self._read(part)
        self._part = part
        self._parts.pop()
        self._count = SerialCount(part) if self._counted else None
        return part

    def _take(self, limit: int) -> list[bytes]:
        """At most `limit`, and no more than PAGE_BYTES but for the last: sizes of messages say nothing of the next."""
        found: list[bytes] = []
        size_bytes = 0
        for value in islice(self._source, limit):
            found.append(value)
            size_bytes += len(value)
            if size_bytes >= PAGE_BYTES:
                break
        return found

    def _note(self, part: Part, found: list[bytes]) -> None:
        if self._count is not None:
            serials = list(map(stored_serial, found))
            self._count.add(len(serials), min(serials), max(serials))
        if self._in_order:
            self._done[part.shard] = stored_position(found[-1])

    def _end(self, part: Part) -> None:
        if self._count is not None:
            self._count.check()
        self._done[part.shard] = part.hi_us - 1
        self._part = None

    def _shown(self, part: Part, found: list[bytes]) -> list[bytes]:
        erasures = self._erasures
        if not erasures.may_hide(part.shard, part.lo_us):
            return found
        return [
            value
            for value in found
            if not erasures.hides(part.shard, stored_position(value), stored_topic(value), stored_publisher(value))
        ]


class SerialCount:
    """How many messages of a part were read, against how many its serials say there are."""

    def __init__(self, part: Part) -> None:
        self._part: Final = part
        self._count = 0
        self._lowest = 2**64
        self._highest = -1

    def add(self, count: int, lowest: int, highest: int) -> None:
        self._count += count
        self._lowest = min(self._lowest, lowest)
        self._highest = max(self._highest, highest)

    def check(self) -> None:
        """PermanentError if some are missing."""
        part = self._part
        first = self._lowest if part.after_serial == UNKNOWN else part.after_serial + 1
        last = self._highest if part.last_serial == UNKNOWN else part.last_serial
        owed = max(0, last - first + 1)
        if self._count != owed:
            raise PermanentError(
                f"shard {part.shard} gave {self._count} messages of [{part.lo_us}, {part.hi_us}), and by their serials "
                f"there are {owed}; run: holdfast verify"
            )
