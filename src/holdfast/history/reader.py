"""History as a process beside the broker reads it: which parts there are, and the messages of a part.

    heads ──▶ catch up ──▶ generations ──▶ parts ──▶ values, record batches
    first     then         what there is   [lo, hi)  of one shard and one generation each

1. Nothing above a durable head is ever shown: heads are read first, and all below them is in the files by then.
2. The parts of a call do not overlap. What lies in the range and in no part was dropped by retention; `lost` says what.
3. A part that one reader made can be read by any other, in another process too, as long as its generation lives.
4. Serials are dense: a read without a filter knows how many messages it owes, and one that falls short is an error,
   never a skip.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pyarrow.compute import min_max  # type: ignore[import-untyped]
from rocksdict import Rdict

from holdfast.durable.log import FOR_EVER, Lost
from holdfast.history.arrow import COLUMNS, record_batch
from holdfast.history.secondary import Secondary
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation, decode_generation, decode_zone, family_name
from holdfast.records.messages import stored_serial
from holdfast.records.meta import GENERATION, ZONE, all_of
from holdfast.storage.rocks.contents import META
from holdfast.storage.rocks.layouts.scan import scan_items
from holdfast.storage.rocks.published_heads import Head, read_heads
from holdfast.storage.rocks.zone_generations import LiveGeneration, ZoneGenerations

#: Rows of a record batch: many enough for numpy, few enough that one can be passed on while the next is made.
BATCH_ROWS: Final = 16_384
#: A serial that is not known.
UNKNOWN: Final = -1
_SERIAL: Final = "serial"


class ZoneView(NamedTuple):
    """A zone as it is stored; no filters means the default zone, which takes what no other zone names."""

    name: str
    filters: tuple[str, ...]
    shards: tuple[int, ...]


class Part(NamedTuple):
    """The messages of a shard's generation in [lo_us, hi_us)."""

    zone: str
    shard: int
    generation: int
    lo_us: int
    hi_us: int
    #: The last serial before the part, and the last one in it, where they are known.
    after_serial: int = UNKNOWN
    last_serial: int = UNKNOWN

    def cut(self, at_us: int) -> "tuple[Part, Part]":
        """The part below a position, and the rest."""
        return self._replace(hi_us=at_us, last_serial=UNKNOWN), self._replace(lo_us=at_us, after_serial=UNKNOWN)

    def split(self, count: int) -> "list[Part]":
        """About `count` parts of equal time."""
        parts: list[Part] = []
        rest = self
        step_us = max(1, (self.hi_us - self.lo_us) // max(1, count))
        while len(parts) + 1 < count and rest.lo_us + step_us < rest.hi_us:
            part, rest = rest.cut(rest.lo_us + step_us)
            parts.append(part)
        return [*parts, rest]


class HistoryReader:
    """Requires: one thread at a time. `refresh` shows what is new; between two of them nothing changes."""

    def __init__(self, folder: Path) -> None:
        """PermanentError if the folder is no data folder."""
        self.folder: Final = folder
        self._heads: dict[int, Head] = read_heads(folder)
        self._secondary: Final = Secondary(folder)
        self._zones: dict[str, ZoneView] = {}
        self._generations: dict[str, ZoneGenerations] = {}
        self._load()

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
        self._heads = read_heads(self.folder)
        self._secondary.catch_up()
        self._load()

    # ---- what there is

    def heads(self) -> dict[int, Head]:
        """The durable head of every shard."""
        return dict(self._heads)

    def zones(self) -> list[ZoneView]:
        return [self._zones[name] for name in sorted(self._zones)]

    def family(self, name: str) -> Rdict:
        """A column family, for reading: `meta`, `sessions`, `retained`. Void after a `refresh`."""
        return self._secondary.family(name)

    def generations(self, zone: str) -> list[Generation]:
        """Those that can be read, oldest first."""
        return [generation.record for generation in self._of(zone).live]

    def parts(self, since_us: int = 0, until_us: int = FOR_EVER, zone: str | None = None) -> list[Part]:
        """All that there is with since <= position < until, generation by generation, oldest first in each zone."""
        names = sorted(self._zones) if zone is None else [zone]
        return [
            part
            for name in names
            for generation in self._of(name).live
            for shard in generation.record.shards
            if (part := self._part(name, generation.record, shard, since_us, until_us)) is not None
        ]

    def shard_parts(self, shard: int, from_us: int, before_us: int) -> list[Part]:
        """The same for one shard."""
        zone = self._zone_of(shard)
        found = [
            self._part(zone, generation.record, shard, from_us, before_us)
            for generation in self._of(zone).live
            if shard in generation.record.shards
        ]
        return [part for part in found if part is not None]

    def lost(self, shard: int, from_us: int, before_us: int) -> Lost | None:
        """What retention dropped of [from, before) in a shard."""
        return self._of(self._zone_of(shard)).lost(shard, from_us, before_us)

    # ---- reading

    def values(self, part: Part, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> Iterator[bytes]:
        """The encoded messages of a part that match a filter; all, `$`-topics too, if there are no levels.

        Not `in_order` is faster: the streams of a generation come one after the other.
        """
        found = self._found(part, levels, in_order=in_order)
        return found if levels else _checked(found, part)

    def batches(
        self,
        part: Part,
        levels: tuple[bytes, ...] = (),
        columns: Sequence[str] = COLUMNS,
        *,
        rows: int = BATCH_ROWS,
        in_order: bool = True,
    ) -> Iterator[Any]:
        """The same as pyarrow.RecordBatches."""
        wanted = [*columns] if levels or _SERIAL in columns else [*columns, _SERIAL]
        count = SerialCount(part)
        values = self._found(part, levels, in_order=in_order)
        while chunk := list(islice(values, rows)):
            batch = record_batch(chunk, part.shard, wanted)
            if not levels:
                bounds = min_max(batch.column(_SERIAL))
                count.add(len(chunk), bounds["min"].as_py(), bounds["max"].as_py())
            yield batch.select(columns)
        if not levels:
            count.check()

    def _found(self, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> Iterator[bytes]:
        generation = self._live(part)
        cells = self._secondary.family(family_name(part.shard, part.generation))
        layout = generation.slices[part.shard].layout
        return filter(None, layout.read(cells, levels, part.lo_us, part.hi_us, in_order=in_order))

    # ---- within

    def _load(self) -> None:
        meta = self._secondary.family(META)
        self._zones = {
            record.name: ZoneView(record.name, record.filters, record.shards)
            for record in (decode_zone(key, value) for key, value in scan_items(meta, *all_of(ZONE)))
        }
        records: dict[str, list[Generation]] = {name: [] for name in self._zones}
        for key, value in scan_items(meta, *all_of(GENERATION)):
            record = decode_generation(key, value)
            records[record.zone].append(record)
        known = {(name, one.record.number): one for name, of_zone in self._generations.items() for one in of_zone.live}
        there = set(self._secondary.names())
        self._generations = {}
        for name in self._zones:
            of_zone = self._generations[name] = ZoneGenerations()
            for record in records[name]:
                if all(family_name(shard, record.number) in there for shard in record.shards):
                    generation = known.get((name, record.number)) or LiveGeneration(record)
                    generation.record = record
                    of_zone.live.append(generation)
                else:
                    of_zone.dropped.append(record)

    def _of(self, zone: str) -> ZoneGenerations:
        found = self._generations.get(zone)
        if found is None:
            raise PermanentError(f"there is no zone {zone!r}; there are {', '.join(sorted(self._generations))}")
        return found

    def _zone_of(self, shard: int) -> str:
        for zone in self._zones.values():
            if shard in zone.shards:
                return zone.name
        raise PermanentError(f"there is no shard {shard}; there are {', '.join(map(str, sorted(self._heads)))}")

    def _part(self, zone: str, record: Generation, shard: int, since_us: int, until_us: int) -> Part | None:
        head = self._heads.get(shard)
        if head is None:
            return None
        end_us = head.position_us + 1
        last_serial = head.serial
        if record.end_us and record.end_us <= end_us:
            end_us = record.end_us
            last_serial = record.last_serials[record.shards.index(shard)]
        lo_us = max(record.start_us, since_us)
        hi_us = min(end_us, until_us)
        if lo_us >= hi_us:
            return None
        after_serial = self._serial_before(zone, record, shard) if lo_us == record.start_us else UNKNOWN
        return Part(zone, shard, record.number, lo_us, hi_us, after_serial, last_serial if hi_us == end_us else UNKNOWN)

    def _serial_before(self, zone: str, record: Generation, shard: int) -> int:
        of_zone = self._of(zone)
        earlier = [*of_zone.dropped, *[generation.record for generation in of_zone.live]]
        before = [other for other in earlier if other.number < record.number]
        if record.number > 1 and not before:
            return UNKNOWN
        return max([0, *[other.last_serials[other.shards.index(shard)] for other in before if shard in other.shards]])

    def _live(self, part: Part) -> LiveGeneration:
        for generation in self._of(part.zone).live:
            if generation.record.number == part.generation and part.shard in generation.slices:
                return generation
        raise PermanentError(
            f"generation {part.generation} of zone {part.zone!r} was dropped by retention before it was read"
        )


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


def _checked(values: Iterator[bytes], part: Part) -> Iterator[bytes]:
    """`values`; PermanentError at their end if some are missing."""
    count = SerialCount(part)
    for value in values:
        serial = stored_serial(value)
        count.add(1, serial, serial)
        yield value
    count.check()
