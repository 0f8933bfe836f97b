"""The rows of a statement, a few partitions at a time: the driver never holds them all.

    partitions of the answer   0 1 │ 2 3 │ 4 5 │ …      a window of them is a job
                               given  read  not begun

1. Rows come in the order of the answer.
2. The driver holds two windows at most: the one that is given out, and the one that is read meanwhile. How large a
   partition may get is for the plan to say (`BOUNDED`).
3. Windows that are not asked for are not read. The first rows come when the first window is there.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.sql import DataFrame, Row, SparkSession

from holdfast.pipeline.spark.watched_work import WatchedWork

#: Messages of the log in a partition.
PARTITION_MESSAGES: Final = 50_000
#: Settings of Spark for statements whose rows are streamed: partitions behind a shuffle, and of files, stay small.
BOUNDED: Final = {
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "200",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    "spark.sql.files.maxPartitionBytes": "16m",
}
#: Partitions of a window, at most, however many tasks Spark runs.
_MOST_AT_ONCE: Final = 8
_PACKED: Final = "rows binary"

Rows = list[tuple[Any, ...]]


class LimitedRows:
    """Batches of rows, `limit` rows at most. Requires: `close`, if they are not read to the end."""

    def __init__(self, columns: list[str], batches: Iterator[Rows], limit: int | None) -> None:
        self.columns: Final = columns
        #: Whether there were more rows. Known when they were read to the end.
        self.has_more = False
        self._batches: Final = batches
        self._left = limit

    def __iter__(self) -> Iterator[Rows]:
        for rows in self._batches:
            if self._left is None or len(rows) <= self._left:
                self._left = None if self._left is None else self._left - len(rows)
                yield rows
                continue
            self.has_more = True
            self.close()
            if self._left:
                yield rows[: self._left]
            return

    def close(self) -> None:
        if isinstance(self._batches, Generator):
            self._batches.close()


def stream_rows(spark: SparkSession, frame: DataFrame) -> Generator[Rows]:
    """The rows of a frame, in batches. KeyboardInterrupt while they are waited for ends the jobs of Spark."""
    if not frame.columns:
        return
    # Names may be there twice.
    named = frame.toDF(*[f"c{place}" for place in range(len(frame.columns))])

    def plan() -> tuple["RDD[Row]", int]:
        packed = named.mapInArrow(pack_batches, _PACKED).rdd
        return packed, packed.getNumPartitions()

    packed, count = WatchedWork(spark, plan).wait()
    size = min(_MOST_AT_ONCE, spark.sparkContext.defaultParallelism)
    windows = iter([list(range(begin, min(count, begin + size))) for begin in range(0, count, size)])
    ahead = _read(spark, packed, windows)
    try:
        while ahead is not None:
            found = ahead.wait()
            ahead = _read(spark, packed, windows)
            while found:
                for batch in pa.ipc.open_stream(found.pop(0)):
                    rows = list(zip(*[column.to_pylist() for column in batch.columns], strict=True))
                    if rows:
                        yield rows
    finally:
        if ahead is not None:
            ahead.cancel()


def _read(spark: SparkSession, packed: "RDD[Row]", windows: Iterator[list[int]]) -> WatchedWork[list[bytes]] | None:
    """Begin to read the next window."""
    window = next(windows, None)
    if window is None:
        return None
    return WatchedWork(spark, lambda: spark.sparkContext.runJob(packed, unpack_rows, window))


def pack_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: a row with the bytes of each record batch."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["rows"])


def unpack_rows(rows: Iterable[Row]) -> Iterable[bytes]:
    """In a worker: the bytes alone."""
    return [bytes(row["rows"]) for row in rows]
