"""The index: a read of one topic finds exactly the messages of that topic that a read of everything finds.

Each topic of each shard and generation is read alone, as for a subscriber, and counted again: how many
messages, and the sum of their serials.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, concat, count, expr, lit
from pyspark.sql.functions import min as lowest
from pyspark.sql.functions import sum as total

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import Part
from holdfast.pipeline.audit.findings import faults_of
from holdfast.records.messages import stored_serial
from holdfast.topics.names import SEPARATOR

ASKED: Final = (
    "shard int, generation int, topic string, client_id string, serial bigint, offset bigint, rows bigint, "
    "serials bigint, found bigint, found_serials bigint"
)


def topics_of(rows: DataFrame) -> DataFrame:
    """Each topic of each shard and generation, with what reading everything has found of it."""
    return rows.groupBy("shard", "generation", "topic").agg(
        lowest("client_id").alias("client_id"),
        lowest("serial").alias("serial"),
        lowest("offset").alias("offset"),
        count(lit(1)).alias("rows"),
        total("serial").alias("serials"),
    )


def index_faults(topics: DataFrame, folder: Path, parts: list[Part]) -> DataFrame:
    """Of some topics of `topics_of`. `parts`: as they were read."""
    places = {(part.shard, part.generation): part for part in parts}
    asked = topics.mapInArrow(partial(_ask, str(folder), places), ASKED)
    wrong = asked.where("rows != found OR serials != found_serials")
    said = concat(lit("reading everything finds "), col("rows"), lit(", asking for its topic "), col("found"))
    return faults_of(
        wrong, "asking for its topic does not find what is there", expr("greatest(abs(rows - found), 1)"), detail=said
    )


def _ask(folder: str, places: dict[tuple[int, int], Part], batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker."""
    with HistoryReader.open(Path(folder)) as reader:
        for batch in batches:
            found, sums = [], []
            for row in batch.select(["shard", "generation", "topic"]).to_pylist():
                levels = tuple(row["topic"].encode().split(SEPARATOR))
                part = places[row["shard"], row["generation"]]
                serials = [stored_serial(value) for value in reader.stored(part, levels, in_order=False)]
                found.append(len(serials))
                sums.append(sum(serials))
            asked = batch.append_column("found", pa.array(found, pa.int64()))
            yield asked.append_column("found_serials", pa.array(sums, pa.int64()))
