"""Retained messages as record batches: the message by `message_batches`, and beside it where and when it was stored.

Removals that are kept for other nodes and expired messages are left out: no subscriber would get them. So are erased
messages, also those that the broker has not removed yet.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import compute

from holdfast.history.arrow.message_batches import SCHEMA as MESSAGE_SCHEMA
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.retained_view import HEAD, retained_rows

_BATCH_ROWS: Final = 4096
_FROM_MESSAGE: Final = (
    "topic",
    "payload",
    "qos",
    "client_id",
    "received_at",
    "expires_at",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_properties",
)
_STORED_AT: Final = pa.field("stored_at", pa.timestamp("us", tz="UTC"), nullable=False)

SCHEMA: Final = pa.schema(
    [
        *[MESSAGE_SCHEMA.field(name) for name in _FROM_MESSAGE[:4]],
        _STORED_AT,
        *[MESSAGE_SCHEMA.field(name) for name in _FROM_MESSAGE[4:]],
        # Its position in the log, if it is stored there.
        pa.field("shard", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)


def retained_batches(
    reader: HistoryReader, lo: bytes, hi: bytes, columns: Sequence[str], levels: tuple[bytes, ...], now_us: int
) -> Iterator[Any]:
    """Retained messages in a range of keys that match a filter; all if there are no levels."""
    values = (value for _key, value in retained_rows(reader, lo, hi, levels))
    while chunk := list(islice(values, _BATCH_ROWS)):
        batch = _batch(chunk, columns, now_us)
        if batch.num_rows:
            yield batch


def _batch(values: list[bytes], columns: Sequence[str], now_us: int) -> Any:
    of_message = [name for name in _FROM_MESSAGE if name in columns]
    needed = dict.fromkeys([*of_message, "payload", "expires_at", "offset"])
    messages = record_batch([value[HEAD.size :] for value in values], 0, list(needed))
    heads = [HEAD.unpack_from(value) for value in values]
    offsets = messages.column("offset")
    in_log = compute.greater(offsets, 0)
    found = {name: messages.column(name) for name in of_message}
    found["stored_at"] = pa.array([head[2] for head in heads], _STORED_AT.type)
    found["shard"] = compute.if_else(in_log, pa.array([head[1] for head in heads], pa.int32()), None)
    found["offset"] = compute.if_else(in_log, offsets, None)
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    batch = pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)
    expired = compute.less_equal(messages.column("expires_at").cast(pa.int64()), now_us)
    there = compute.greater(compute.binary_length(messages.column("payload")), 0)
    return batch.filter(compute.and_(there, compute.invert(compute.fill_null(expired, False))))
