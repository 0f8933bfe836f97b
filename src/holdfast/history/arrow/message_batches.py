"""Stored messages as Arrow record batches, without a Python loop per row.

    values    [42 bytes | topic publisher properties payload] …      records/messages.py
    batch     ts │ shard │ offset │ topic │ client_id │ qos │ …      one column per part

Headers are read as one numpy array. `buffer_slices` cuts texts and payloads out of the joined values,
`property_columns` finds properties. Only the wanted columns are made.

1. What `decode_message` refuses is refused here too, with the same error and the row.
2. Strings are valid UTF-8, so any reader can use a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import MAX_DATA_BYTES, PADDING, Bytes, Numbers, collect
from holdfast.history.arrow.property_columns import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    PropertyTable,
)
from holdfast.history.columns import COLUMNS as MESSAGE_COLUMNS
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.time import SECOND_US
from holdfast.records.messages import EXPIRES, FLAGS, HEADER_BYTES, QOS, RETAIN, VERSION, decode_message

_TIME: Final = pa.timestamp("us", tz="UTC")

#: Every column there is, by the names that readers see. `ts` is `offset`, the position in the shard, as a time. No type
#: is unsigned, because Spark has none. A map keeps names that repeat, and their order.
SCHEMA: Final = pa.schema(
    [
        pa.field("ts", _TIME, nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("client_id", pa.string(), nullable=False),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("retain", pa.bool_(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("response_topic", pa.string()),
        pa.field("correlation_data", pa.binary()),
        pa.field("user_properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("expires_at", _TIME),
        pa.field("serial", pa.int64(), nullable=False),
        pa.field("received_at", _TIME, nullable=False),
        pa.field("properties", pa.binary(), nullable=False),
    ]
)
COLUMNS: Final = MESSAGE_COLUMNS

_HEADER: Final = np.dtype(
    [
        ("version", "u1"),
        ("flags", "u1"),
        ("topic", "<u2"),
        ("client_id", "<u2"),
        ("properties", "<u4"),
        ("payload", "<u4"),
        ("position", "<i8"),
        ("serial", "<u8"),
        ("received", "<i8"),
        ("expiry", "<u4"),
    ]
)
_ONE_VALUED: Final = {
    "content_type": CONTENT_TYPE,
    "response_topic": RESPONSE_TOPIC,
    "correlation_data": CORRELATION_DATA,
}


def schema_of(columns: Sequence[str]) -> Any:
    """The schema of some columns, in their order."""
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise MisuseError(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def record_batch(values: Sequence[bytes], shard: int, columns: Sequence[str] = COLUMNS) -> Any:
    """A pyarrow.RecordBatch of encoded messages of one shard; PermanentError names a damaged row."""
    return _RecordColumns(values).batch(shard, columns)


class MessageColumns(ABC):
    """Messages with their numbers, and the slices of their parts in one buffer. Who inherits it finds them, when they
    are asked for.
    """

    def __init__(self, flags: NDArray[np.uint8]) -> None:
        self._count: Final = len(flags)
        self._flags: Final = flags
        self._properties: PropertyTable | None = None

    def batch(self, shard: int, columns: Sequence[str]) -> Any:
        """A pyarrow.RecordBatch of some columns."""
        schema = schema_of(columns)
        return pa.RecordBatch.from_arrays([self.column(name, shard) for name in columns], schema=schema)

    def column(self, name: str, shard: int) -> Any:
        if name in ("topic", "client_id"):
            return self._name_column(name)
        if name in ("payload", "properties"):
            return collect(self._data(), *self._slices(name), pa.binary())
        if name == "ts":
            return _times(self._number("position"))
        if name == "received_at":
            return _times(self._number("received"))
        if name == "expires_at":
            left_us = np.maximum(self._number("expiry").astype(np.int64) * SECOND_US, 1)
            return _times(self._number("received") + left_us, self._flags & EXPIRES == 0)
        if name == "qos":
            return pa.array((self._flags & QOS).astype(np.int8))
        if name == "retain":
            return pa.array(self._flags & RETAIN != 0)
        if name == "offset":
            return pa.array(np.ascontiguousarray(self._number("position")))
        if name == "serial":
            return self._serials()
        if name == "shard":
            return pa.array(np.full(self._count, shard, np.int32))
        if name == "user_properties":
            return self._user_properties()
        return self._one_valued(name)

    @abstractmethod
    def _data(self) -> Bytes:
        """The buffer, padded."""

    @abstractmethod
    def _number(self, name: str) -> Numbers:
        """Position, serial, received or expiry (s) of each message."""

    @abstractmethod
    def _slices(self, part: str) -> tuple[Numbers, Numbers]:
        """Where the payload or the properties of each message begin, and how long they are."""

    @abstractmethod
    def _name_column(self, name: str) -> Any:
        """Topics or publishers."""

    def _serials(self) -> Any:
        serials = self._number("serial").astype(np.int64)
        if (serials < 0).any():
            row = int((serials < 0).argmax())
            raise PermanentError(f"row {row}: no shard has had {self._number('serial')[row]} messages")
        return pa.array(serials)

    def _table(self) -> PropertyTable:
        if self._properties is None:
            table = PropertyTable(self._data(), *self._slices("properties"))
            if table.damaged >= 0:
                raise PermanentError(
                    f"row {table.damaged}: the properties of a message record are not those of a PUBLISH"
                )
            self._properties = table
        return self._properties

    def _user_properties(self) -> Any:
        names = self._table().of(USER_PROPERTY)
        values = self._table().user_values()
        offsets = np.zeros(self._count + 1, np.int32)
        np.cumsum(np.bincount(names.rows, minlength=self._count), out=offsets[1:])
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            self._text(collect(self._data(), names.starts, names.lengths, pa.string()), "a user property"),
            self._text(collect(self._data(), values.starts, values.lengths, pa.string()), "a user property"),
        )

    def _one_valued(self, name: str) -> Any:
        found = self._table().of(_ONE_VALUED[name])
        kind = SCHEMA.field(name).type
        present = collect(self._data(), found.starts, found.lengths, kind)
        if kind == pa.string():
            present = self._text(present, name)
        index = np.full(self._count, -1, np.int64)
        index[found.rows] = np.arange(len(found.rows))
        return present.take(pa.array(index, mask=index < 0))

    @staticmethod
    def _text(array: Any, what: str) -> Any:
        """`array`, if its strings are UTF-8."""
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as wrong:
            raise PermanentError(f"{what} of a message record is not UTF-8: {wrong}") from wrong
        return array


class _RecordColumns(MessageColumns):
    """Message records, each with its own header."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values: Final = values
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        if int(sizes.sum()) > MAX_DATA_BYTES - len(PADDING):
            raise MisuseError(f"{int(sizes.sum())} bytes of values do not fit into one record batch; give fewer rows")
        data: Bytes = np.frombuffer(b"".join(chain(values, (PADDING,))), np.uint8)
        starts: Numbers = np.cumsum(sizes) - sizes
        self._refuse(sizes < HEADER_BYTES)
        head: NDArray[np.void] = sliding_window_view(data, HEADER_BYTES)[starts].view(_HEADER)[:, 0]
        super().__init__(head["flags"])
        self._joined: Final = data
        self._head: Final = head
        self._parts: Final[dict[str, tuple[Numbers, Numbers]]] = {}
        at = starts + HEADER_BYTES
        for part in ("topic", "client_id", "properties", "payload"):
            lengths = head[part].astype(np.int64)
            self._parts[part] = (at, lengths)
            at = at + lengths
        wrong_flags = (self._flags > FLAGS) | (self._flags & QOS == QOS)
        self._refuse((head["version"] != VERSION) | wrong_flags | (at != starts + sizes))

    def _data(self) -> Bytes:
        return self._joined

    def _number(self, name: str) -> Numbers:
        found: Numbers = self._head[name]
        return found

    def _slices(self, part: str) -> tuple[Numbers, Numbers]:
        return self._parts[part]

    def _name_column(self, name: str) -> Any:
        return self._text(collect(self._joined, *self._parts[name], pa.string()), name)

    def _refuse(self, bad: NDArray[np.bool_]) -> None:
        if bad.any():
            row = int(bad.argmax())
            try:
                decode_message(self._values[row])
            except PermanentError as damage:
                raise PermanentError(f"row {row}: {damage}") from damage
            raise MisuseError(f"row {row} is refused here and accepted by decode_message")


def _times(values_us: Numbers, missing: NDArray[np.bool_] | None = None) -> Any:
    return pa.array(np.ascontiguousarray(values_us), mask=missing).view(_TIME)
