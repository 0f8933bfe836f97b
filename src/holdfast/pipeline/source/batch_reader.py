"""Batches over history: what is durable when Spark plans the first query on a table. Spark uses the plan for others."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import UNKNOWN, HistoryReader, Part
from holdfast.history.tables.tables import KeyRange, TableQuery, key_ranges
from holdfast.pipeline.source.history_source import (
    HistorySource,
    check_zone,
    open_source,
    refresh_heads,
    table_rows,
    wait_for_offsets,
)
from holdfast.pipeline.source.offsets import EARLIEST, LATEST, NOWHERE, Offset, Offsets, parse_offsets
from holdfast.pipeline.source.partitions import HistoryPartition, cut_parts, lost_behind, read_partition, report_lost
from holdfast.pipeline.source.pushdown import Pushdown
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.source.schema import BatchShape
from holdfast.pipeline.spark.worker_heap import freeze_worker_heap


class BatchReader(DataSourceReader):
    """Reads by the options alone."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._shape: Final = BatchShape(schema)
        self._options: Final = options
        self._pushdown: Final = Pushdown(options.levels)

    def partitions(self) -> list[InputPartition]:
        wanted = self._pushdown
        now_us = time.time_ns() // 1000
        since_us = max(wanted.since_us, self._options.since_us(now_us))
        until_us = min(wanted.until_us, self._options.until_us(now_us) or NO_END)
        with open_source(self._options) as source:
            heads = refresh_heads(source)
            check_zone(source, self._options.zone)
            starts = self._starts(heads)
            if source.is_of_cluster and self._options.starting_offsets != LATEST:
                heads = wait_for_offsets(source, starts)
            parts = source.parts(since_us, until_us, self._options.zone)
            if wanted.is_empty:
                return []
            if wanted.shards is not None:
                parts = [part for part in parts if part.shard in wanted.shards]
            if self._options.starting_offsets not in (EARLIEST, LATEST):
                self._check_lost(source, starts, heads, since_us, until_us)
            parts = _since(parts, starts)
            parts = cut_parts(source, parts, heads, self._options.rows_per_partition)
            freeze_worker_heap()
            return [HistoryPartition(part, wanted.filters) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, self._shape, partition)

    def _starts(self, heads: Offsets) -> Offsets:
        given = self._options.starting_offsets
        if given == EARLIEST:
            return {}
        return heads if given == LATEST else parse_offsets(given)

    def _check_lost(self, source: HistorySource, starts: Offsets, heads: Offsets, since_us: int, until_us: int) -> None:
        """A query that names offsets expects everything behind them."""
        zone = self._options.zone
        shards = {shard for view in source.zones() if zone is None or view.is_of(zone) for shard in view.shards}
        for shard in sorted(shards & heads.keys()):
            start, last = starts.get(shard, NOWHERE), heads[shard]
            if start.position_us + 1 < since_us:
                start = Offset(since_us - 1, UNKNOWN)
            if last.position_us >= until_us:
                last = Offset(until_us - 1, UNKNOWN)
            lost = lost_behind(source, shard, start, last)
            if lost is not None:
                report_lost(self._options, lost)


class PushdownReader(BatchReader):
    """Reads by the options and by the query's conditions: for one query only, as `pushdown.py` says."""

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


# ---- sessions, queues, retained messages


@dataclass
class TablePartition(InputPartition):
    """What one task reads."""

    keys: KeyRange | None


class TableReader(DataSourceReader):
    """Reads a table other than history. Spark sends it to the workers, so it holds nothing open."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema: Final = to_arrow_schema(schema, timezone="UTC")
        self._options: Final = options
        self._query: Final = TableQuery(options.table, tuple(schema.fieldNames()), options.levels, options.exact)

    def partitions(self) -> list[InputPartition]:
        if self._options.endpoint:
            return [TablePartition(None)]
        with HistoryReader.open(Path(self._options.path)) as reader:
            return [TablePartition(keys) for keys in key_ranges(reader, self._query)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TablePartition)
        for batch in table_rows(self._options, self._query, partition.keys):
            yield batch.cast(self._schema)
