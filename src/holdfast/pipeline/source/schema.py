"""The columns of history and of the broker's other tables, as Spark knows them.

Spark does not tell a Python source which columns a query needs. A caller that wants few says so: by the option
`columns`, or by a schema of some of them.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow.compute import binary_length  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType, VariantType, VariantVal

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.history.tables.tables import schema_of
from holdfast.model.errors import MisuseError, SettingsError

HISTORY: Final = "history"
#: The payload, parsed; null where it is no JSON.
JSON: Final = "json"
#: The size of the payload: a query that needs no more is spared the payload.
SIZE: Final = "payload_bytes"
#: Read only by those who ask for them: what is in there is in the other columns as well.
_ON_REQUEST: Final = ("received_at", "properties")
DEFAULT_COLUMNS: Final = tuple(name for name in SCHEMA.names if name not in _ON_REQUEST)
_PAYLOAD: Final = "payload"


def _fields() -> dict[str, StructField]:
    fields = {
        field.name: StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=False), field.nullable)
        for field in SCHEMA
    }
    return fields | {JSON: StructField(JSON, VariantType()), SIZE: StructField(SIZE, IntegerType(), nullable=False)}


#: Every column there is.
FIELDS: Final = _fields()


def check_columns(table: str, names: Sequence[str]) -> None:
    """ValueError names the first column that does not exist, or comes twice."""
    if table != HISTORY:
        try:
            schema_of(table, names)
        except MisuseError as wrong:
            raise ValueError(str(wrong)) from None
        return
    for name in names:
        if name not in FIELDS:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(FIELDS)}")
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} comes twice")


def spark_schema(columns: Sequence[str], table: str = HISTORY) -> StructType:
    if table == HISTORY:
        return StructType([FIELDS[name] for name in columns])
    schema = from_arrow_schema(schema_of(table, columns), prefer_timestamp_ntz=False)
    assert isinstance(schema, StructType)
    return schema


def check_schema(schema: StructType, table: str = HISTORY) -> None:
    """SettingsError if the schema of a query has other columns or types than these."""
    try:
        check_columns(table, schema.fieldNames())
    except ValueError as wrong:
        raise SettingsError(f"schema: {wrong}") from None
    for field, right in zip(schema.fields, spark_schema(schema.fieldNames(), table).fields, strict=True):
        given, wanted = field.dataType.simpleString(), right.dataType.simpleString()
        # Of history, what may be null within a column counts, too.
        if given != wanted or (table == HISTORY and field.dataType != right.dataType):
            raise SettingsError(f"schema: column {field.name!r} is {wanted}, not {given}")


class BatchShape:
    """Record batches of history, turned into exactly what Spark expects of a schema."""

    def __init__(self, schema: StructType) -> None:
        self._schema: Final = to_arrow_schema(schema, timezone="UTC")
        names = schema.fieldNames()
        self._names: Final = names
        #: What is to be read.
        self.columns: Final = [name for name in names if name not in (JSON, SIZE)]
        if len(self.columns) < len(names) and _PAYLOAD not in self.columns:
            self.columns.append(_PAYLOAD)

    def fit(self, batch: Any) -> Any:
        columns = []
        for name, field in zip(self._names, self._schema, strict=True):
            if name == JSON:
                columns.append(_variants(batch.column(_PAYLOAD), field.type))
            elif name == SIZE:
                columns.append(binary_length(batch.column(_PAYLOAD)))
            else:
                column = batch.column(name)
                columns.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _variants(payloads: Any, kind: Any) -> Any:
    rows = [_variant(payload) for payload in payloads.to_pylist()]
    return pa.array(rows, kind)


def _variant(payload: bytes) -> dict[str, bytes] | None:
    try:
        found = VariantVal.parseJson(payload.decode())
    # Whatever devices send: not UTF-8, not JSON, nested too deep, numbers too large. None of it may end a query.
    except Exception:
        return None
    return {"value": found.value, "metadata": found.metadata}
