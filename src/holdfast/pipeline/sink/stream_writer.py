"""Publishes the rows of a stream: each exactly once, whatever is killed meanwhile.

    client id          spark-<query id>-<partition>       of two attempts at one task the broker keeps the newer
    publish-number     batch << 31 | row + 1              taken once (durable/sessions/publish_numbers.py)

Spark repeats a batch until it is committed. A repeated row has the number that it had before, so the broker
acknowledges it and does nothing else. What it takes for that:

1. The query id is that of the checkpoint. Another checkpoint is another query, whose rows are all new.
2. A repeated batch has the same rows in the same partitions. Sources that can be read again give that, and the `ledger`
   notices when it is not so.
3. They are sent in the same order: see the end of the module. For that a task holds its rows of one batch in memory.
4. Nothing behind a message that is refused is taken: the broker ends the connection there.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from holdfast.client.message import OutgoingMessage
from holdfast.durable.sessions.publish_numbers import MAX_NUMBER, PUBLISH_NUMBER
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.model.protocol import QOS_1
from holdfast.pipeline.sink.batch_writer import PublishedPartition, summarize
from holdfast.pipeline.sink.broker_client import open_client
from holdfast.pipeline.sink.ledger import Ledger
from holdfast.pipeline.sink.rows import RowEncoder, check_write_schema
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.pipeline.spark.log import LOGGER
from holdfast.wire.primitives import encode_text

#: Two thousand million rows in a partition of a batch, and a batch every second for a hundred years. Never change: a
#: query that goes on with other numbers would lose or repeat a batch.
ROW_BITS: Final = 31
#: Where Spark tells a task which query and batch it works for.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
#: Messages of a batch, one binary value each.
PACKED: Final = pa.large_binary()
_HEADER: Final = struct.Struct(">BHI")
_USER_PROPERTY: Final = b"\x26" + encode_text(PUBLISH_NUMBER)


@dataclass(frozen=True)
class PublishedBatch(PublishedPartition):
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
        query_id, batch_id, partition = _task_identity()
        packed, keys = self._gather(iterator)
        packed = sort_messages(packed, keys)
        check_number(batch_id, len(packed))
        if self._options.ledger is not None:
            Ledger(self._options.ledger, query_id).enter(batch_id, partition, packed)
        size = self._publish(f"spark-{query_id}-{partition}", batch_id, packed) if len(packed) else 0
        return PublishedBatch(partition, len(packed), size, query_id)

    def _gather(self, iterator: Iterator[Any]) -> tuple[Any, list[Any]]:
        """All messages, and the columns that order them."""
        rows = RowEncoder(self._options, least_qos=QOS_1)
        packed, keys = [], []
        for batch in iterator:
            packed.append(pa.array([pack_message(message) for message in rows.messages(batch)], PACKED))
            keys.append([batch.column(name) for name in self._order_by])
        if not packed:
            return pa.array([], PACKED), []
        columns = [pa.chunked_array(chunks) for chunks in zip(*keys, strict=True)]
        return pa.concat_arrays(packed), columns

    def _publish(self, client_id: str, batch_id: int, packed: Any) -> int:
        size = 0
        with open_client(self._options, client_id) as client:
            for message in self.messages(batch_id, packed):
                client.send(message)
                size += len(message.topic) + len(message.payload)
            client.settle()
        return size

    def messages(self, batch_id: int, packed: Any) -> Iterator[OutgoingMessage]:
        """What is published, in its order."""
        for row, value in enumerate(packed):
            yield add_number(unpack_message(value.as_py()), batch_id << ROW_BITS | row + 1)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        queries = {part.query_id for part in messages if isinstance(part, PublishedBatch)}
        if self._options.ledger is not None:
            for query_id in queries:
                Ledger(self._options.ledger, query_id).leave(batchId, len(messages))
        summarize(messages, self._options.summary_file, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        done = sum(isinstance(part, PublishedPartition) for part in messages)
        LOGGER.warning("batch %d failed after %d of its partitions; it will be repeated", batchId, done)


def add_number(message: OutgoingMessage, number: int) -> OutgoingMessage:
    """The same message with its number."""
    return message._replace(properties=message.properties + _USER_PROPERTY + encode_text(str(number)))


def check_number(batch_id: int, rows: int) -> None:
    if rows >= 1 << ROW_BITS or batch_id << ROW_BITS > MAX_NUMBER - rows:
        raise PermanentError(f"{rows} rows in a partition of batch {batch_id}: there is no number for them all")


def _task_identity() -> tuple[str, int, int]:
    """Query, batch and partition that this task works for."""
    task = TaskContext.get()
    query_id = None if task is None else task.getLocalProperty(_QUERY_ID)
    batch_id = None if task is None else task.getLocalProperty(_BATCH_ID)
    if task is None or query_id is None or batch_id is None:
        raise PermanentError("Spark does not tell the task its query and batch, without which rows cannot be numbered")
    return query_id, int(batch_id), task.partitionId()


# ---- the order of the rows of a batch
#
# Behind a shuffle, Spark gives rows in any order, and in another order when it repeats a batch. So rows are sorted by
# the columns of the option orderBy, and where these are equal by the messages themselves.


def pack_message(message: OutgoingMessage) -> bytes:
    header = _HEADER.pack(message.first, len(message.topic), len(message.properties))
    return b"".join((header, message.topic, message.properties, message.payload))


def unpack_message(packed: bytes) -> OutgoingMessage:
    first, topic_bytes, properties_bytes = _HEADER.unpack_from(packed)
    topic_end = _HEADER.size + topic_bytes
    properties_end = topic_end + properties_bytes
    return OutgoingMessage(
        first, packed[_HEADER.size : topic_end], packed[topic_end:properties_end], packed[properties_end:]
    )


def check_order(schema: StructType, order_by: Sequence[str]) -> None:
    """SettingsError for a column that has no order."""
    for name in order_by:
        kind = schema[name].dataType
        if isinstance(kind, ArrayType | MapType | StructType | VariantType):
            raise SettingsError(f"option orderBy: column {name!r} is {kind.simpleString()}, which has no order")


def sort_messages(packed: Any, keys: Sequence[Any]) -> Any:
    """Packed messages, sorted by columns of the same length and then by themselves; as they come without a column."""
    if not keys:
        return packed
    # numpy sorts by the last key first.
    ranks = [_ranks(column) for column in (packed, *reversed(keys))]
    return packed.take(pa.array(np.lexsort(ranks)))


def _ranks(column: Any) -> Any:
    return pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy()
