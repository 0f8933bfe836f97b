"""Record batches of messages as files: Parquet, CSV, JSON lines.

Parquet has the columns as they are. The other two have no bytes, times or maps, so there

    payload           as text if it is UTF-8, else Base64; the column `payload_encoding` behind it says which
    other bytes       Base64
    times             ISO 8601 in UTC, with microseconds
    user properties   pairs of name and value, since a name may stand twice; in CSV as JSON text
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow.csv import CSVWriter  # type: ignore[import-untyped]
from pyarrow.parquet import ParquetWriter  # type: ignore[import-untyped]

from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.arrow.message_batches import COLUMNS, schema_of

#: Rows and bytes of a row group: large enough that readers can skip, small enough to be held in memory.
_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 * 2**20
_ENCODING: Final = "payload_encoding"
_TEXT: Final = "utf-8"
_BASE64: Final = "base64"
#: Without the raw properties, which other columns have decoded.
_TEXT_COLUMNS: Final = tuple(name for name in COLUMNS if name != "properties")


class ByteSink(Protocol):
    """Something to write bytes to, such as a file."""

    def write(self, data: bytes, /) -> int: ...


def default_columns(file_format: FileFormat) -> tuple[str, ...]:
    return COLUMNS if file_format is FileFormat.PARQUET else _TEXT_COLUMNS


def open_writer(file_format: FileFormat, sink: ByteSink, columns: Sequence[str]) -> "_Parquet | _Csv | _JsonLines":
    """A writer of batches of these columns, in their order. MisuseError for an unknown column, before it writes.

    Its `close` ensures that the sink has a complete file of the format, also without any batch.
    """
    schema = schema_of(columns)
    if file_format is FileFormat.PARQUET:
        return _Parquet(sink, schema)
    if file_format is FileFormat.CSV:
        return _Csv(sink, schema)
    return _JsonLines(sink)


class _Parquet:
    def __init__(self, sink: ByteSink, schema: Any) -> None:
        self._writer: Final = ParquetWriter(pa.PythonFile(_Told(sink), mode="w"), schema, compression="zstd")
        self._held: list[Any] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: Any) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=self._rows)
        self._held = []
        self._rows = self._bytes = 0

    def close(self) -> None:
        if self._held:
            self._write_group()
        self._writer.close()


class _Csv:
    def __init__(self, sink: ByteSink, schema: Any) -> None:
        empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        self._writer: Final = CSVWriter(pa.PythonFile(_Told(sink), mode="w"), _plain(empty, _pairs_as_text).schema)

    def write(self, batch: Any) -> None:
        self._writer.write_batch(_plain(batch, _pairs_as_text))

    def close(self) -> None:
        self._writer.close()


class _JsonLines:
    def __init__(self, sink: ByteSink) -> None:
        self._sink: Final = sink
        self._encoder: Final = msgspec.json.Encoder()

    def write(self, batch: Any) -> None:
        self._sink.write(self._encoder.encode_lines(_plain(batch, lambda column: column).to_pylist()))

    def close(self) -> None:
        """Nothing to do: every line is complete."""


class _Told:
    """A sink that counts its bytes: Parquet needs the count, and standard output has none."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink: Final = sink
        self._size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._sink.write(data)
        self._size_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        self.closed = True


def _plain(batch: Any, pairs: Callable[[Any], Any]) -> Any:
    """The batch in types of text files; `pairs` converts user properties."""
    names: list[str] = []
    columns: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        names.append(name)
        if name == "payload":
            texts, encodings = _texts(column)
            names.append(_ENCODING)
            columns += [texts, encodings]
        elif pa.types.is_binary(column.type):
            columns.append(pa.array([_base64(value) for value in column.to_pylist()], pa.string()))
        elif pa.types.is_timestamp(column.type):
            columns.append(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ"))
        elif pa.types.is_map(column.type):
            columns.append(pairs(column))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)


def _texts(column: Any) -> tuple[Any, Any]:
    """Payloads as text, and the encoding of each."""
    try:
        return column.cast(pa.string()), pa.repeat(_TEXT, len(column))
    except pa.ArrowInvalid:
        pass  # some are not UTF-8
    texts: list[str] = []
    encodings: list[str] = []
    for value in column.to_pylist():
        try:
            texts.append(value.decode())
            encodings.append(_TEXT)
        except UnicodeDecodeError:
            texts.append(base64.b64encode(value).decode())
            encodings.append(_BASE64)
    return pa.array(texts, pa.string()), pa.array(encodings, pa.string())


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _pairs_as_text(column: Any) -> Any:
    return pa.array([json.dumps(pairs, ensure_ascii=False) for pairs in column.to_pylist()], pa.string())
