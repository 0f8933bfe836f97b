"""What a data folder holds, zone by zone: generations, sizes, and learned patterns of topics."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.storage.rocks.checking.meta_records import StoredMeta, live_generations, read_meta
from holdfast.storage.rocks.checking.verify_report import CheckedReader, VerifyReport
from holdfast.storage.rocks.engine.column_families import META, refuse_cluster
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.patterns import read_patterns
from holdfast.storage.rocks.log.zone_generations import LiveGeneration


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
    """Every live generation, zones by name and then oldest first; PermanentError if `meta` is damaged."""
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
            sum(_size_bytes(engine, name) for name in record.families() if name in there),
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
            for shard, piece in LiveGeneration(record).by_shard.items():
                for pattern in read_patterns(piece.layout, engine.family(piece.family)):
                    yield PatternView(name, shard, record.number, pattern.text, pattern.messages)


def _read(engine: Engine) -> tuple[StoredMeta, dict[str, list[Generation]]]:
    refuse_cluster(engine.families(), engine.folder)
    report = VerifyReport()
    stored = read_meta(CheckedReader(report, None), engine.family(META))
    live = live_generations(stored, engine.families(), report)
    if report.problems:
        raise PermanentError(f"{report.problems[0]}; run: holdfast verify")
    return stored, live


def _messages(stored: StoredMeta, record: Generation) -> int | None:
    earlier = [other for other in stored.generations[record.zone] if other.number < record.number]
    if record.number > 1 and not earlier:
        return None
    total = 0
    for i, shard in enumerate(record.shards):
        head = stored.heads.get(shard)
        written = 0 if head is None else head.serial
        last = min(record.last_serials[i], written) if record.end_us else written
        before = [other.last_serials[other.shards.index(shard)] for other in earlier if shard in other.shards]
        total += max(0, last - (before[-1] if before else 0))
    return total


def _size_bytes(engine: Engine, name: str) -> int:
    family = engine.family(name)
    names = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
    return sum(int(family.property_int_value(name) or 0) for name in names)
