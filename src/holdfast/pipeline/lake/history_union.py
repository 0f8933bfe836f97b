"""History from a lake and the log as one table: the archived messages, and those that the log has behind them.

    lake, version v          │ log
    ─────────────────────────┤──────────────────▶          by shard: the offsets of version v are the border
    all at or below offsets  │ all above them

1. No message is in both, and none is in neither, whatever is archived while a query waits or runs: the version is
   chosen before the log is looked at.
2. A frame may be used for many queries. The log's half is planned with the first of them, and kept by Spark.
3. What retention dropped behind the border, because another version of the lake has it by now, is an error that says
   so, and not a hole; asking again finds it.
"""

import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, timestamp_micros

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import UNKNOWN
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_reader import read_lake
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_source import open_source
from holdfast.pipeline.source.offsets import NOWHERE, Offset, Offsets, to_json
from holdfast.pipeline.source.read_options import parse_read_options


def union_history(spark: SparkSession, given: dict[str, str], folder: Path) -> DataFrame:
    """`given` are options of the data source. SettingsError if the folder is no lake."""
    lake = Lake.open(folder)
    options = parse_read_options(given)
    now_us = time.time_ns() // 1000
    since_us, until_us = options.since_us(now_us), options.until_us(now_us) or NO_END
    with open_source(options) as source:
        heads = source.heads()
        source.parts(0, 0, options.zone)
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
