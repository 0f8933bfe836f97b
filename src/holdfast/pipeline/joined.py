"""History, hot and cold as one: what a lake has, and what the log has behind it.

    lake, version v          │ log
    ─────────────────────────┤──────────────────▶          by shard: the offsets of version v are the border
    all at or below offsets  │ all above them

1. No message is in both, and none is in neither, whatever is archived while a query waits or runs: the version is
   chosen before the log is looked at.
2. What retention dropped behind the border, because another version of the lake has it by now, is an error that says
   so, and not a hole; asking again finds it.
"""

import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, timestamp_micros

from holdfast.durable.log import FOR_EVER
from holdfast.pipeline.cold import cold
from holdfast.pipeline.lake import Lake
from holdfast.pipeline.offsets import to_json
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import parse_options
from holdfast.pipeline.source import NAME


def joined(spark: SparkSession, given: dict[str, str], folder: Path) -> DataFrame:
    """`given` are options of the data source. SettingsError if the folder is no lake."""
    lake = Lake.open(folder)
    options = parse_options(given)
    now_us = time.time_ns() // 1000
    since_us, until_us = options.since_us(now_us), options.until_us(now_us) or FOR_EVER
    shards: set[int] | None = None
    if options.zone is not None:
        with opened(options) as source:
            source.parts(0, 0, options.zone)
            shards = {shard for view in source.zones() if view.name == options.zone for shard in view.shards}
    cold_rows = cold(spark, lake, options.levels, since_us, until_us, options.columns, shards)
    hot = {key: text for key, text in given.items() if key not in ("startingTime", "endingTime", "columns")}
    hot["columns"] = ",".join(dict.fromkeys([*options.columns, "ts"]))
    if lake.offsets:
        hot["startingOffsets"] = json.dumps(to_json(lake.offsets))
    hot_rows = spark.read.format(NAME).options(**hot).load()
    # Conditions, which the source takes over: a start in time and offsets are not to be had together.
    if since_us > 0:
        hot_rows = hot_rows.where(col("ts") >= timestamp_micros(lit(since_us)))
    if until_us < FOR_EVER:
        hot_rows = hot_rows.where(col("ts") < timestamp_micros(lit(until_us)))
    return cold_rows.unionByName(hot_rows.select(*options.columns))
