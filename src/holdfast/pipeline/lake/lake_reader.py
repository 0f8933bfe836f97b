"""Messages of a lake as a DataFrame, with the columns that the log has.

Files that cannot hold what is asked for are left out here, by the table's statistics: their day, their times, their
pattern. What is left is filtered by Spark.

1. What is read is one version of the lake, however long the query waits: everything at or below its offsets.
2. The same filter finds the same topics as in the log: `+` and `#`, and `$`-topics only if they are named.
"""

import json
import re
import time
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, timestamp_micros
from pyspark.sql.types import StructField, StructType

from holdfast.durable.log import NO_END
from holdfast.history.reader.view import UNKNOWN
from holdfast.model.time import MILLISECOND_US, us_of
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.formats import open_lake
from holdfast.pipeline.lake.lake_patterns import may_share
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.lake.store_reader import read_objects
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_source import check_zone, open_source, refresh_heads
from holdfast.pipeline.source.offsets import NOWHERE, Offset, Offsets, to_json
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import FIELDS, JSON, SIZE
from holdfast.topics.filters import ONE, REST

#: Payloads that are no UTF-8, or no JSON, are null, as they are when the log is read.
_PARSED: Final = "try_parse_json(try_validate_utf8(CAST(payload AS STRING)))"
#: Columns that the table does not have, and what they are made of.
_MADE: Final = {JSON: _PARSED, SIZE: "length(payload)"}


def read_lake(
    spark: SparkSession,
    lake: ArchiveTable,
    levels: tuple[bytes, ...],
    since_us: int,
    until_us: int,
    columns: Sequence[str],
    shards: Collection[int] | None = None,
) -> DataFrame:
    """Messages of a lake with since <= ts < until; no levels mean every topic, no shards mean all."""
    names = list(dict.fromkeys([*[name for name in columns if name not in _MADE], "ts", "topic", "shard", "payload"]))
    # Nullable: a file that is older than a column has none.
    schema = StructType([StructField(name, FIELDS[name].dataType) for name in names])
    paths = files_for(lake, levels, since_us, until_us)
    if not paths:
        frame = spark.createDataFrame([], schema)
    elif lake.store.folder is None:
        frame = read_objects(spark, lake.store, paths, schema, since_us, until_us)
    else:
        frame = spark.read.schema(schema).parquet(*(_literal(lake.store.location(path)) for path in paths))
    for condition in _conditions(levels, since_us, until_us, shards):
        frame = frame.where(condition)
    return frame.select([expr(_MADE[name]).alias(name) if name in _MADE else col(name) for name in columns])


def files_for(lake: ArchiveTable, levels: tuple[bytes, ...], since_us: int, until_us: int) -> list[str]:
    """The files that may hold a message of such a topic and time, by their paths in the store."""
    chosen = [file for file in lake.list_files() if _may_hold(file, levels, since_us, until_us)]
    return [unquote(file["path"]) for file in chosen]


def topic_regex(levels: tuple[bytes, ...]) -> str:
    """A regular expression, for the whole of a topic, that means the same as a filter."""
    parts = []
    for i, level in enumerate(levels):
        separator = "/" if i else ""
        if level == REST:
            # `a/#` matches `a` as well.
            parts.append("(?:/.*)?" if i else ".*")
        else:
            parts.append(separator + ("[^/]*" if level == ONE else _quoted(level.decode())))
    dollar = r"(?!\$)" if levels[0] in (ONE, REST) else ""
    return rf"(?s)\A{dollar}{''.join(parts)}\z"


def _conditions(
    levels: tuple[bytes, ...], since_us: int, until_us: int, shards: Collection[int] | None
) -> list[Column]:
    found: list[Column] = []
    if since_us > 0:
        found.append(col("ts") >= timestamp_micros(lit(since_us)))
    if until_us < NO_END:
        found.append(col("ts") < timestamp_micros(lit(until_us)))
    if shards is not None:
        found.append(col("shard").isin(sorted(shards)))
    if levels:
        if ONE in levels or REST in levels:
            found.append(col("topic").rlike(topic_regex(levels)))
        else:
            found.append(col("topic") == b"/".join(levels).decode())
    return found


def _may_hold(file: dict[str, Any], levels: tuple[bytes, ...], since_us: int, until_us: int) -> bool:
    if not may_share(file["partition.pattern"], levels):
        return False
    first, last = file.get("min.ts"), file.get("max.ts")
    # Delta keeps milliseconds, and some of its writers cut off the rest.
    if last is not None and us_of(last) + MILLISECOND_US <= since_us:
        return False
    return first is None or us_of(first) < until_us


def _quoted(token: str) -> str:
    """For Java, which reads it."""
    return r"\Q" + token.replace(r"\E", r"\E\\E\Q") + r"\E"


def _literal(path: str) -> str:
    """Spark takes a path for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


# ---- a lake and the log as one table: the archived messages, and those that the log has behind them
#
#     lake, version v          │ log
#     ─────────────────────────┤──────────────────▶          by shard: the offsets of version v are the border
#     all at or below offsets  │ all above them
#
# 1. No message is in both, and none is in neither, whatever is archived while a query waits or runs: the version is
#    chosen before the log is looked at.
# 2. A frame may be used for many queries. The log's half is planned with the first of them, and kept by Spark.
# 3. What retention dropped behind the border, because another version of the lake has it by now, is an error that says
#    so, and not a hole; asking again finds it.


def union_history(spark: SparkSession, given: dict[str, str], where: LakeAddress) -> DataFrame:
    """`given` are options of the data source. SettingsError if there is no lake."""
    lake = open_lake(where)
    options = parse_read_options(given)
    now_us = time.time_ns() // 1000
    since_us, until_us = options.since_us(now_us), options.until_us(now_us) or NO_END
    with open_source(options) as source:
        heads = refresh_heads(source)
        check_zone(source, options.zone)
        zones = source.zones()
    shards = None
    if options.zone is not None:
        shards = {shard for view in zones if view.is_of(options.zone) for shard in view.shards}
    # Conditions are left to Spark: it may use the plan of the log's half again, for a query with others.
    hot = {**given, "columns": ",".join(dict.fromkeys([*options.columns, "ts"])), "pushdown": "false"}
    if until_us < NO_END:
        hot["endingTime"] = str(until_us)
    if lake.offsets:
        hot.pop("startingTime", None)
        hot["startingOffsets"] = json.dumps(to_json(_starts(lake.offsets, heads, since_us)))
    hot_rows = spark.read.format(NAME).options(**hot).load()
    if since_us > 0:
        # A shard that is new by then has no start in the options.
        hot_rows = hot_rows.where(col("ts") >= timestamp_micros(lit(since_us)))
    cold_rows = read_lake(spark, lake, options.levels, since_us, until_us, options.columns, shards)
    return cold_rows.unionByName(hot_rows.select(*options.columns))


def _starts(archived: Offsets, heads: Offsets, since_us: int) -> Offsets:
    """Where the log's half begins: behind what is archived, and not before it is wanted."""
    starts = dict(archived)
    for shard in heads:
        if starts.get(shard, NOWHERE).position_us < since_us - 1:
            starts[shard] = Offset(since_us - 1, UNKNOWN)
    return starts
