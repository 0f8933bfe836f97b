"""Publishes the rows of a stream: each exactly once, whoever is killed meanwhile.

    client id          spark-<query id>-<partition>       of two attempts at one task the broker keeps the newer
    publish-number     batch << 31 | row + 1              what was taken is not taken again (durable/numbering.py)

Spark repeats a batch until it is committed. A repeated row has the number that it had before, so the broker
acknowledges it and does nothing else. What it takes for that:

1. The query id is that of the checkpoint. Another checkpoint is another query, whose rows are all new.
2. A repeated batch has the same rows in the same partitions. Sources that can be read again give that, and the `ledger`
   notices when it is not so.
3. They come in the same order: see `write_order`. For that a task holds its rows of one batch in memory.
4. Nothing behind a message that is refused is taken: the broker ends the connection there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.durable.numbering import MAX_NUMBER, PUBLISH_NUMBER
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.model.protocol import QOS_1
from holdfast.pipeline.broker_connection import connect
from holdfast.pipeline.publisher import Message, Publisher
from holdfast.pipeline.reporting import LOGGER
from holdfast.pipeline.write_ledger import Ledger
from holdfast.pipeline.write_options import WriteOptions
from holdfast.pipeline.write_order import PACKED, check_order, in_order, pack, unpack
from holdfast.pipeline.write_rows import Rows, check_write_schema
from holdfast.pipeline.write_summary import Published, summarize
from holdfast.wire.primitives import encode_text

#: Two thousand million rows in a partition of a batch, and a batch every second for a hundred years. Never change: a
#: query that goes on with other numbers would lose or repeat a batch.
ROW_BITS: Final = 31
#: Where Spark tells a task which query and batch it works for.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_USER_PROPERTY: Final = b"\x26" + encode_text(PUBLISH_NUMBER)


@dataclass(frozen=True)
class PublishedBatch(Published):
    """One task, with the query that it belongs to."""

    query_id: str


class StreamWriter(DataSourceStreamArrowWriter):
    """One connection for each task of each batch."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        if overwrite:
            raise SettingsError("what was published cannot be replaced: use the output mode append")
        if options.qos < QOS_1:
            raise SettingsError("option qos: rows of a stream are published once, which takes QoS 1 or 2")
        if options.order_by is None:
            raise SettingsError(
                "option orderBy: name the columns that order the rows of a batch, such as ts: a batch that is repeated "
                "has to send them in the same order. Or give none, if the query has no shuffle and its source an order"
            )
        check_write_schema(schema, options.order_by)
        check_order(schema, options.order_by)
        self._options: Final = options
        self._order_by: Final = options.order_by

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        query_id, batch_id, partition = _whose()
        packed, keys = self._gather(iterator)
        packed = in_order(packed, keys)
        check_number(batch_id, len(packed))
        if self._options.ledger is not None:
            Ledger(self._options.ledger, query_id).enter(batch_id, partition, packed)
        size = self._publish(f"spark-{query_id}-{partition}", batch_id, packed) if len(packed) else 0
        return PublishedBatch(partition, len(packed), size, query_id)

    def _gather(self, iterator: Iterator[Any]) -> tuple[Any, list[Any]]:
        """All messages, and the columns that order them."""
        rows = Rows(self._options, least_qos=QOS_1)
        packed, keys = [], []
        for batch in iterator:
            packed.append(pa.array([pack(message) for message in rows.messages(batch)], PACKED))
            keys.append([batch.column(name) for name in self._order_by])
        if not packed:
            return pa.array([], PACKED), []
        columns = [pa.chunked_array(chunks) for chunks in zip(*keys, strict=True)]
        return pa.concat_arrays(packed), columns

    def _publish(self, client_id: str, batch_id: int, packed: Any) -> int:
        options = self._options
        publisher = Publisher(lambda: connect(options, client_id), options.max_inflight, options.retry_for_s)
        size = 0
        try:
            for message in self.messages(batch_id, packed):
                publisher.send(message)
                size += len(message.topic) + len(message.payload)
            publisher.finish()
        finally:
            publisher.close()
        return size

    def messages(self, batch_id: int, packed: Any) -> Iterator[Message]:
        """What is published, in its order."""
        for row, value in enumerate(packed):
            yield numbered(unpack(value.as_py()), batch_id << ROW_BITS | row + 1)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        queries = {part.query_id for part in messages if isinstance(part, PublishedBatch)}
        if self._options.ledger is not None:
            for query_id in queries:
                Ledger(self._options.ledger, query_id).leave(batchId, len(messages))
        summarize(messages, self._options.summary_file, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        done = sum(isinstance(part, Published) for part in messages)
        LOGGER.warning("batch %d failed after %d of its partitions; it will be repeated", batchId, done)


def numbered(message: Message, number: int) -> Message:
    """The same message with its number."""
    return message._replace(properties=message.properties + _USER_PROPERTY + encode_text(str(number)))


def check_number(batch_id: int, rows: int) -> None:
    if rows >= 1 << ROW_BITS or batch_id << ROW_BITS > MAX_NUMBER - rows:
        raise PermanentError(f"{rows} rows in a partition of batch {batch_id}: there is no number for them all")


def _whose() -> tuple[str, int, int]:
    """Query, batch and partition that this task works for."""
    task = TaskContext.get()
    query_id = None if task is None else task.getLocalProperty(_QUERY_ID)
    batch_id = None if task is None else task.getLocalProperty(_BATCH_ID)
    if task is None or query_id is None or batch_id is None:
        raise PermanentError("Spark does not tell the task its query and batch, without which rows cannot be numbered")
    return query_id, int(batch_id), task.partitionId()
