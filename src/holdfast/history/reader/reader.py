"""The history, read beside the broker: the parts that exist, and the messages of a part.

    heads ──▶ catch up ──▶ generations ──▶ parts ──▶ start_replay ──▶ encoded messages, record batches
    first     then         what there is   [lo, hi) of one shard and one generation each

1. Nothing above a durable head is shown: heads are read first, and by then all below them is in the files. A part that
   another node of a cluster has shown may be above those of this one: BehindError.
2. The parts of a call do not overlap. Messages of the range that are in no part were dropped by retention (`lost`).
3. A part can be read by any reader, also in another process, as long as its generation exists.
4. Serials have no gaps: a read without a filter knows how many messages it must return, and raises if some are missing.
5. Erased messages are counted and not shown. The erasures are those at the time the read began.
6. Arrow is needed for record batches alone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from rocksdict import Rdict

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.history.columns import COLUMNS
from holdfast.history.reader.catalog import Catalog
from holdfast.history.reader.record_replay import RecordReplay
from holdfast.history.reader.secondary import Secondary
from holdfast.history.reader.view import UNKNOWN, DroppedError, Part, View, ViewReader, ZoneView
from holdfast.model.errors import PermanentError
from holdfast.records.cluster import vnode_keys
from holdfast.records.messages import stored_position, stored_publisher, stored_serial, stored_topic
from holdfast.storage.rocks.engine.column_families import CLUSTER, RETAINED, SESSIONS, refuse_cluster
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import NOTHING_YET, Passed, StoredColumns
from holdfast.storage.rocks.layouts.patterns import read_patterns
from holdfast.storage.rocks.layouts.segment_places import first_in_segments, segment_starts
from holdfast.storage.rocks.log.erasure_file import ErasureFile
from holdfast.storage.rocks.log.leases import remove_lease, renew_lease
from holdfast.storage.rocks.log.published_heads import Head, read_heads
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration
from holdfast.storage.rocks.vnodes.stored_parts import merged_rows
from holdfast.topics.learned import LearnedPattern

__all__ = ["BATCH_ROWS", "UNKNOWN", "HistoryReader", "Part", "ScanRequest", "ZoneView"]

#: Rows of a record batch: enough for numpy, and few enough to send one while the next is made.
BATCH_ROWS: Final = 16_384
#: Tables of a vnode, by the family that one node has for them.
_TABLES: Final = {SESSIONS: vnode_keys.SESSIONS, RETAINED: vnode_keys.RETAINED}


class ScanRequest(NamedTuple):
    """Which messages of a part to read, and how (`HistoryReader.batches`)."""

    part: Part
    levels: tuple[bytes, ...] = ()
    columns: Sequence[str] = COLUMNS
    in_order: bool = True
    rows: int = BATCH_ROWS


class HistoryReader(ViewReader):
    """Requires: one thread at a time. It shows one state until `refresh`."""

    def __init__(self, folder: Path) -> None:
        """PermanentError if it is not a data folder."""
        self.folder: Final = folder
        heads = read_heads(folder)
        self._erasures: Final = ErasureFile(folder)
        self._secondary: Final = Secondary(folder)
        self._catalog: Final = Catalog(folder, self._secondary)
        try:
            self._view: View = self._catalog.load(heads)
        except BaseException:
            self._secondary.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(folder)

    def close(self) -> None:
        self._catalog.clear()
        self._secondary.close()

    def refresh(self) -> None:
        """Show all that was durable when this was called. Reads that have begun keep their state."""
        heads = read_heads(self.folder)
        self._secondary.catch_up()
        self._view = self._catalog.load(heads)

    # ---- what can be read

    def refuse_cluster(self, what: str) -> None:
        """PermanentError if the folder is one of a cluster, for what would write there."""
        refuse_cluster(self._secondary.names(), self.folder, what)

    def view(self) -> View:
        return self._view

    def family(self, name: str) -> Rdict:
        """A column family of messages, for reading. Invalid after a `refresh`."""
        return self._secondary.family(name)

    def piece(self, part: Part) -> ShardGeneration:
        """The column family and the layout of a part. DroppedError if retention has removed it."""
        return self._live(part).by_shard[part.shard]

    def rows(self, name: str, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What is stored in `sessions` or `retained` under keys in [lo, hi), in order; in a cluster, in all vnodes.

        Invalid after a `refresh`.
        """
        if self.is_of_cluster:
            return merged_rows(self._secondary.family(CLUSTER), _TABLES[name], lo, hi)
        return scan_items(self._secondary.family(name), lo, hi)

    # ---- reading

    def start_replay(
        self, parts: Sequence[Part], levels: tuple[bytes, ...] = (), *, in_order: bool = True
    ) -> RecordReplay:
        """The encoded messages of parts that match a filter; all, `$`-topics too, if there are no levels.

        Not `in_order` is faster: the streams of a generation come one after the other.
        """
        read = partial(self._found, levels=levels, in_order=in_order)
        return RecordReplay(parts, read, self.erasures(), counted=not levels, in_order=in_order)

    def stored(self, part: Part, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> Iterator[bytes]:
        """The records of a part as they lie there: erased ones too, and nothing is counted. For checks of the log."""
        return self._as_stored(part, levels, in_order=in_order).records()

    def stored_pages(
        self, part: Part, levels: tuple[bytes, ...] = (), *, in_order: bool = True, rows: int = BATCH_ROWS
    ) -> Iterator[list[bytes]]:
        """The same records, of at most `rows` and about PAGE_BYTES at a time."""
        replay = self._as_stored(part, levels, in_order=in_order)
        while not (page := replay.next(rows)).at_end:
            yield page.messages

    def _as_stored(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> RecordReplay:
        read = partial(self._found, levels=levels, in_order=in_order)
        return RecordReplay([part], read, no_erasures(), counted=False, in_order=in_order)

    def read_back(self, part: Part, levels: tuple[bytes, ...] = ()) -> Iterator[Passed]:
        """The encoded messages of a part that match a filter, with their positions, the newest first.

        In between, and in the place of erased ones, come empty values: no other match lies at or above their position.
        """
        piece = self._live(part).by_shard[part.shard]
        found = piece.layout.read_back(self._secondary.family(piece.family), levels, part.lo_us, part.hi_us)
        return self._unless_erased(part, found)

    def read_on(self, part: Part, levels: tuple[bytes, ...] = ()) -> Iterator[Passed]:
        """The same, the oldest first: no other match lies at or below the position of an empty value."""
        return self._unless_erased(part, _with_positions(self._stored(part, levels), part.lo_us - 1))

    def _unless_erased(self, part: Part, found: Iterator[Passed]) -> Iterator[Passed]:
        erasures = self.erasures()
        if not erasures.may_hide(part.shard, part.lo_us):
            return found
        return (
            (at_us, NOTHING_YET)
            if value and erasures.hides(part.shard, at_us, stored_topic(value), stored_publisher(value))
            else (at_us, value)
            for at_us, value in found
        )

    def erasures(self) -> Erasures:
        """The present erasures. PermanentError if they cannot be read: then no message may be shown."""
        return self._erasures.current()

    def first(self, part: Part) -> Head | None:
        """Position and serial of the first message of a part. DroppedError if retention has removed it."""
        piece = self.piece(part)
        try:
            place = first_in_segments(piece.layout, self.family(piece.family), part.lo_us, part.hi_us)
        except PermanentError:
            place = None  # the map of a segment is damaged, and its pages have the message
        if place is not None:
            return Head(*place)
        for value in self._as_stored(part, (), in_order=True).next(1).messages:
            return Head(stored_position(value), stored_serial(value))
        return None

    def cuts(self, part: Part) -> list[Head]:
        """Where a part is best divided, in order: the messages in it that a read may begin with, and no page is read by
        the reader before, too. None if its layout has no such places. DroppedError if retention has removed it.
        """
        piece = self.piece(part)
        places = segment_starts(piece.layout, self.family(piece.family), part.lo_us + 1, part.hi_us)
        return [Head(*place) for place in places]

    def batches(
        self,
        part: Part,
        levels: tuple[bytes, ...] = (),
        columns: Sequence[str] = COLUMNS,
        *,
        rows: int = BATCH_ROWS,
        in_order: bool = True,
    ) -> Iterator[Any]:
        """The messages of a part as pyarrow.RecordBatches, of at most `rows` rows and about PAGE_BYTES."""
        # Imported here: encoded messages are read without Arrow.
        from holdfast.history.arrow.part_batches import StoredPart, part_batches

        replay = self._as_stored(part, levels, in_order=True) if in_order else None
        pages = iter(()) if in_order else self._pages(part, levels)
        yield from part_batches(StoredPart(part, levels, replay, pages), columns, rows, self.erasures())

    def _pages(self, part: Part, levels: tuple[bytes, ...]) -> Iterator[StoredColumns]:
        piece = self._live(part).by_shard[part.shard]
        family = self._secondary.family(piece.family)
        return filter(None, piece.layout.read_pages(family, levels, part.lo_us, part.hi_us))

    def _found(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> Iterator[bytes]:
        return filter(None, self._stored(part, levels, in_order=in_order))

    def _stored(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool = True) -> Iterator[bytes]:
        piece = self._live(part).by_shard[part.shard]
        family = self._secondary.family(piece.family)
        return piece.layout.read(family, levels, part.lo_us, part.hi_us, in_order=in_order)

    def patterns(self) -> list[LearnedPattern]:
        """The learned patterns of the newest generation of every zone, with the messages of each."""
        found: list[LearnedPattern] = []
        for zone in self.zones():
            for record in self._view.newest(zone.name):
                for piece in LiveGeneration(record).by_shard.values():
                    found += read_patterns(piece.layout, self.family(piece.family))
        return found

    # ---- leases

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        """Renew a lease: retention keeps what lies above these positions, by shard."""
        unknown = sorted(positions.keys() - self._view.heads.keys())
        if unknown:
            raise PermanentError(f"there is no shard {unknown[0]}; a lease names shards that there are")
        renew_lease(self.folder, lease, positions, time.time_ns() // 1_000)

    def release(self, lease: str) -> bool:
        """Whether there was such a lease."""
        return remove_lease(self.folder, lease)

    # ---- internal

    def _live(self, part: Part) -> LiveGeneration:
        self._view.generations(part.zone)
        self._view.check_has(part.shard, part.hi_us)
        found = self._catalog.find(part.shard, part.generation)
        if found is None or found.record.zone != part.zone:
            raise DroppedError(
                f"generation {part.generation} of zone {part.zone!r} was dropped by retention before it was read"
            )
        return found


def _with_positions(values: Iterator[bytes], before_us: int) -> Iterator[Passed]:
    at_us = before_us
    for value in values:
        if value:
            at_us = stored_position(value)
        yield at_us, value
