"""Retained messages as record batches: the message by `message_batches`, and beside it where and when it was stored.

Removals that are kept for other nodes and expired messages are left out: no subscriber would get them. So are erased
messages, also those that the broker has not removed yet.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import compute

from holdfast.durable.erasures import Erasures
from holdfast.history.arrow.message_batches import SCHEMA as MESSAGE_SCHEMA
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.messages import stored_position, stored_publisher
from holdfast.records.retained import VERSION, retained_topic
from holdfast.storage.rocks.engine.column_families import RETAINED
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: In front of the message: version, shard, when it was stored.
_HEAD: Final = Struct("<BHq")
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
    erasures = reader.erasures()
    items = (
        (key, value)
        for key, value in scan_items(reader.family(RETAINED), lo, hi)
        if (not levels or _matches(levels, retained_topic(key)))
        and not (erasures.all and _is_erased(erasures, key, _checked(key, value)))
    )
    while chunk := [_checked(key, value) for key, value in islice(items, _BATCH_ROWS)]:
        batch = _batch(chunk, columns, now_us)
        if batch.num_rows:
            yield batch


def _matches(levels: tuple[bytes, ...], topic: bytes) -> bool:
    return levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic))


def _is_erased(erasures: Erasures, key: bytes, value: bytes) -> bool:
    _version, shard, stored_us = _HEAD.unpack_from(value)
    message = value[_HEAD.size :]
    position_us, publisher = stored_position(message), stored_publisher(message)
    return erasures.hides_retained(shard, position_us, stored_us, retained_topic(key), publisher)


def _checked(key: bytes, value: bytes) -> bytes:
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise PermanentError(f"the retained message of {retained_topic(key)!r} is damaged; run: holdfast verify")
    return value


def _batch(values: list[bytes], columns: Sequence[str], now_us: int) -> Any:
    of_message = [name for name in _FROM_MESSAGE if name in columns]
    needed = dict.fromkeys([*of_message, "payload", "expires_at", "offset"])
    messages = record_batch([value[_HEAD.size :] for value in values], 0, list(needed))
    heads = [_HEAD.unpack_from(value) for value in values]
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
