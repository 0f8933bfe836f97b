"""Counting on Spark: all topics of history, added up level by level on the executors.

    history ──▶ topics: beginning, tokens, messages, bytes       once, kept by Spark
                  │
                  ├─▶ edges: by beginning, what is before, token       one level, distinct
                  └─▶ tokens: by beginning and token, kept by Spark ──▶ levels, and tokens that pass their bar

What comes to the driver is what a `TopicCounting` has to give: a row for each beginning, and MAX_TOKENS tokens at most.
A topic that has more than MAX_LEVELS levels or MAX_TOPIC_BYTES follows no pattern, here as in the log; such are only
added up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from holdfast.model.errors import PermanentError
from holdfast.pipeline.learn.learner import Learner, TopicMove
from holdfast.pipeline.learn.rules import MAX_TOKENS, LevelCount, TokenBar, TokenCount
from holdfast.topics.learned import MAX_LEVELS, MAX_TOPIC_BYTES

_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_HEXADECIMAL: Final = "^[0-9a-fA-F]{8,}$"
_NUMBER: Final = "^[0-9]+$"
_DIGIT: Final = "[0-9]"


class UnmatchedTopics(NamedTuple):
    """What follows no pattern because it is too long or too deep."""

    topics: int
    messages: int
    size_bytes: int


class SparkTopicCounts:
    """A `TopicCounting` of messages with the columns shard, topic and size. Requires: `close`."""

    def __init__(self, messages: DataFrame, zones: Mapping[int, str], learner: Learner) -> None:
        """`zones`: by shard. PermanentError if a message is of a shard that is none of them."""
        self._spark: Final[SparkSession] = messages.sparkSession
        by_topic = (
            messages.withColumn("root", _roots(zones, learner))
            .groupBy("root", "topic")
            .agg(fn.count("*").alias("messages"), fn.sum("size").alias("size"))
            .withColumn("tokens", fn.split("topic", "/"))
        )
        fits = (fn.size("tokens") <= MAX_LEVELS) & (fn.octet_length("topic") <= MAX_TOPIC_BYTES)
        kept = by_topic.select("root", "tokens", "messages", "size", fits.alias("fits")).persist()
        self._kept: Final = [kept]
        self.topics, self.outside = self._totals(kept)
        self._rows = kept.where("fits").select(fn.col("root").alias("beginning"), "tokens", "messages", "size")
        self._depth = 0

    def close(self) -> None:
        while self._kept:
            self._kept.pop().unpersist()

    def _totals(self, kept: DataFrame) -> tuple[int, UnmatchedTopics]:
        outside = fn.col("root").isNotNull() & ~fn.col("fits")
        row = kept.agg(
            fn.count_if(fn.col("root").isNull()).alias("unknown"),
            fn.count("*").alias("topics"),
            fn.count_if(outside).alias("outside"),
            fn.coalesce(fn.sum(fn.when(outside, fn.col("messages"))), fn.lit(0)).alias("messages"),
            fn.coalesce(fn.sum(fn.when(outside, fn.col("size"))), fn.lit(0)).alias("size"),
        ).first()
        assert row is not None
        if row.unknown:
            self.close()
            raise PermanentError(
                "there are messages of a shard that belongs to no zone; is the lake of another broker?"
            )
        return row.topics, UnmatchedTopics(row.outside, row.messages, row["size"])

    # ---- one level

    def levels(self) -> list[LevelCount]:
        children = self._children().persist()
        while len(self._kept) > 1:
            self._kept.pop().unpersist()
        self._kept.append(children)
        token, is_there = fn.col("token"), fn.col("token").isNotNull()
        counts = fn.col("messages").cast("double")

        def there(value: Column) -> Column:
            return fn.when(is_there, value)

        rows = (
            children.groupBy("beginning")
            .agg(
                fn.count("token").alias("values"),
                _sum(there(fn.col("topics"))).alias("topics"),
                _sum(there(fn.col("messages"))).alias("messages"),
                fn.coalesce(fn.percentile_approx(there(fn.col("topics")), 0.5), fn.lit(0)).alias("typical"),
                _sum(there(fn.col("going_on"))).alias("going_on"),
                fn.coalesce(fn.sum(there(counts * fn.log2(counts))), fn.lit(0.0)).alias("n_log_n"),
                *[
                    fn.count_if(token.rlike(kind)).alias(name)
                    for name, kind in (
                        ("numbers", _NUMBER),
                        ("uuids", _UUID),
                        ("hexadecimal", _HEXADECIMAL),
                        ("with_digit", _DIGIT),
                    )
                ],
                fn.coalesce(fn.min("token"), fn.lit("")).alias("first"),
                fn.coalesce(fn.max("token"), fn.lit("")).alias("last"),
                *[
                    _sum(fn.when(~is_there, fn.col(name))).alias(f"ended_{name}")
                    for name in ("topics", "messages", "size")
                ],
            )
            .collect()
        )
        return [LevelCount(*[*row[:13], (row.ended_topics, row.ended_messages, row.ended_size)]) for row in rows]

    def _children(self) -> DataFrame:
        """Of every beginning, its tokens; no token where topics end."""
        depth = self._depth
        # Indexing beyond the end gives no token.
        token = fn.get("tokens", fn.lit(depth)).alias("token")
        before = fn.xxhash64(fn.slice("tokens", 1, depth)).alias("before")
        goes_on = fn.max(fn.size("tokens") > depth + 1).cast("int").alias("goes_on")
        sums = [fn.sum(name).alias(name) for name in ("messages", "size")]
        edges = self._rows.groupBy("beginning", before, token).agg(fn.count("*").alias("topics"), goes_on, *sums)
        return edges.groupBy("beginning", "token").agg(
            fn.count("*").alias("parents"),
            fn.sum("goes_on").alias("going_on"),
            *[fn.sum(name).alias(name) for name in ("topics", "messages", "size")],
        )

    def tokens(self, bars: Sequence[TokenBar]) -> list[TokenCount]:
        least = self._table(bars, beginning=pa.int32(), least_parents=pa.int64(), least_topics=pa.int64())
        rows = (
            self._kept[-1]
            .where("token IS NOT NULL")
            .join(fn.broadcast(least), "beginning")
            .where("parents >= least_parents AND topics >= least_topics")
            .select("beginning", "token", "parents", "going_on", "topics", "messages")
            .orderBy(fn.desc("topics"), "beginning", "token")
            .limit(MAX_TOKENS)
            .collect()
        )
        return [TokenCount(*row) for row in rows]

    def go_on(self, moves: Sequence[TopicMove]) -> None:
        named = [move for move in moves if move.token is not None]
        others = [(move.beginning, move.to) for move in moves if move.token is None]
        to_names = self._table(named, beginning=pa.int32(), token=pa.string(), name=pa.int32())
        to_others = self._table(others, beginning=pa.int32(), other=pa.int32())
        self._rows = (
            self._rows.where(fn.size("tokens") > self._depth)
            .withColumn("token", fn.get("tokens", fn.lit(self._depth)))
            .join(fn.broadcast(to_names), ["beginning", "token"], "left")
            .join(fn.broadcast(to_others), "beginning", "left")
            .select(fn.coalesce("name", "other").alias("beginning"), "tokens", "messages", "size")
        )
        self._depth += 1

    def _table(self, rows: Sequence[tuple[Any, ...]], **columns: Any) -> DataFrame:
        """A small table. As Arrow it goes to Java as it is; rows of Python would need a worker to be read."""
        arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(columns.values())]
        return self._spark.createDataFrame(pa.table(dict(zip(columns, arrays, strict=True))))


def _sum(column: Column) -> Column:
    return fn.coalesce(fn.sum(column), fn.lit(0))


def _roots(zones: Mapping[int, str], learner: Learner) -> Column:
    """The root of a message's topic; none if its shard is in no zone."""
    plain = {shard: learner.root(zone, dollar=False) for shard, zone in zones.items()}
    by_shard = fn.create_map(*[fn.lit(number) for pair in plain.items() for number in pair])
    dollar = fn.col("topic").startswith("$").cast("int")
    return fn.try_element_at(by_shard, fn.col("shard")) + dollar
