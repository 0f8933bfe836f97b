"""Makes segments of commit pages, behind the writer of the log (layout `paged`).

    commit pages above the mark ─▶ build_segment ─▶ pages, in slices ─▶ index, directory, mark, and the deletion
    a stretch                      any process      a batch each        of the commit pages: one batch

1. Everything is written by ordinary batches of the log, so a crash or a backup has all of the last batch or nothing of
   it. Pages without their directory belong to no segment.
2. A stretch is whole commit pages from the mark on. The last batch deletes exactly these, by one range; ranges of a
   family never overlap.
3. Nothing that was acknowledged waits for a segment, and no reader needs one.
4. A generation that is sealed becomes segments to its end.
5. A damaged commit page ends a stretch before it. It is set aside (`damaged_pages.py`), and the next stretch begins
   behind it. No page that was not read whole is ever covered by the range of a deletion.
6. Small commits make small segments. Eight of them that follow each other become one, in the same way: its directory
   replaces that of the first, and those of the others are deleted together with all their pages.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import structlog

from holdfast.durable.changes import Changes
from holdfast.durable.log import NO_END
from holdfast.durable.segment_patterns import NO_PATTERNS, SegmentPatterns, StoredPatterns, learn_from_segment
from holdfast.durable.segments import SLICE_BYTES, Segment, build_segment
from holdfast.durable.tails import POSITION, page_weight
from holdfast.model.errors import PermanentError
from holdfast.records.generations import encode_generation
from holdfast.records.meta_keys import generation_key
from holdfast.records.pages.commit_pages import page_bounds
from holdfast.records.pages.lost_pages import LOST, MAX_LOST_BYTES
from holdfast.records.pages.segment_index import UNINDEXED_PAGES, Directory, encode_directory
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE
from holdfast.storage.rocks.layouts.paged import SEGMENT_SIZE, SegmentSize, commit_values
from holdfast.storage.rocks.layouts.postings import encode_mark, read_counts
from holdfast.storage.rocks.layouts.segments import (
    SegmentReader,
    directory_key,
    index_key,
    last_number,
    map_key,
    open_shard,
    page_key,
)
from holdfast.storage.rocks.log.damaged_pages import DamagedPages, find_damaged, keep_damaged, lost_by
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration, ZoneGenerations

_log = structlog.get_logger()

#: Commit pages that are read at once, at most so many and so many bytes: more would hold up the loop.
_SLICE_PAGES: Final = 256
#: Bytes of a stretch, whatever it counts: the process holds it all, and what it makes of it.
_MAX_BYTES: Final = 64 << 20
#: Small segments that become one.
MERGED: Final = 8
#: Serials within a segment span less than this; more only if messages were erased between them.
_MAX_SERIALS: Final = 1 << 20


class WrittenLog(Protocol):
    """What makes segments needs of the log; `RocksLog` fits by shape."""

    @property
    def engine(self) -> Engine: ...

    @property
    def zone_logs(self) -> Mapping[str, ZoneGenerations]: ...

    def idle(self) -> bool:
        """Whether everything that was taken is written."""
        ...

    def write_own(self, changes: Changes) -> None: ...


class Stretch:
    """Commit pages of one shard that become a segment, or small segments that become one."""

    def __init__(self, zone: ZoneGenerations, generation: LiveGeneration, piece: ShardGeneration) -> None:
        self.zone: Final = zone
        self.generation: Final = generation
        self.piece: Final = piece
        self.first_us = -1
        self.last_us = -1
        self.first_serial = 0
        self.pages = 0
        self.messages = 0
        self.size_bytes = 0
        #: What it counts towards the size of a segment.
        self.weight_bytes = 0
        #: Whether all of it was counted as waiting.
        self.is_counted = True
        #: The number of its segment, once its first page is written; and how many are.
        self.number = 0
        self.stored = 0
        #: The small segments that it consists of, if it is not one of commit pages.
        self.small: list[Directory] = []

    def is_empty(self) -> bool:
        """Whether nothing was found to make a segment of. Requires: it was read."""
        return not self.pages and not self.small


class SegmentWriter:
    """Requires: the loop of the log. A stretch is read, built and stored before the next one is chosen."""

    def __init__(self, log: WrittenLog, size: SegmentSize = SEGMENT_SIZE, *, sets_aside: bool = True) -> None:
        """Unless it `sets_aside` damaged commit pages, a generation that has one stays as it is."""
        self._log: Final = log
        self._size: Final = size
        self._sets_aside: Final = sets_aside
        #: Stretches that were given up because they cannot be read.
        self.unreadable = 0

    def next_stretch(self) -> Stretch | None:
        """The shard with the most messages in commit pages, if they are enough for a segment; else one of a sealed
        generation; else small segments that become one. None if nothing is due.
        """
        found: Stretch | None = None
        most = 0
        for zone in self._log.zone_logs.values():
            for generation in zone.live:
                if generation.record.layout != "paged":
                    continue
                for piece in generation.by_shard.values():
                    sink = piece.layout.sink
                    due = sink.has_uncounted or self._size.reached_by(sink.messages, sink.weight_bytes, sink.pages)
                    due = due or piece.is_suspect or piece.damaged_us > 0
                    waiting = 0 if generation.record.end_us or not due else max(sink.messages, 1)
                    if (waiting > most or (generation.record.end_us and found is None)) and not piece.needs_no_segments:
                        found, most = Stretch(zone, generation, piece), waiting
                    if found is None and piece.small_segments >= MERGED:
                        found = self._small_segments(Stretch(zone, generation, piece))
        return found

    def _small_segments(self, stretch: Stretch) -> Stretch | None:
        """The last small segments of a shard, to become one; None if they cannot be read."""
        try:
            stretch.small = self._reader(stretch).last_small(MERGED, self._size.messages, _MAX_SERIALS)
        except PermanentError as damage:
            _log.warning("small segments stay as they are", family=stretch.piece.family, why=str(damage))
        if len(stretch.small) < 2:
            stretch.piece.small_segments = 0
            return None
        stretch.first_us, stretch.last_us = stretch.small[0].first_us, stretch.small[-1].last_us
        return stretch

    def _reader(self, stretch: Stretch) -> SegmentReader:
        family = self._log.engine.family(stretch.piece.family)
        return SegmentReader(family, self._log.engine.family(stretch.generation.record.segments_family()))

    def read(self, stretch: Stretch) -> Iterator[list[bytes]]:
        """Its pages, a slice at a time; none at all if there are none left. PermanentError if one is damaged.

        It holds no cursor between slices: the database may have to be opened again meanwhile.
        """
        for directory in stretch.small:
            for number in range(directory.pages):
                yield [self._reader(stretch).page(directory, number).value]
        if stretch.small:
            return
        piece = stretch.piece
        sink = piece.layout.sink
        stretch.is_counted = not (sink.has_uncounted or stretch.generation.record.end_us)
        while not self._is_full(stretch):
            values = self._read_slice(stretch)
            if not values:
                break
            yield values
        if piece.damaged_us:
            if stretch.is_empty() and self._log.idle():
                self._set_aside(stretch)
        elif not self._is_full(stretch) and self._log.idle():
            # That was all: what was counted of it is not to be counted again.
            stretch.is_counted = False
            piece.is_suspect = False
            sink.nothing_waits()
            if stretch.is_empty() and stretch.generation.record.end_us:
                piece.needs_no_segments = True

    def _is_full(self, stretch: Stretch) -> bool:
        too_large = stretch.size_bytes >= _MAX_BYTES
        return too_large or self._size.reached_by(stretch.messages, stretch.weight_bytes, stretch.pages)

    def _read_slice(self, stretch: Stretch) -> list[bytes]:
        cursor, mark_us = open_shard(self._log.engine.family(stretch.piece.family))
        values: list[bytes] = []
        slice_bytes = 0
        for value in commit_values(cursor, max(mark_us, stretch.last_us), 0, stretch.piece.damaged_us or NO_END):
            first_us, last_us, serial, count = page_bounds(value)
            if not stretch.pages:
                stretch.first_us, stretch.first_serial = first_us, serial
            elif serial + count - stretch.first_serial > _MAX_SERIALS:
                break
            stretch.last_us = last_us
            stretch.pages += 1
            stretch.messages += count
            stretch.size_bytes += len(value)
            stretch.weight_bytes += page_weight(count, len(value))
            values.append(value)
            slice_bytes += len(value)
            full = slice_bytes >= SLICE_BYTES or len(values) >= _SLICE_PAGES
            if full or self._is_full(stretch):
                break
        return values

    def known_patterns(self, stretch: Stretch) -> StoredPatterns | None:
        """The patterns that are stored; None if nothing is to be learnt from a stretch."""
        like = None if stretch.small else stretch.piece.layout.learned()
        if like is None:
            return None
        records = scan_items(self._log.engine.family(stretch.piece.family), STRUCTURE, MESSAGES)
        return StoredPatterns(like.thresholds, [(key[len(STRUCTURE) :], pattern) for key, pattern in records])

    def can_store(self, stretch: Stretch) -> bool:
        """Whether its generation is still there, and was not replaced."""
        return stretch.generation in stretch.zone.live

    def store_pages(self, stretch: Stretch, first_page: int, pages: list[bytes]) -> None:
        """Write pages of the segment.

        Requires: `can_store`; the pages of the same segment before `first_page` are written.
        """
        name = stretch.generation.record.segments_family()
        if not stretch.number:
            self._make_family(stretch)
            stretch.number = last_number(self._log.engine.family(name)) + 1
        changes = Changes()
        for page, value in enumerate(pages, first_page):
            changes.into(name).put(page_key(stretch.number, page), value)
        self._log.write_own(changes)
        stretch.stored += len(pages)

    def _make_family(self, stretch: Stretch) -> None:
        name = stretch.generation.record.segments_family()
        if name not in self._log.engine.families():
            self._log.engine.create_family(name)

    def finish(
        self,
        stretch: Stretch,
        directory: Directory,
        page_map: bytes,
        index: list[tuple[int, int, bytes]],
        patterns: SegmentPatterns = NO_PATTERNS,
    ) -> None:
        """Write what leads to the pages, and delete what they replace: from now on it is a segment.

        Requires: `can_store`; all its pages are written. PermanentError if it is not the segment of this stretch.
        """
        messages = sum([small.messages for small in stretch.small]) or stretch.messages
        built = (directory.first_us, directory.last_us, directory.messages, directory.pages)
        if built != (stretch.first_us, stretch.last_us, messages, stretch.stored):
            raise PermanentError(f"a segment of {messages} messages from {stretch.first_us} on was built as {built}")
        directory.number = stretch.number
        changes = Changes()
        segments = changes.into(stretch.generation.record.segments_family())
        segments.put(map_key(stretch.number), page_map)
        shard = changes.into(stretch.piece.family)
        for level, bucket, entries in index:
            shard.put(index_key(level, bucket, stretch.first_us), entries)
        for small in stretch.small:
            shard.delete(directory_key(small.first_us))
            segments.delete_range(page_key(small.number, 0), page_key(small.number + 1, 0))
        shard.put(directory_key(stretch.first_us), encode_directory(directory))
        piece = stretch.piece
        if not stretch.small:
            first, end = POSITION.pack(stretch.first_us), POSITION.pack(stretch.last_us + 1)
            for key, pattern in patterns.records:
                shard.put(STRUCTURE + key, pattern)
            shard.put(*encode_mark(stretch.last_us, self._counts(stretch, patterns)))
            shard.delete_range(MESSAGES + first, MESSAGES + end)
            if stretch.is_counted:
                piece.layout.sink.count(-stretch.pages, -stretch.messages, -stretch.weight_bytes)
            _note_patterns(stretch, patterns)
        self._log.write_own(changes)
        is_small = directory.pages <= UNINDEXED_PAGES and not stretch.small
        piece.small_segments = piece.small_segments + 1 if is_small else 0

    def _counts(self, stretch: Stretch, patterns: SegmentPatterns) -> list[tuple[bytes, int]]:
        """The messages of each stream up to the end of a stretch."""
        counts = Counter(dict(read_counts(self._log.engine.family(stretch.piece.family))))
        for stream, messages in patterns.counts:
            counts[stream] += messages
        return list(counts.items())

    def note_damage(self, stretch: Stretch, why: str) -> None:
        """A stretch could not be read, or not become a segment: the next one ends before the page that is damaged."""
        damaged: DamagedPages | None = None
        if self._sets_aside and not stretch.small and self.can_store(stretch):
            try:
                damaged = find_damaged(self._log.engine.family(stretch.piece.family), stretch.last_us)
            except PermanentError as error:
                why = str(error)
        if damaged is None:
            self.unreadable += 1
            self.give_up(stretch, why)
        else:
            stretch.piece.damaged_us = damaged.first_us()

    def _set_aside(self, stretch: Stretch) -> None:
        """Leave out the damaged pages that come next. Requires: everything that was taken is written."""
        engine, piece, generation = self._log.engine, stretch.piece, stretch.generation
        damaged = find_damaged(engine.family(piece.family), piece.damaged_us)
        piece.damaged_us = 0
        if damaged is None or not self.can_store(stretch):
            return
        lost = lost_by(engine, stretch.zone, generation, piece, damaged)
        record = generation.record.without(lost)
        if len(str(record.parameters[LOST])) > MAX_LOST_BYTES:
            self.unreadable += 1
            self.give_up(stretch, "too many commit pages are damaged")
            return
        kept = keep_damaged(engine.folder, piece.family, damaged, str(lost))
        self._make_family(stretch)
        changes = Changes()
        changes.into(META).put(generation_key(record.zone, record.number), encode_generation(record))
        shard = changes.into(piece.family)
        shard.put(*encode_mark(lost.last_us, self._counts(stretch, NO_PATTERNS)))
        for key, _value in damaged.pages:
            shard.delete(key)
        generation.record = record
        self._log.write_own(changes)
        # What follows is looked at, too.
        piece.is_suspect, piece.was_suspect = True, False
        _log.error("a commit page is damaged", family=piece.family, lost=str(lost), kept=str(kept))

    def give_up(self, stretch: Stretch, why: str) -> None:
        """Leave a shard's generation in commit pages. It is read as before."""
        if stretch.small:
            stretch.piece.small_segments = 0
        else:
            stretch.piece.needs_no_segments = True
        _log.warning("pages cannot become a segment, and stay as they are", family=stretch.piece.family, why=why)

    def write_all(self) -> int:
        """Make every segment that is due, at once; how many. For commands and tests: it holds up the loop."""
        made = 0
        while (stretch := self.next_stretch()) is not None and self._log.idle():
            try:
                values = [value for values in self.read(stretch) for value in values]
                if values:
                    segment = build_segment(values)
                    learnt = learn_from_segment(self.known_patterns(stretch), segment.messages_by_topic())
                    self.store(stretch, segment, learnt)
                    made += 1
            except PermanentError as error:
                self.note_damage(stretch, str(error))
        return made

    def store(self, stretch: Stretch, segment: Segment, patterns: SegmentPatterns = NO_PATTERNS) -> None:
        """Write a whole segment."""
        for first_page, pages in segment.slices():
            self.store_pages(stretch, first_page, pages)
        self.finish(stretch, segment.directory, segment.map, segment.index, patterns)


def _note_patterns(stretch: Stretch, patterns: SegmentPatterns) -> None:
    """Let the writer of the generation know what was learnt, for the next one. A sealed one has none: its layout knows
    nothing of what is stored.
    """
    own = stretch.piece.layout.learned()
    if own is not None and not stretch.generation.record.end_us:
        own.load(patterns.records)
        for stream, messages in patterns.counts:
            own.add_messages(stream, messages)
