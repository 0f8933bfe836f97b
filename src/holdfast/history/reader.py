"""History as a process beside the broker reads it: which parts there are, and the messages of a part.

    heads ──▶ catch up ──▶ generations ──▶ parts ──▶ values, record batches
    first     then         what there is   [lo, hi)  of one shard and one generation each

1. Nothing above a durable head is ever shown: heads are read first, and all below them is in the files by then.
2. The parts of a call do not overlap. What lies in the range and in no part was dropped by retention; `lost` says what.
3. A part that one reader made can be read by any other, in another process too, as long as its generation lives.
4. Serials are dense: a read without a filter knows how many messages it owes, and one that falls short is an error,
   never a skip.
5. What was erased is counted, and not shown. The erasures are those of the moment at which a read begins.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from pyarrow.compute import min_max  # type: ignore[import-untyped]
from rocksdict import Rdict

from holdfast.durable.erasures import Erasures
from holdfast.history.arrow import COLUMNS, record_batch
from holdfast.history.erasing import ERASABLE, without_erased
from holdfast.history.secondary import Secondary
from holdfast.history.view import UNKNOWN, DroppedError, Part, View, Viewed, ZoneView
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation, decode_generation, decode_zone
from holdfast.records.messages import stored_position, stored_publisher, stored_serial, stored_topic
from holdfast.records.meta import GENERATION, ZONE, all_of
from holdfast.storage.rocks.contents import META, check_format
from holdfast.storage.rocks.erasure_file import ErasureFile
from holdfast.storage.rocks.layouts.scan import scan_items
from holdfast.storage.rocks.leases import remove_lease, renew_lease
from holdfast.storage.rocks.published_heads import Head, read_heads
from holdfast.storage.rocks.zone_generations import LiveGeneration
from holdfast.topics.learned_show import Pattern

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "UNKNOWN", "HistoryReader", "Part", "SerialCount", "ZoneView"]

#: Rows of a record batch: many enough for numpy, few enough that one can be passed on while the next is made.
BATCH_ROWS: Final = 16_384
#: Messages may be large: so many bytes of them are held at a time, about.
BATCH_BYTES: Final = 32 * 2**20
#: Rows that are taken before their size is known.
_FIRST_ROWS: Final = 64
_SERIAL: Final = "serial"


class HistoryReader(Viewed):
    """Requires: one thread at a time. `refresh` shows what is new; between two of them nothing changes."""

    def __init__(self, folder: Path) -> None:
        """PermanentError if the folder is no data folder."""
        self.folder: Final = folder
        heads = read_heads(folder)
        self._erasures: Final = ErasureFile(folder)
        self._secondary: Final = Secondary(folder)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._generations.clear()
        self._secondary.close()

    def refresh(self) -> None:
        """See everything that was durable when this was called. Reads under way go on with what they saw."""
        heads = read_heads(self.folder)
        self._secondary.catch_up()
        self._view = self._load(heads)

    # ---- what there is

    def view(self) -> View:
        """All of it: to be sent to those who cannot look for themselves."""
        return self._view

    def _seen(self) -> View:
        return self._view

    def family(self, name: str) -> Rdict:
        """A column family, for reading: `meta`, `sessions`, `retained`. Void after a `refresh`."""
        return self._secondary.family(name)

    # ---- reading

    def values(self, part: Part, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> Iterator[bytes]:
        """The encoded messages of a part that match a filter; all, `$`-topics too, if there are no levels.

        Not `in_order` is faster: the streams of a generation come one after the other.
        """
        found = self._found(part, levels, in_order=in_order)
        values = found if levels else _checked(found, part)
        erasures = self.erasures()
        return _shown(values, part.shard, erasures) if erasures.may_hide(part.shard, part.lo_us) else values

    def stored(self, part: Part, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> Iterator[bytes]:
        """The same as it lies there: erased messages too, and nothing is counted. For whoever checks the log itself."""
        return self._found(part, levels, in_order=in_order)

    def erasures(self) -> Erasures:
        """As of now. PermanentError if they cannot be read: then nothing can be shown."""
        return self._erasures.current()

    def first(self, part: Part) -> Head | None:
        """Position and serial of the first message of a part. DroppedError: retention was faster."""
        for value in self._found(part, (), in_order=True):
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
        """The same as pyarrow.RecordBatches, of so many rows and about so many bytes (BATCH_BYTES) at most."""
        erasures = self.erasures()
        erased = erasures.may_hide(part.shard, part.lo_us)
        own = [*(() if levels else (_SERIAL,)), *(ERASABLE if erased else ())]
        wanted = list(dict.fromkeys([*columns, *own]))
        count = SerialCount(part)
        values = self._found(part, levels, in_order=in_order)
        for chunk in _chunks(values, rows):
            batch = record_batch(chunk, part.shard, wanted)
            if not levels:
                bounds = min_max(batch.column(_SERIAL))
                count.add(len(chunk), bounds["min"].as_py(), bounds["max"].as_py())
            if erased:
                batch = without_erased(batch, part.shard, erasures)
            if batch.num_rows:
                yield batch.select(columns)
        if not levels:
            count.check()

    def _found(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> Iterator[bytes]:
        generation = self._live(part)
        piece = generation.slices[part.shard]
        cells = self._secondary.family(piece.family)
        return filter(None, piece.layout.read(cells, levels, part.lo_us, part.hi_us, in_order=in_order))

    def patterns(self) -> list[Pattern]:
        """What the newest generation of every zone has learnt of topics, with the messages of each pattern."""
        found: list[Pattern] = []
        for zone in self.zones():
            for record in self.generations(zone.name)[-1:]:
                for piece in LiveGeneration(record).slices.values():
                    piece.layout.load(self.family(piece.family))
                    topics = piece.layout.learned()
                    found += [] if topics is None else topics.patterns()
        return found

    # ---- leases

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        """Retention shall not pass what lies above these positions, by shard: everything up to them is done."""
        unknown = sorted(positions.keys() - self._view.heads.keys())
        if unknown:
            raise PermanentError(f"there is no shard {unknown[0]}; a lease names shards that there are")
        renew_lease(self.folder, lease, positions, time.time_ns() // 1_000)

    def release(self, lease: str) -> bool:
        """Whether there was such a lease."""
        return remove_lease(self.folder, lease)

    # ---- within

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
                    generation = LiveGeneration(record)
                self._generations[place] = generation
                generation.record = record
                live[record.zone].append(record)
            else:
                dropped[record.zone].append(record)
        return View(heads, zones, live, dropped)

    def _live(self, part: Part) -> LiveGeneration:
        self._view.generations(part.zone)
        found = self._generations.get((part.zone, part.generation))
        if found is None or part.shard not in found.slices:
            raise DroppedError(
                f"generation {part.generation} of zone {part.zone!r} was dropped by retention before it was read"
            )
        return found


def _chunks(values: Iterator[bytes], rows: int) -> Iterator[list[bytes]]:
    """`values` in lists of at most `rows`, and as few more than BATCH_BYTES as the sizes of the first ones tell."""
    step = min(rows, _FIRST_ROWS)
    chunk: list[bytes] = []
    size_bytes = 0
    while piece := list(islice(values, step)):
        chunk += piece
        size_bytes += sum(map(len, piece))
        room = (BATCH_BYTES - size_bytes) * len(chunk) // size_bytes
        if len(chunk) >= rows or room <= 0:
            yield chunk
            step = min(rows, max(1, BATCH_BYTES * len(chunk) // size_bytes))
            chunk = []
            size_bytes = 0
        else:
            step = min(rows - len(chunk), room)
    if chunk:
        yield chunk


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


def _shown(values: Iterator[bytes], shard: int, erasures: Erasures) -> Iterator[bytes]:
    """`values` without what was erased."""
    for value in values:
        if not erasures.hides(shard, stored_position(value), stored_topic(value), stored_publisher(value)):
            yield value


def _checked(values: Iterator[bytes], part: Part) -> Iterator[bytes]:
    """`values`; PermanentError at their end if some are missing."""
    count = SerialCount(part)
    for value in values:
        serial = stored_serial(value)
        count.add(1, serial, serial)
        yield value
    count.check()
