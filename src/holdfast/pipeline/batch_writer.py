"""Publishes the rows of a DataFrame: each at least once.

A task that fails is started again by Spark and publishes its rows from the beginning. Nothing is taken back if the job
fails: what was published was delivered.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.broker_connection import connect
from holdfast.pipeline.publisher import Publisher
from holdfast.pipeline.reporting import LOGGER
from holdfast.pipeline.write_options import WriteOptions
from holdfast.pipeline.write_rows import Rows, check_write_schema
from holdfast.pipeline.write_summary import Published, summarize


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
        options, rows = self._options, Rows(self._options)
        client_id = f"spark-{uuid4().hex[:12]}-{partition}"
        publisher = Publisher(lambda: connect(options, client_id), options.max_inflight, options.retry_for_s)
        count = size = 0
        try:
            for batch in iterator:
                for message in rows.messages(batch):
                    publisher.send(message)
                    count += 1
                    size += len(message.topic) + len(message.payload)
                publisher.flush()
            publisher.finish()
        finally:
            publisher.close()
        return Published(partition, count, size)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        summarize(messages, self._options.summary_file)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        done = sum(part.rows for part in messages if isinstance(part, Published))
        LOGGER.warning("the job failed; at least %d rows were published, and stay so", done)
