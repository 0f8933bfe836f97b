"""The rows of a batch in an order that does not depend on the order in which they come.

Behind a shuffle Spark gives rows in any order, and in another one when it gives them again. So they are sorted by the
columns that the writer was told, and where these are equal by the messages themselves: the same rows, the same order.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.publisher import Message

PACKED: Final = pa.large_binary()
_HEADER: Final = struct.Struct(">BHI")


def pack(message: Message) -> bytes:
    header = _HEADER.pack(message.first, len(message.topic), len(message.properties))
    return b"".join((header, message.topic, message.properties, message.payload))


def unpack(packed: bytes) -> Message:
    first, topic_bytes, properties_bytes = _HEADER.unpack_from(packed)
    topic_end = _HEADER.size + topic_bytes
    properties_end = topic_end + properties_bytes
    return Message(first, packed[_HEADER.size : topic_end], packed[topic_end:properties_end], packed[properties_end:])


def check_order(schema: StructType, order_by: Sequence[str]) -> None:
    """SettingsError for a column that has no order."""
    for name in order_by:
        kind = schema[name].dataType
        if isinstance(kind, ArrayType | MapType | StructType | VariantType):
            raise SettingsError(f"option orderBy: column {name!r} is {kind.simpleString()}, which has no order")


def in_order(packed: Any, keys: Sequence[Any]) -> Any:
    """Packed messages, sorted by columns of the same length and then by themselves; as they come without a column."""
    if not keys:
        return packed
    # numpy sorts by the last key first.
    ranks = [_ranks(column) for column in (packed, *reversed(keys))]
    return packed.take(pa.array(np.lexsort(ranks)))


def _ranks(column: Any) -> Any:
    return pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy()
