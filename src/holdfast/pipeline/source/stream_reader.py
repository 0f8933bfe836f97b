"""A stream over history, from any point of it into the present.

    Spark          latestOffset ──▶ writes [start, end) into its checkpoint ──▶ partitions ──▶ read … ──▶ commit
    this           durable heads,                                              parts with serials at both ends
                   cut by the rate limit

1. An end is never above the durable heads, so a batch that is read again after a crash is the same.
2. A shard that is new is read from its first message.
3. With a `lease`, what was read and not committed yet is kept: Spark commits a batch once the next one is planned. The
   lease is renewed with each commit, and now and then while nothing comes.
4. With `inStep`, a batch that a limit cuts ends at one time in all shards: windows by time would take a shard
   that was read less far for late.
5. What retention dropped before it was read is an error, unless `failOnDataLoss` is false; then the gap is reported.
6. Offsets of one node of a cluster hold at every other one. A node that is behind them has nothing new until it has
   caught up, and is waited for where a batch needs what it does not have.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.history.reader.reader import UNKNOWN, Part
from holdfast.model.errors import PermanentError
from holdfast.pipeline.source.history_source import (
    HistorySource,
    check_zone,
    open_source,
    refresh_heads,
    wait_for_offsets,
)
from holdfast.pipeline.source.offsets import (
    EARLIEST,
    LATEST,
    NOWHERE,
    Offset,
    Offsets,
    from_json,
    parse_offsets,
    to_json,
)
from holdfast.pipeline.source.partitions import (
    HistoryPartition,
    cut_parts,
    first_at,
    lost_behind,
    read_partition,
    report_lost,
)
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.source.schema import BatchShape

_KEPT_BY_ONE: Final = "_source"
#: Seconds without a commit after which a lease is renewed all the same. A broker may break one after a minute.
_RENEW_S: Final = 30.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver keeps one source open; workers get this object without it."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._shape: Final = BatchShape(schema)
        self._options: Final = options
        self._source: HistorySource | None = None
        #: Where a query ends that takes what is available now.
        self._target: Offsets | None = None
        #: When the lease was renewed last, by the monotonic clock.
        self._renewed_s: float | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, _KEPT_BY_ONE: None}

    # ---- how far

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        given = self._options.starting_offsets
        heads = self._heads()
        if self._options.starting_time is not None:
            since_us = self._options.since_us(time.time_ns() // 1000)
            return to_json({shard: self._before(shard, since_us, heads[shard]) for shard in heads})
        if given == LATEST:
            return to_json(heads)
        if given != EARLIEST:
            return to_json(parse_offsets(given))
        return to_json({shard: self._before(shard, 0, heads[shard]) for shard in heads})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun = from_json(start)
        # When Spark asks for the next batch, everything before it is done.
        if self._renewed_s is None or time.monotonic() - self._renewed_s > _RENEW_S:
            self._renew(begun)
        end = self._behind(begun, self._heads() if self._target is None else self._target)
        if isinstance(limit, ReadMaxRows):
            known = self._known(begun, end)
            end, whole = limit_batch(self._opened(), known, end, limit.max_rows), end
            if self._options.in_step:
                end = self._in_step(known, end, whole)
        return to_json(begun | end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heads()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(self._heads())

    # ---- what

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun = from_json(start)
        filters = (self._options.levels,) if self._options.levels else ()
        ends = from_json(end)
        # Spark plans the last batch of a run that was ended again, perhaps at a node that is behind.
        heads = wait_for_offsets(self._opened(), ends)
        planned = []
        for shard, last in ends.items():
            parts = self._parts(shard, begun.get(shard, NOWHERE), last)
            planned += cut_parts(self._opened(), parts, heads, self._options.rows_per_partition)
        return [HistoryPartition(part, filters) for part in planned]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, self._shape, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._renew(from_json(end))

    def stop(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    # ---- within

    def _renew(self, done: Offsets) -> None:
        """What lies above is still needed, shards of which nothing was read included."""
        lease = self._options.lease
        if lease is None:
            return
        shards = refresh_heads(self._opened()) if self._options.zone is None else self._heads()
        positions = {shard: max(0, done.get(shard, NOWHERE).position_us) for shard in shards}
        self._opened().renew(lease, positions)
        self._renewed_s = time.monotonic()

    def _opened(self) -> HistorySource:
        if self._source is None:
            self._source = open_source(self._options)
        return self._source

    def _heads(self) -> Offsets:
        """The durable heads of the shards that are wanted, and not behind the time at which to end."""
        source = self._opened()
        heads = refresh_heads(source)
        zone = self._options.zone
        if zone is not None:
            check_zone(source, zone)
            shards = {shard for view in source.zones() if view.is_of(zone) for shard in view.shards}
            heads = {shard: head for shard, head in heads.items() if shard in shards}
        until_us = self._options.until_us(time.time_ns() // 1000)
        if until_us is not None:
            heads = {shard: self._end(shard, until_us, head) for shard, head in heads.items()}
        return heads

    def _end(self, shard: int, until_us: int, head: Offset) -> Offset:
        """The offset before a time. A node of a cluster that is behind still gets messages of times that are past."""
        found = self._before(shard, until_us, head)
        return head if self._opened().is_of_cluster and found.position_us > head.position_us else found

    def _before(self, shard: int, at_us: int, head: Offset) -> Offset:
        """The offset with which everything from a position on is still to be read."""
        first = first_at(self._opened(), self._options.zone, shard, at_us)
        if first is not None:
            return Offset(max(at_us, first.position_us) - 1, first.serial - 1)
        return head if at_us <= head.position_us + 1 else Offset(at_us - 1, UNKNOWN)

    def _behind(self, begun: Offsets, heads: Offsets) -> Offsets:
        """The heads, where they are behind what was read."""
        end = {}
        for shard, head in heads.items():
            start = begun.get(shard, NOWHERE)
            if head.position_us > start.position_us:
                if head.serial < start.serial:
                    raise PermanentError(
                        f"shard {shard} was read up to message {start.serial}, and it has {head.serial}: these are "
                        f"other data than those that the checkpoint belongs to; use another checkpoint"
                    )
                end[shard] = head
        return end

    def _in_step(self, begun: Offsets, end: Offsets, whole: Offsets) -> Offsets:
        """No shard further than that which the limit has cut first."""
        cut = [
            last.position_us
            for shard, last in end.items()
            if begun.get(shard, NOWHERE).serial < last.serial < whole[shard].serial
        ]
        until_us = min(cut, default=None)
        if until_us is None:
            return end
        steps = {
            shard: last if last.position_us <= until_us else self._before(shard, until_us + 1, last)
            for shard, last in end.items()
        }
        # A shard without anything up to there stays where it was.
        return {shard: last for shard, last in steps.items() if last.serial > begun.get(shard, NOWHERE).serial}

    def _known(self, begun: Offsets, end: Offsets) -> Offsets:
        """The same start with the serials of those shards that have something new."""
        known = dict(begun)
        for shard, last in end.items():
            start = begun.get(shard, NOWHERE)
            if start.serial == UNKNOWN:
                first = first_at(self._opened(), None, shard, start.position_us + 1, last.position_us + 1)
                known[shard] = Offset(start.position_us, first.serial - 1 if first else last.serial)
        return known

    def _parts(self, shard: int, start: Offset, last: Offset) -> list[Part]:
        """What to read of a shard; what is missing is reported."""
        source = self._opened()
        from_us, before_us = start.position_us + 1, last.position_us + 1
        lost = lost_behind(source, shard, start, last)
        if lost is not None:
            report_lost(self._options, lost)
        parts = [part for part in source.parts(from_us, before_us, self._options.zone) if part.shard == shard]
        if parts and parts[0].lo_us == from_us and start.serial != UNKNOWN:
            parts[0] = parts[0]._replace(after_serial=start.serial)
        if parts and parts[-1].hi_us == before_us and last.serial != UNKNOWN:
            parts[-1] = parts[-1]._replace(last_serial=last.serial)
        return parts


# ---- where a batch ends if it may hold a limited number of messages
#
# Serials are dense, so the limit says which serial is the last. Its position is found by looking at the first message
# at or after a guess, again and again: a handful of looks, however many messages lie between.
#
#     ├─ left ──────────────┼──── target ────┼──────────── right ─┤
#       position, serial      serial only        position, serial


def limit_batch(source: HistorySource, start: Offsets, end: Offsets, max_rows: int) -> Offsets:
    """An end at or before `end` with at most `max_rows` messages since `start`, shared fairly among shards.

    Requires: the serials of `start` are known.
    """
    begun = {shard: start.get(shard, NOWHERE) for shard in end}
    shares = share_limit({shard: end[shard].serial - begun[shard].serial for shard in end}, max_rows)
    return {
        shard: end[shard]
        if begun[shard].serial + shares[shard] >= end[shard].serial
        else locate_serial(source, shard, begun[shard], end[shard], begun[shard].serial + shares[shard])
        for shard in end
    }


def share_limit(wanted: Mapping[int, int], limit: int) -> dict[int, int]:
    """How much each gets of `limit`: all that it wants, or as much as any other that does not get all."""
    shares = {}
    left = limit
    order = sorted(wanted, key=lambda shard: (wanted[shard], shard))
    for index, shard in enumerate(order):
        waiting = len(order) - index
        # Rounded up for the first: a limit below the number of shards still moves on.
        shares[shard] = max(0, min(wanted[shard], -(-left // waiting), left))
        left -= shares[shard]
    return shares


def locate_serial(source: HistorySource, shard: int, left: Offset, right: Offset, serial: int) -> Offset:
    """The offset behind the message with this serial; if retention took it, behind all that were lost with it.

    Requires: left.serial <= serial < right.serial.
    """
    # Where to look: every message from there on, up to `right`, has been seen to be too late.
    last_us = right.position_us
    by_guess = True
    while left.serial < serial and left.position_us < last_us:
        at_us = _guess(left, right, serial) if by_guess else (left.position_us + last_us + 1) // 2
        by_guess = not by_guess
        at_us = min(max(at_us, left.position_us + 1), last_us)
        found = first_at(source, None, shard, at_us, right.position_us + 1)
        if found is not None and found.serial <= serial:
            left = found
            continue
        last_us = at_us - 1
        if found is not None:
            right = Offset(found.position_us - 1, found.serial - 1)
            if right.serial == serial:
                return right
    return left if left.serial == serial else right


def _guess(left: Offset, right: Offset, serial: int) -> int:
    span_us = right.position_us - left.position_us
    return left.position_us + 1 + span_us * (serial - left.serial) // (right.serial - left.serial)
