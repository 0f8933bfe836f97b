"""The plan of a replay, made before it begins: which messages, in which rounds, through how many connections."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from holdfast.durable.log import NO_END
from holdfast.pipeline.lake.formats import open_lake
from holdfast.pipeline.lake.lake_reader import read_lake, union_history
from holdfast.pipeline.replay.schedule import ReplayRound, bucket_width_us, cut_rounds
from holdfast.pipeline.replay.state import ReplayPlan
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_source import open_source, refresh_heads
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.topics.filters import parse_filter
from holdfast.topics.since import parse_since

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

#: Messages of a round, at most: what Spark sorts at once, on its disks.
ROUND: Final = 5_000_000


@dataclass(frozen=True)
class ReplayJob:
    to: WriteOptions
    #: Of this replay alone.
    state: Path
    #: Of the data source; empty: the lake alone.
    source: dict[str, str]
    lake: "LakeAddress | None" = None
    topic: str | None = None
    since: str = "earliest"
    until: str | None = None
    prefix: str = ""
    speed: Fraction | None = None
    #: None: as many as Spark runs tasks.
    connections: int | None = None
    round_messages: int = ROUND

    def asked(self) -> dict[str, str]:
        """What must not change when it goes on. Times may be relative, and are those of the first run."""
        given = {
            "--data": self.source.get("path"),
            "--endpoint": self.source.get("endpoint"),
            "--lake": None if self.lake is None else str(self.lake),
            "--to": self.to.place,
            "--topic": self.topic,
            "--since": self.since,
            "--until": self.until,
            "--prefix": self.prefix,
        }
        return {key: text for key, text in given.items() if text is not None}


def make_plan(spark: SparkSession, job: ReplayJob) -> ReplayPlan:
    now_us = time.time_ns() // 1000
    bounds = _bounds(job)
    since_us = parse_since(job.since).resolve(now_us)
    until_us = NO_END if job.until is None else parse_since(job.until).resolve(now_us)
    until_us = min(until_us, max(bounds.values(), default=-1) + 1)
    connections = job.connections or spark.sparkContext.defaultParallelism
    plan = ReplayPlan(uuid4().hex[:12], job.asked(), bounds, connections, (), 0, 0)
    rounds, first_us, last_us = _rounds(spark, job, plan, since_us, until_us) if since_us < until_us else ([], 0, 0)
    return plan._replace(rounds=rounds, first_us=first_us, last_us=last_us)


def _bounds(job: ReplayJob) -> dict[int, int]:
    """The last position of each shard."""
    bounds: dict[int, int] = {}
    if job.lake is not None:
        bounds = {shard: offset.position_us for shard, offset in open_lake(job.lake).offsets.items()}
    if job.source:
        with open_source(parse_read_options(job.source)) as source:
            for shard, head in refresh_heads(source).items():
                bounds[shard] = max(head.position_us, bounds.get(shard, -1))
    return bounds


def _rounds(
    spark: SparkSession, job: ReplayJob, plan: ReplayPlan, since_us: int, until_us: int
) -> tuple[list[ReplayRound], int, int]:
    rows = read_messages(spark, job, plan, since_us, until_us, ("offset",))
    [found] = rows.agg(fn.count("*").alias("n"), fn.min("offset").alias("lo"), fn.max("offset").alias("hi")).collect()
    if not found.n:
        return [], 0, 0
    most = job.round_messages
    if found.n <= most:
        return [ReplayRound(found.lo, found.hi + 1, found.n)], found.lo, found.hi
    width_us = bucket_width_us(found.lo, found.hi, found.n, most)
    bucket = fn.expr(f"offset div {width_us}").alias("bucket")
    counts = {row.bucket: row["count"] for row in rows.groupBy(bucket).count().collect()}
    return cut_rounds(counts, width_us, most), found.lo, found.hi


def read_messages(
    spark: SparkSession, job: ReplayJob, plan: ReplayPlan, since_us: int, until_us: int, columns: Sequence[str]
) -> DataFrame:
    """The messages of a replay with since <= position < until."""
    names = list(dict.fromkeys([*columns, "offset", "shard", "topic"]))
    given = {**job.source, "startingTime": str(since_us), "endingTime": str(until_us), "columns": ",".join(names)}
    if job.topic is not None:
        given["topicFilter"] = job.topic
    if not job.source:
        assert job.lake is not None
        levels = () if job.topic is None else parse_filter(job.topic.encode()).levels
        rows = read_lake(spark, open_lake(job.lake), levels, since_us, until_us, names)
    elif job.lake is None:
        rows = spark.read.format(NAME).options(**given).load()
    else:
        rows = union_history(spark, given, job.lake)
    last = [fn.lit(number).cast("long") for pair in sorted(plan.bounds.items()) for number in pair]
    rows = rows.where(fn.col("offset") <= fn.create_map(*last)[fn.col("shard").cast("long")])
    if job.prefix:
        # Copies that an earlier replay made are no history.
        rows = rows.where(~fn.col("topic").startswith(job.prefix))
    return rows.select(*columns)
