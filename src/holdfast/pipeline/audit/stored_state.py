"""What an audit reads by tasks of Spark: every stored message, in its order on disk, and sessions with their queues.

    parts               ──▶ tasks ──▶ rows of `history/audit/stored_rows.py`
    ranges of sessions  ──▶ tasks ──▶ rows of `history/audit/queue_states.py`

Serials may be what is wrong. They say where parts are best cut, and nothing else: every position is read once.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.audit.queries import AuditQuery, QueuesQuery, StoredQuery
from holdfast.history.audit.queue_states import STATES
from holdfast.history.audit.stored_rows import STORED
from holdfast.history.reader.view import Part
from holdfast.history.tables.tables import KeyRange
from holdfast.pipeline.source.history_source import audit_reader, open_source
from holdfast.pipeline.source.partitions import tile_parts
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.spark.progress import CountedBatches, TaskCounter


def stored_messages(
    spark: SparkSession, options: ReadOptions, parts: list[Part], *, checksums: bool, counter: TaskCounter | None = None
) -> DataFrame:
    """Every message of some parts, a row each, counted by the tasks that read them."""
    with open_source(options) as source:
        pieces = tile_parts(source, parts)
    read = partial(read_answers, options, tuple(StoredQuery(piece, checksums) for piece in pieces))
    work = read if counter is None else CountedBatches(read, counter, given=True)
    return numbered_tasks(spark, len(pieces)).mapInArrow(work, from_arrow_schema(STORED))


def queue_states(spark: SparkSession, options: ReadOptions, ranges: Sequence[KeyRange], now_us: int) -> DataFrame:
    """The state of every queue of the sessions and groups in some ranges, by shard."""
    queries = tuple(QueuesQuery(keys, now_us) for keys in ranges)
    work = partial(read_answers, options, queries)
    return numbered_tasks(spark, len(queries)).mapInArrow(work, from_arrow_schema(STATES))


def numbered_tasks(spark: SparkSession, count: int) -> DataFrame:
    """One row for each task, each in its own partition."""
    rows = spark.sparkContext.parallelize([(number,) for number in range(count)], max(1, count))
    return spark.createDataFrame(rows, "number int")


def read_answers(options: ReadOptions, queries: tuple[AuditQuery, ...], batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: the answers to some queries, which are given by their numbers."""
    with audit_reader(options) as read:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                yield from read(queries[number])
