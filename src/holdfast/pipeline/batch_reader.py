"""A batch over history: what is durable when the first query on a table is planned. Spark keeps the plan for others."""

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from holdfast.durable.log import FOR_EVER
from holdfast.history.reader import UNKNOWN, Part
from holdfast.model.errors import PermanentError
from holdfast.pipeline.history_source import HistorySource
from holdfast.pipeline.offsets import EARLIEST, LATEST, NOWHERE, Offset, Offsets, parse_offsets
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import Options
from holdfast.pipeline.partitions import HistoryPartition, cut, lost_behind, read
from holdfast.pipeline.pushdown import Pushdown
from holdfast.pipeline.reporting import in_words, report_gap
from holdfast.pipeline.schema import Shape


class BatchReader(DataSourceReader):
    """Reads by the options alone."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._shape: Final = Shape(schema)
        self._options: Final = options
        self._pushdown: Final = Pushdown(options.levels)

    def partitions(self) -> list[InputPartition]:
        wanted = self._pushdown
        now_us = time.time_ns() // 1000
        since_us = max(wanted.since_us, self._options.since_us(now_us))
        until_us = min(wanted.until_us, self._options.until_us(now_us) or FOR_EVER)
        with opened(self._options) as source:
            heads = source.heads()
            parts = source.parts(since_us, until_us, self._options.zone)
            if wanted.is_empty:
                return []
            if wanted.shards is not None:
                parts = [part for part in parts if part.shard in wanted.shards]
            starts = self._starts(heads)
            if self._options.starting_offsets not in (EARLIEST, LATEST):
                self._tell_lost(source, starts, heads, since_us, until_us)
            parts = _since(parts, starts)
            return [HistoryPartition(part, wanted.filters) for part in self._cut(source, parts, heads)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._options, self._shape, partition)

    def _starts(self, heads: Offsets) -> Offsets:
        given = self._options.starting_offsets
        if given == EARLIEST:
            return {}
        return heads if given == LATEST else parse_offsets(given)

    def _tell_lost(self, source: HistorySource, starts: Offsets, heads: Offsets, since_us: int, until_us: int) -> None:
        """Whoever names offsets has read what lies before them, and counts on all that lies behind."""
        zone = self._options.zone
        shards = {shard for view in source.zones() if zone is None or view.is_of(zone) for shard in view.shards}
        for shard in sorted(shards & heads.keys()):
            start, last = starts.get(shard, NOWHERE), heads[shard]
            if start.position_us + 1 < since_us:
                start = Offset(since_us - 1, UNKNOWN)
            if last.position_us >= until_us:
                last = Offset(until_us - 1, UNKNOWN)
            lost = lost_behind(source, shard, start, last)
            if lost is None:
                continue
            if self._options.fail_on_data_loss:
                raise PermanentError(f"{in_words(lost)}; set the option failOnDataLoss to false to go on behind them")
            report_gap(in_words(lost))

    def _cut(self, source: HistorySource, parts: list[Part], heads: Offsets) -> list[Part]:
        return cut(source, parts, heads, self._options.rows_per_partition)


class PushdownReader(BatchReader):
    """Reads by the options and by what the query's conditions tell: for one query only, as `pushdown.py` says."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return self._pushdown.take(filters)


def _since(parts: list[Part], starts: Offsets) -> list[Part]:
    """What of the parts lies behind the offsets."""
    behind = []
    for part in parts:
        start = starts.get(part.shard)
        if start is None or start.position_us < part.lo_us:
            behind.append(part)
        elif start.position_us + 1 < part.hi_us:
            behind.append(part._replace(lo_us=start.position_us + 1, after_serial=max(start.serial, UNKNOWN)))
    return behind
