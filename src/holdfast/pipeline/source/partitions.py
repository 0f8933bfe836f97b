"""Parts of history, cut into pieces of like size for Spark's tasks, and read by a source that a task leaves the next.

A shard is cut like all shards together: how many tasks there are depends on messages alone.

Cuts are made in time, where segments begin if that fits: pages of a segment are in no order of time, so a cut inside of
one has two tasks read all of it. The serials at each cut are looked up, so that every task knows how many messages it
owes, and notices if it reads fewer.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from holdfast.durable.log import NO_END, LostRange
from holdfast.history.reader.view import UNKNOWN, DroppedError, Part
from holdfast.model.errors import PermanentError
from holdfast.pipeline.source.history_source import HistorySource, open_source
from holdfast.pipeline.source.offsets import Offset, Offsets
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.source.schema import BatchShape
from holdfast.pipeline.spark.log import log_gap
from holdfast.pipeline.spark.worker_heap import freeze_worker_heap
from holdfast.storage.rocks.log.published_heads import HEADS_NAME

#: What one task reads at most: a second or two of work, and little to do again if it fails.
MAX_ROWS: Final = 1_000_000
#: Below this a task costs more than it saves.
MIN_ROWS: Final = 50_000
#: A piece may have fewer messages than wanted, by this part of them: finding its end takes fewer steps.
_SLACK: Final = 16
#: Looks at the log for one cut whose place is not known. More are not worth it: a cut may be anywhere.
_LOOKS: Final = 24
#: Tasks that there should be, so that all processors have something to do until the end.
_TASKS: Final = 16

#: Levels of topic filters that no topic matches two of; none means every topic.
Filters = tuple[tuple[bytes, ...], ...]


@dataclass
class HistoryPartition(InputPartition):
    """What one task reads."""

    part: Part
    filters: Filters = ()


def cut_parts(source: HistorySource, parts: Sequence[Part], heads: Offsets, rows: int | None) -> list[Part]:
    """The same messages in parts of about `rows`, each with its serials; None cuts them as is good for tasks."""
    known = [with_serials(source, part, heads) for part in parts]
    if rows is None:
        rows = rows_per_task(sum(part.last_serial - part.after_serial for part in known))
    return [piece for part in known for piece in _pieces(source, part, rows)]


def rows_per_task(rows: int) -> int:
    """How many of some messages a task reads, so that there are enough tasks, and none too large or too small."""
    return min(MAX_ROWS, max(MIN_ROWS, rows // _TASKS))


def task_count(rows: int) -> int:
    """How many tasks some messages are cut into."""
    return max(1, -(-rows // rows_per_task(rows)))


def with_serials(source: HistorySource, part: Part, heads: Offsets) -> Part:
    """A part that knows its serials."""
    if part.last_serial == UNKNOWN:
        following = first_at(source, part.zone, part.shard, part.hi_us)
        part = part._replace(last_serial=following.serial - 1 if following else heads[part.shard].serial)
    if part.after_serial == UNKNOWN:
        first = source.first(part)
        part = part._replace(after_serial=first.serial - 1 if first else part.last_serial)
    return part


def first_at(
    source: HistorySource, zone: str | None, shard: int, since_us: int, until_us: int = NO_END
) -> Offset | None:
    """The first message of a shard in [since, until)."""
    for part in source.parts(since_us, until_us, zone):
        if part.shard == shard and (found := source.first(part)) is not None:
            return found
    return None


def lost_behind(source: HistorySource, shard: int, start: Offset, last: Offset) -> LostRange | None:
    """What retention dropped of a shard behind `start`, up to `last`. Serials show how much of it had not been read."""
    lost = source.lost(shard, start.position_us + 1, last.position_us + 1)
    if lost is None or start.serial == UNKNOWN:
        return lost
    first = first_at(source, None, shard, start.position_us + 1)
    if first is None and last.serial == UNKNOWN:
        return lost
    if first is not None and lost.to_us > first.position_us:
        return lost  # pages behind it are damaged: retention drops nothing behind what can be read
    missing = (first.serial - 1 if first else last.serial) - start.serial
    return LostRange(shard, lost.from_us, lost.to_us, missing) if missing > 0 else None


def report_lost(options: ReadOptions, lost: LostRange) -> None:
    """PermanentError, unless the option failOnDataLoss is false: then a warning."""
    dropped = (
        f"retention dropped up to {lost.at_most} messages of shard {lost.shard} before they were read, with positions "
        f"from {lost.from_us} to {lost.to_us}"
    )
    if options.fail_on_data_loss:
        raise PermanentError(f"{dropped}; set the option failOnDataLoss to false to go on behind them")
    log_gap(dropped)


def read_partition(options: ReadOptions, shape: BatchShape, partition: InputPartition) -> Iterator[Any]:
    """In a worker: the record batches of a partition. Spark passes another kind if there was nothing to plan."""
    if not isinstance(partition, HistoryPartition):
        return
    with cached_source(options) as source:
        try:
            for levels in partition.filters or ((),):
                for batch in source.batches(partition.part, levels, shape.columns, in_order=False):
                    yield shape.fit(batch)
        except DroppedError as dropped:
            if options.fail_on_data_loss:
                raise
            log_gap(str(dropped))
    freeze_worker_heap()


def _pieces(source: HistorySource, part: Part, rows: int) -> list[Part]:
    """Cut behind every `rows` messages, or a few before: messages may have come in bursts, with hours in between."""
    pieces: list[Part] = []
    rest = part
    cuts = source.cuts(part) if part.last_serial - part.after_serial > rows else []
    while rest.last_serial - rest.after_serial > rows:
        piece, rest = _cut_at_best(rest, cuts, rows) or _cut_off(source, rest, rows)
        pieces.append(piece)
    if rest.last_serial > rest.after_serial:
        pieces.append(rest)
    return pieces


def _cut_at_best(part: Part, cuts: Sequence[Offset], rows: int) -> tuple[Part, Part] | None:
    """The same at the last of the places that leaves `rows` messages at most; None if that would be less than half."""
    number = bisect_right(cuts, part.after_serial + rows + 1, key=_serial) - 1
    if number < 0 or cuts[number].serial - 1 < part.after_serial + max(1, rows // 2):
        return None
    at_us, serial = cuts[number]
    return part._replace(hi_us=at_us, last_serial=serial - 1), part._replace(lo_us=at_us, after_serial=serial - 1)


def _serial(place: Offset) -> int:
    return place.serial


def _cut_off(source: HistorySource, part: Part, rows: int) -> tuple[Part, Part]:
    """The first messages of a part, `rows` at most and not much fewer, and the others.

    Positions and serials grow together, so the time of a serial is found by halving, after a first guess that is right
    if they came evenly. Each step asks the log once.
    """
    least = part.after_serial + rows - rows // _SLACK
    most = part.after_serial + rows
    # The message at `low_us` is among the first, the one at `high_us` is not.
    low_us, high_us = part.lo_us, part.hi_us
    count = part.last_serial - part.after_serial
    at_us = low_us + (high_us - low_us) * (rows - rows // (2 * _SLACK)) // count
    while True:
        first = source.first(part._replace(lo_us=at_us))
        before = first.serial - 1 if first else part.last_serial
        if before > most:
            high_us = at_us
        elif before < least:
            assert first is not None
            low_us = max(low_us + 1, first.position_us)
        else:
            assert first is not None
            piece = part._replace(hi_us=first.position_us, last_serial=before)
            return piece, part._replace(lo_us=first.position_us, after_serial=before)
        at_us = (low_us + high_us) // 2


# ---- parts cut by those who check serials, or do not need them


def tile_parts(source: HistorySource, parts: Sequence[Part], *, tasks: int | None = None) -> list[Part]:
    """The same stretches of time, in pieces with about as many messages each; None cuts them as is good for tasks.

    Serials only say where to cut. If they are wrong, pieces are of different size: all together they are still the
    parts, each position once. Pieces do not know their serials, unless they are whole parts.
    """
    counts = [max(0, part.last_serial - part.after_serial) if part.last_serial != UNKNOWN else 0 for part in parts]
    rows = rows_per_task(sum(counts)) if tasks is None else max(1, sum(counts) // tasks)
    return [
        piece
        for part, count in zip(parts, counts, strict=True)
        for piece in (_tiles(source, part, -(-count // rows)) if count > rows else [part])
    ]


def _tiles(source: HistorySource, part: Part, count: int) -> list[Part]:
    first = source.first(part)
    if first is None:
        return [part]
    before, last = first.serial - 1, Offset(part.hi_us, part.last_serial + 1)
    step = (part.last_serial - before) / count
    slack = max(1, round(step / _SLACK))
    starts = source.cuts(part)
    pieces: list[Part] = []
    rest, low = part, first
    for number in range(1, count):
        low = _place_near(source, rest, starts, (low, last), before + round(number * step), slack)
        if rest.lo_us < low.position_us < rest.hi_us:
            piece, rest = rest.cut(low.position_us)
            pieces.append(piece)
    return [*pieces, rest]


def _place_near(
    source: HistorySource, part: Part, starts: Sequence[Offset], ends: tuple[Offset, Offset], serial: int, slack: int
) -> Offset:
    """A message between the ends with a serial near to this one: the first of a segment, if one is near enough."""
    number = bisect_right(starts, serial, key=_serial)
    near = min(starts[max(0, number - 1) : number + 1], key=lambda one: abs(one.serial - serial), default=None)
    if near is not None and abs(near.serial - serial) <= _SLACK // 2 * slack:
        return near
    low, high = ends
    for look in range(_LOOKS):
        span_us = high.position_us - low.position_us
        if span_us < 2:
            break
        share = (serial - low.serial) / max(1, high.serial - low.serial) if look % 2 == 0 else 0.5
        at_us = low.position_us + min(span_us - 1, max(1, int(span_us * share)))
        found = source.first(part._replace(lo_us=at_us))
        if found is None or found.serial > serial + slack:
            high = Offset(at_us, high.serial if found is None else found.serial)
        elif found.serial < serial - slack:
            low = found
        else:
            return found
    return high


# ---- one open source that a task leaves for the next task of the same process: Spark uses its workers again
#
# Opening a data folder reads the messages that are not in its tables yet, a tenth of a second for a hundred thousand of
# them. Refreshing a source that is open takes a few milliseconds.
#
# 1. One source is cached at most, and none that is in use or that failed.
# 2. A cached source is refreshed before it is used, so that it does not show what retention has dropped. A source whose
#    broker was started again is not used.
# 3. A cached source keeps the files open that it sees. Spark ends workers that were idle for a minute.

_cache: list[tuple[Hashable, HistorySource]] = []


@contextmanager
def cached_source(options: ReadOptions) -> Iterator[HistorySource]:
    """A source that sees what is durable now."""
    key = _key(options)
    source: HistorySource | None = None
    if _cache:
        found, left = _cache.pop()
        if found == key:
            source = left
        else:
            left.close()
    is_cached = source is not None
    if source is None:
        source = open_source(options)
    try:
        if is_cached and options.path:
            source.refresh()
        yield source
    except BaseException:
        source.close()
        raise
    clear_cache()
    _cache.append((key, source))


def clear_cache() -> None:
    while _cache:
        _cache.pop()[1].close()


def _key(options: ReadOptions) -> Hashable:
    if options.endpoint:
        return options.endpoint, options.token, options.ca
    try:
        # A broker replaces this file whenever it starts.
        return options.path, (Path(options.path) / HEADS_NAME).stat().st_ino
    except OSError:
        return options.path, None  # `open_source` raises the error
