"""Publishes the rows of a DataFrame: each at least once.

A task that fails is started again by Spark and publishes its rows from the beginning. Nothing is taken back if the job
fails: what was published was delivered.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.sink.broker_client import open_client
from holdfast.pipeline.sink.rows import RowEncoder, check_write_schema
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.pipeline.spark.log import LOGGER


class BatchWriter(DataSourceArrowWriter):
    """One connection for each task."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        if overwrite:
            raise SettingsError('what was published cannot be replaced: write with mode("append")')
        if options.order_by is not None:
            raise SettingsError("option orderBy is for streams; order the rows of a batch with sortWithinPartitions")
        check_write_schema(schema)
        self._options: Final = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        rows = RowEncoder(self._options)
        count = size = 0
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            # A task without rows needs no broker, and none of the files that only a client reads.
            return PublishedPartition(partition, 0, 0)
        with open_client(self._options, f"spark-{uuid4().hex[:12]}-{partition}") as client:
            for batch in chain([first], batches):
                for message in rows.messages(batch):
                    client.send(message)
                    count += 1
                    size += len(message.topic) + len(message.payload)
                client.flush()
            client.settle()
        return PublishedPartition(partition, count, size)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        summarize(messages, self._options.summary_file)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        done = sum(part.rows for part in messages if isinstance(part, PublishedPartition))
        LOGGER.warning("the job failed; at least %d rows were published, and stay so", done)


# ---- what was published


@dataclass(frozen=True)
class PublishedPartition(WriterCommitMessage):
    """What a task published; Spark hands it to the driver."""

    partition: int
    rows: int
    #: Of topics and payloads.
    bytes: int


def summarize(parts: Sequence[WriterCommitMessage | None], file: str | None, **more: Any) -> None:
    """In the driver: log what was published, and append it to a file as one line of JSON."""
    published = [part for part in parts if isinstance(part, PublishedPartition)]
    rows, size = sum(part.rows for part in published), sum(part.bytes for part in published)
    LOGGER.info("published %d rows, %d bytes, from %d partitions", rows, size, len(published))
    if file is not None:
        line = {**more, "rows": rows, "bytes": size, "partitions": [asdict(part) for part in published]}
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
