"""The log as it lies there: every stored message of a part as a row.

    place, topic, publisher, flags │ what stood in front of it │ whether it is erased

1. Erased messages have rows, with topic and publisher: without them neither order nor index can be checked. Counts are
   not checked here: an audit checks them.
2. Payloads stay where they are: of them a row says whether it is empty, and its checksum, if that is wanted. An erased
   one has no checksum, which would tell a short payload.
3. What is held at a time is bounded by bytes, and not only by rows.
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.exchange.inbound import publish_number
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.reader.erasure_filter import erased_rows
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, Part

_BATCH_ROWS: Final = 16_384
_NUMBERED: Final = PUBLISH_NUMBER.encode()
_READ: Final = ("offset", "serial", "topic", "client_id", "qos", "retain", "payload", "expires_at", "properties")
_LONG: Final = pa.int64()

#: `before_*`: of the message that lies in front of it in its part, -1 for the first. `number`: by its publisher.
STORED: Final = pa.schema(
    [
        ("generation", pa.int32()),
        ("shard", pa.int32()),
        ("serial", _LONG),
        ("offset", _LONG),
        ("topic", pa.string()),
        ("client_id", pa.string()),
        ("qos", pa.int8()),
        ("retain", pa.bool_()),
        ("empty", pa.bool_()),
        ("expires_us", _LONG),
        ("checksum", _LONG),
        ("number", _LONG),
        ("before_serial", _LONG),
        ("before_offset", _LONG),
        ("lo", _LONG),
        ("hi", _LONG),
        ("erased", pa.bool_()),
    ]
)


def stored_rows(reader: HistoryReader, part: Part, *, checksums: bool) -> Iterator[Any]:
    """Every message of a part, a row of STORED each, in the order in which they lie there."""
    erasures = reader.erasures()
    before_serial = before_offset = UNKNOWN
    for page in reader.stored_pages(part, rows=_BATCH_ROWS):
        batch = record_batch(page, part.shard, _READ)
        serials, offsets = batch.column("serial").to_numpy(), batch.column("offset").to_numpy()
        payloads = batch.column("payload")
        count = len(page)
        hidden = erased_rows(batch, part.shard, erasures) if erasures.all else None
        erased = pa.array(np.zeros(count, bool)) if hidden is None else hidden
        columns = {
            "generation": pa.array(np.full(count, part.generation), pa.int32()),
            "shard": pa.array(np.full(count, part.shard), pa.int32()),
            **{name: batch.column(name) for name in ("serial", "offset", "topic", "client_id", "qos", "retain")},
            "empty": pc.equal(pc.binary_length(payloads), 0),
            "expires_us": batch.column("expires_at").cast(pa.int64()),
            "checksum": _checksums(payloads, erased) if checksums else pa.nulls(count, pa.int64()),
            "number": _numbers(batch.column("properties")),
            "before_serial": pa.array(np.r_[before_serial, serials[:-1]], pa.int64()),
            "before_offset": pa.array(np.r_[before_offset, offsets[:-1]], pa.int64()),
            "lo": pa.array(np.full(count, part.lo_us), pa.int64()),
            "hi": pa.array(np.full(count, part.hi_us), pa.int64()),
            "erased": erased,
        }
        yield pa.RecordBatch.from_pydict(columns, schema=STORED)
        before_serial, before_offset = int(serials[-1]), int(offsets[-1])


def _checksums(payloads: Any, erased: Any) -> Any:
    """As Spark's `crc32` gives them; null for what was erased."""
    found = pa.array([zlib.crc32(payload.as_buffer()) for payload in payloads], pa.int64())
    return pc.if_else(erased, pa.scalar(None, pa.int64()), found)


def _numbers(properties: Any) -> Any:
    if not pc.any(pc.match_substring(properties, PUBLISH_NUMBER)).as_py():
        return pa.nulls(len(properties), pa.int64())
    found = [publish_number(own) if _NUMBERED in own else -1 for own in properties.to_pylist()]
    return pa.array([None if number < 0 else number for number in found], pa.int64())
