"""The history, read beside the broker: the parts that exist, and the messages of a part.

    heads ──▶ catch up ──▶ generations ──▶ parts ──▶ start_replay ──▶ encoded messages, record batches
    first     then         what there is   [lo, hi) of one shard and one generation each

1. Nothing above a durable head is shown: heads are read first, and by then all below them is in the files.
2. The parts of a call do not overlap. Messages of the range that are in no part were dropped by retention (`lost`).
3. A part can be read by any reader, also in another process, as long as its generation exists.
4. Serials have no gaps: a read without a filter knows how many messages it must return, and raises if some are missing.
5. Erased messages are counted and not shown. The erasures are those at the time the read began.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pyarrow.compute import min_max  # type: ignore[import-untyped]
from rocksdict import Rdict

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.history.arrow.message_batches import COLUMNS, record_batch
from holdfast.history.arrow.page_batches import stored_batches
from holdfast.history.reader.erasure_filter import ERASABLE, without_erased
from holdfast.history.reader.record_replay import SERIAL, RecordReplay, SerialCount
from holdfast.history.reader.secondary import ROCKS, Secondary
from holdfast.history.reader.view import UNKNOWN, DroppedError, Part, View, ViewReader, ZoneView
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.generations import Generation, decode_generation, decode_zone
from holdfast.records.messages import stored_position, stored_serial
from holdfast.records.meta_keys import GENERATION, ZONE, all_of
from holdfast.storage.rocks.engine.column_families import META, check_format, refuse_cluster
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.patterns import read_patterns
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.erasure_file import ErasureFile
from holdfast.storage.rocks.log.leases import remove_lease, renew_lease
from holdfast.storage.rocks.log.published_heads import Head, read_heads
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.topics.learned import LearnedPattern

__all__ = ["BATCH_ROWS", "UNKNOWN", "HistoryReader", "Part", "ScanRequest", "ZoneView"]

#: Rows of a record batch: enough for numpy, and few enough to send one while the next is made.
BATCH_ROWS: Final = 16_384


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
        heads = _read_heads(folder)
        self._erasures: Final = ErasureFile(folder)
        self._secondary: Final = Secondary(folder)
        self._segments: Final = SegmentFamilies(self._secondary)
        #: What can be read, with the layouts that read it, by zone and number.
        self._generations: dict[tuple[str, int], LiveGeneration] = {}
        try:
            self._view: View = self._load(heads)
        except BaseException:
            self._secondary.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(folder)

    def close(self) -> None:
        self._generations.clear()
        self._secondary.close()

    def refresh(self) -> None:
        """Show all that was durable when this was called. Reads that have begun keep their state."""
        heads = read_heads(self.folder)
        self._secondary.catch_up()
        self._view = self._load(heads)

    # ---- what can be read

    def view(self) -> View:
        return self._view

    def family(self, name: str) -> Rdict:
        """A column family, for reading: `meta`, `sessions`, `retained`. Invalid after a `refresh`."""
        return self._secondary.family(name)

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

    def _as_stored(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> RecordReplay:
        read = partial(self._found, levels=levels, in_order=in_order)
        return RecordReplay([part], read, no_erasures(), counted=False, in_order=in_order)

    def erasures(self) -> Erasures:
        """The present erasures. PermanentError if they cannot be read: then no message may be shown."""
        return self._erasures.current()

    def first(self, part: Part) -> Head | None:
        """Position and serial of the first message of a part. DroppedError if retention has removed it."""
        for value in self._as_stored(part, (), in_order=True).next(1).messages:
            return Head(stored_position(value), stored_serial(value))
        return None

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
        erasures = self.erasures()
        erased = erasures.may_hide(part.shard, part.lo_us)
        own = [*(() if levels else (SERIAL,)), *(ERASABLE if erased else ())]
        wanted = list(dict.fromkeys([*columns, *own]))
        count = SerialCount(part)
        # Rows are counted, and erased ones removed, on whole columns.
        read = self._ordered_batches if in_order else self._unordered_batches
        for batch in read(part, levels, wanted, rows):
            if not levels:
                bounds = min_max(batch.column(SERIAL))
                count.add(batch.num_rows, bounds["min"].as_py(), bounds["max"].as_py())
            if erased:
                batch = without_erased(batch, part.shard, erasures)
            if batch.num_rows:
                yield batch.select(columns)
        if not levels:
            count.check()

    def _ordered_batches(
        self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str], rows: int
    ) -> Iterator[Any]:
        replay = self._as_stored(part, levels, in_order=True)
        while not (page := replay.next(rows)).at_end:
            yield record_batch(page.messages, part.shard, columns)

    def _unordered_batches(
        self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str], rows: int
    ) -> Iterator[Any]:
        piece = self._live(part).by_shard[part.shard]
        family = self._secondary.family(piece.family)
        found = filter(None, piece.layout.read_pages(family, levels, part.lo_us, part.hi_us))
        return stored_batches(found, part.shard, part.lo_us, part.hi_us, levels, columns, rows)

    def _found(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> Iterator[bytes]:
        generation = self._live(part)
        piece = generation.by_shard[part.shard]
        family = self._secondary.family(piece.family)
        return filter(None, piece.layout.read(family, levels, part.lo_us, part.hi_us, in_order=in_order))

    def patterns(self) -> list[LearnedPattern]:
        """The learned patterns of the newest generation of every zone, with the messages of each."""
        found: list[LearnedPattern] = []
        for zone in self.zones():
            for record in self.generations(zone.name)[-1:]:
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

    def _load(self, heads: dict[int, Head]) -> View:
        meta = self._secondary.family(META)
        check_format(meta, self.folder)
        zones = {
            record.name: ZoneView(record.name, record.filters, record.shards)
            for record in (decode_zone(key, value) for key, value in scan_items(meta, *all_of(ZONE)))
        }
        live: dict[str, list[Generation]] = {name: [] for name in zones}
        dropped: dict[str, list[Generation]] = {name: [] for name in zones}
        there = set(self._secondary.names())
        known, self._generations = self._generations, {}
        for key, value in scan_items(meta, *all_of(GENERATION)):
            record = decode_generation(key, value)
            place = (record.zone, record.number)
            if all(record.family(shard) in there for shard in record.shards):
                generation = known.get(place)
                if generation is None or generation.record.edition != record.edition:
                    generation = LiveGeneration(record, segments=self._segments)
                self._generations[place] = generation
                generation.record = record
                live[record.zone].append(record)
            else:
                dropped[record.zone].append(record)
        return View(heads, zones, live, dropped)

    def _live(self, part: Part) -> LiveGeneration:
        self._view.generations(part.zone)
        found = self._generations.get((part.zone, part.generation))
        if found is None or part.shard not in found.by_shard:
            raise DroppedError(
                f"generation {part.generation} of zone {part.zone!r} was dropped by retention before it was read"
            )
        return found


def _read_heads(folder: Path) -> dict[int, Head]:
    """The heads of a log. A node of a cluster publishes none: then that is what is said."""
    try:
        return read_heads(folder)
    except PermanentError:
        if (folder / ROCKS / "CURRENT").is_file():
            with suppress(TransientError), closing(Secondary(folder)) as secondary:
                refuse_cluster(secondary.names(), folder)
        raise
