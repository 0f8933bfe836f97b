"""Messages of a lake as a DataFrame, with the columns that the log has.

Files that cannot hold what is asked for are left out here, by Delta's statistics: their day, their times, their
pattern. What is left is filtered by Spark.

1. What is read is one version of the lake, however long the query waits: everything at or below its offsets.
2. The same filter finds the same topics as in the log: `+` and `#`, and `$`-topics only if they are named.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, timestamp_micros
from pyspark.sql.types import StructField, StructType

from holdfast.durable.log import NO_END
from holdfast.model.time import MILLISECOND_US, us_of
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_patterns import may_share
from holdfast.pipeline.lake.upkeep import list_files
from holdfast.pipeline.source.schema import FIELDS, JSON, SIZE
from holdfast.topics.filters import ONE, REST

#: Payloads that are no UTF-8, or no JSON, are null, as they are when the log is read.
_PARSED: Final = "try_parse_json(try_validate_utf8(CAST(payload AS STRING)))"
#: Columns that the table does not have, and what they are made of.
_MADE: Final = {JSON: _PARSED, SIZE: "length(payload)"}


def read_lake(
    spark: SparkSession,
    lake: Lake,
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
    frame = spark.read.schema(schema).parquet(*map(_literal, paths)) if paths else spark.createDataFrame([], schema)
    for condition in _conditions(levels, since_us, until_us, shards):
        frame = frame.where(condition)
    return frame.select([expr(_MADE[name]).alias(name) if name in _MADE else col(name) for name in columns])


def files_for(lake: Lake, levels: tuple[bytes, ...], since_us: int, until_us: int) -> list[str]:
    """The files that may hold a message of such a topic and time."""
    chosen = [file for file in list_files(lake) if _may_hold(file, levels, since_us, until_us)]
    return [str(lake.folder / unquote(file["path"])) for file in chosen]


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
