"""What a data folder holds, zone by zone: generations, sizes, and learned patterns of topics."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from rocksdict import Rdict

from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.storage.rocks.checking.meta_records import StoredMeta, live_generations, read_meta
from holdfast.storage.rocks.checking.verify_report import CheckedReader, VerifyReport
from holdfast.storage.rocks.engine.column_families import CLUSTER, META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.patterns import read_patterns
from holdfast.storage.rocks.layouts.segments import FamilyLookup, SegmentFamilies
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.storage.rocks.vnodes.stored_parts import missing_generations, read_parts, serial_before


@dataclass(frozen=True, slots=True)
class GenerationView:
    """A live generation. `end_us` is 0 if it is open; `messages` is None if that is not known any more."""

    zone: str
    filters: tuple[str, ...]
    number: int
    layout: str
    shards: tuple[int, ...]
    start_us: int
    end_us: int
    messages: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PatternView:
    """A learned pattern of one shard's generation, with the messages that follow it."""

    zone: str
    shard: int
    generation: int
    pattern: str
    messages: int


def generations_of(engine: Engine) -> list[GenerationView]:
    """Every live generation, zones by name and then oldest first; PermanentError if the rows of the log are damaged.

    In a cluster each shard has its own generations.
    """
    stored, live = _read(engine)
    there = set(engine.families())
    return [
        GenerationView(
            zone,
            stored.zones[zone].filters if zone in stored.zones else (),
            record.number,
            record.layout,
            record.shards,
            record.start_us,
            record.end_us,
            _messages(stored, record),
            sum(family_bytes(engine.family(name)) for name in record.families() if name in there),
        )
        for zone in sorted(live)
        for record in live[zone]
    ]


def patterns_of(engine: Engine, zone: str | None = None) -> Iterator[PatternView]:
    """What was learnt, the busiest pattern of each slice first. Messages that are not indexed yet are counted now."""
    _stored, live = _read(engine)
    for name in sorted(live):
        if zone is not None and name != zone:
            continue
        for record in live[name]:
            yield from generation_patterns(record, engine)


def generation_patterns(record: Generation, families: FamilyLookup) -> Iterator[PatternView]:
    """What was learnt in one generation, shard by shard."""
    for shard, piece in LiveGeneration(record).by_shard.items():
        for pattern in read_patterns(piece.layout, families.family(piece.family)):
            yield PatternView(record.zone, shard, record.number, pattern.text, pattern.messages)


def _read(engine: Engine) -> tuple[StoredMeta, dict[str, list[Generation]]]:
    if CLUSTER in engine.families():
        return _read_parts(engine)
    report = VerifyReport()
    stored = read_meta(CheckedReader(report, None), engine.family(META))
    live = live_generations(stored, engine.families(), report)
    if report.problems:
        raise PermanentError(f"{report.problems[0]}; run: holdfast verify")
    return stored, live


def _read_parts(engine: Engine) -> tuple[StoredMeta, dict[str, list[Generation]]]:
    """The same of a node in a cluster. In place of what was dropped stand records with the serials before it."""
    parts = read_parts(engine.family(CLUSTER))
    stored = StoredMeta()
    stored.zones.update(parts.zones)
    stored.heads.update(parts.heads)
    there, segments = set(engine.families()), SegmentFamilies(engine)
    live: dict[str, list[Generation]] = {name: [] for name in parts.zones}
    for shard, records in sorted(parts.generations.items()):
        head = parts.heads.get(shard)
        serial_of = partial(serial_before, head_serial=0 if head is None else head.serial, families=engine)
        whole = [record for record in records if record.family(shard) in there]
        gaps = missing_generations([LiveGeneration(record, segments=segments) for record in whole], serial_of)
        live[records[0].zone] += whole
        stored.generations.setdefault(records[0].zone, []).extend([*gaps, *records])
    return stored, live


def _messages(stored: StoredMeta, record: Generation) -> int | None:
    known = [other for other in stored.generations[record.zone] if other.number < record.number]
    # Of a cluster, those of the same shard.
    earlier = sorted(
        [other for other in known if set(other.shards) & set(record.shards)], key=lambda other: other.number
    )
    if record.number > 1 and not known:
        return None
    total = 0
    for i, shard in enumerate(record.shards):
        head = stored.heads.get(shard)
        written = 0 if head is None else head.serial
        last = min(record.last_serials[i], written) if record.end_us else written
        before = [other.last_serials[other.shards.index(shard)] for other in earlier if shard in other.shards]
        total += max(0, last - (before[-1] if before else 0))
    return total


def family_bytes(family: Rdict) -> int:
    """What a column family takes on disk and in memory."""
    names = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
    return sum(int(family.property_int_value(name) or 0) for name in names)
