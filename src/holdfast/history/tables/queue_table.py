"""The columns of the table `queues`: what sessions and shared groups are owed. `queue_view.py` makes its rows."""

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

_TIME: Final = pa.timestamp("us", tz="UTC")
_INFLIGHT: Final = pa.struct(
    [
        pa.field("packet_id", pa.int32(), nullable=False),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("waits_for", pa.string(), nullable=False),
    ]
)

SCHEMA: Final = pa.schema(
    [
        pa.field("client_id", pa.string()),
        pa.field("group", pa.string()),
        pa.field("replay", pa.string()),
        pa.field("connected", pa.bool_()),
        pa.field("zone", pa.string(), nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("sent_at", _TIME),
        pa.field("sent_offset", pa.int64()),
        pa.field("head_offset", pa.int64(), nullable=False),
        pa.field("owed_at_most", pa.int64(), nullable=False),
        pa.field("behind_since", _TIME),
        pa.field("owed", pa.int64()),
        pa.field("oldest_owed_at", _TIME),
        pa.field("inflight", pa.list_(pa.field("element", _INFLIGHT, nullable=False)), nullable=False),
    ]
)
