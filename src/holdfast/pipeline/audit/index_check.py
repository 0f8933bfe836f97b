"""The index: a read of one topic finds exactly the messages of that topic that a read of everything finds.

Each topic of each shard and generation is read alone, as for a subscriber, and counted again: how many
messages, and the sum of their serials.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, concat, count, expr, lit
from pyspark.sql.functions import min as lowest
from pyspark.sql.functions import sum as total

from holdfast.history.audit.queries import TopicsQuery
from holdfast.history.reader.view import Part
from holdfast.pipeline.audit.findings import faults_of
from holdfast.pipeline.source.history_source import audit_reader
from holdfast.pipeline.source.read_options import ReadOptions

ASKED: Final = (
    "shard int, generation int, topic string, client_id string, serial bigint, offset bigint, rows bigint, "
    "serials bigint, found bigint, found_serials bigint"
)

#: Of topics in one query, as JSON may triple them.
_MOST_BYTES: Final = 100_000


def topics_of(rows: DataFrame) -> DataFrame:
    """Each topic of each shard and generation, with what reading everything has found of it."""
    return rows.groupBy("shard", "generation", "topic").agg(
        lowest("client_id").alias("client_id"),
        lowest("serial").alias("serial"),
        lowest("offset").alias("offset"),
        count(lit(1)).alias("rows"),
        total("serial").alias("serials"),
    )


def index_faults(topics: DataFrame, options: ReadOptions, parts: list[Part]) -> DataFrame:
    """Of some topics of `topics_of`. `parts`: as they were read."""
    places = {(part.shard, part.generation): part for part in parts}
    asked = topics.mapInArrow(partial(_ask, options, places), ASKED)
    wrong = asked.where("rows != found OR serials != found_serials")
    said = concat(lit("reading everything finds "), col("rows"), lit(", asking for its topic "), col("found"))
    return faults_of(
        wrong, "asking for its topic does not find what is there", expr("greatest(abs(rows - found), 1)"), detail=said
    )


def _ask(options: ReadOptions, places: dict[tuple[int, int], Part], batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker."""
    with audit_reader(options) as read:
        for batch in batches:
            found, sums = pa.array([], pa.int64()), pa.array([], pa.int64())
            answers = [
                answer
                for query in _queries(places, batch.select(["shard", "generation", "topic"]).to_pylist())
                for answer in read(query)
            ]
            if answers:
                table = pa.Table.from_batches(answers).combine_chunks()
                found, sums = (table.column(name).combine_chunks() for name in ("found", "found_serials"))
            yield batch.append_column("found", found).append_column("found_serials", sums)


def _queries(places: dict[tuple[int, int], Part], rows: list[dict[str, Any]]) -> Iterator[TopicsQuery]:
    """In the order of the rows; none is too large for a ticket of Flight."""
    for place, same in groupby(rows, key=lambda row: (row["shard"], row["generation"])):
        topics: list[str] = []
        size = 0
        for row in same:
            size += len(row["topic"].encode())
            if topics and size > _MOST_BYTES:
                yield TopicsQuery(places[place], tuple(topics))
                topics, size = [], len(row["topic"].encode())
            topics.append(row["topic"])
        yield TopicsQuery(places[place], tuple(topics))
