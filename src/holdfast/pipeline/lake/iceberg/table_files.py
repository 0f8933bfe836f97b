"""Columns and data files of an archived table, as Iceberg has them.

    LOCATION/data/day=2026-07-01/p-1a2b3c4d/hf-….parquet      partitioned by day(ts) and pattern

1. A file carries the numbers that the table has for its columns: any reader of Iceberg finds them, whatever is renamed.
2. Bounds are noted of `ts`, `shard`, `offset` and `serial` alone: of topics, publishers and payloads nothing stands in
   the table's metadata, but for the pattern.
"""

import json
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa  # type: ignore[import-untyped]
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent
from pyiceberg.manifest import FileFormat as IcebergFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.model.time import DAY_US, EPOCH, datetime_of, us_of
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.lake_files import DAY, PATTERN, STATISTICS, DataFileForm
from holdfast.pipeline.lake.lake_patterns import CATCH_ALL

FOLDER: Final = "data/"
_NUMBER: Final = b"PARQUET:field_id"
_DAY_FIELD: Final = "ts_day"
#: Iceberg has no numbers of one byte.
_COLUMNS: Final = pa.schema(
    [field.with_type(pa.int32()) if field.type == pa.int8() else field for field in SCHEMA]
    + [pa.field(PATTERN, pa.string())]
)
_PLAIN: Final[dict[Any, Callable[[], IcebergType]]] = {
    pa.bool_(): BooleanType,
    pa.int32(): IntegerType,
    pa.int64(): LongType,
    pa.string(): StringType,
    pa.binary(): BinaryType,
    pa.timestamp("us", tz="UTC"): TimestamptzType,
}


def table_schema() -> Schema:
    """Of a new table; the catalog may give other numbers. Every column may be null: one that is new will be."""
    nested = iter(range(len(_COLUMNS) + 1, 1_000))
    return Schema(
        *(
            NestedField(number, field.name, _iceberg_type(field.type, nested.__next__), required=False)
            for number, field in enumerate(_COLUMNS, 1)
        )
    )


def partition_spec(schema: Schema) -> PartitionSpec:
    return PartitionSpec(
        PartitionField(schema.find_field("ts").field_id, 1000, DayTransform(), _DAY_FIELD),
        PartitionField(schema.find_field(PATTERN).field_id, 1001, IdentityTransform(), PATTERN),
    )


def missing_columns(schema: Schema) -> list[NestedField]:
    """What the table of an older Holdfast has not."""
    known = {field.name for field in schema.fields}
    return [field for field in table_schema().fields if field.name not in known]


def differing_columns(schema: Schema) -> list[tuple[str, str, str]]:
    """Columns of another type than here: name, the table's type, the right one."""
    types = {field.name: _describe(field.field_type) for field in schema.fields}
    right = {field.name: _describe(field.field_type) for field in table_schema().fields}
    return [(name, types[name], kind) for name, kind in right.items() if types.get(name, kind) != kind]


def has_our_partitions(metadata: TableMetadata) -> bool:
    schema = metadata.schema()

    def described(spec: PartitionSpec, of: Schema) -> list[tuple[str | None, str]]:
        return [(of.find_column_name(field.source_id), str(field.transform)) for field in spec.fields]

    right = table_schema()
    return described(metadata.spec(), schema) == described(partition_spec(right), right)


def file_format(schema: Schema) -> DataFileForm:
    """What workers write: the columns of history that the table has, with its numbers."""
    known = {field.name: field for field in schema.fields}
    fields = [
        _numbered(pa.field(column.name, _numbered_type(column.type, known[column.name].field_type)), known[column.name])
        for column in _COLUMNS
        if column.name in known
    ]
    return DataFileForm(FOLDER, pa.schema(fields))


def data_file(file: DataFile, location: str, metadata: TableMetadata) -> IcebergFile:
    """A file that a worker has written, as a manifest has it."""
    schema = metadata.schema()
    stats = json.loads(file.stats)
    fields = {name: schema.find_field(name) for name in STATISTICS}

    def bounds(which: str) -> dict[int, bytes]:
        return {
            field.field_id: to_bytes(_plain_type(field), _number(stats[which][name])) for name, field in fields.items()
        }

    day, pattern = file.partition[DAY], file.partition[PATTERN]
    assert day is not None, "each file is of a day"
    made = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location.rstrip('/')}/{file.path}",
        file_format=IcebergFormat.PARQUET,
        partition=Record((date.fromisoformat(day) - EPOCH.date()).days, pattern),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        value_counts={field.field_id: file.rows for field in fields.values()},
        null_value_counts={field.field_id: 0 for field in fields.values()},
        lower_bounds=bounds("minValues"),
        upper_bounds=bounds("maxValues"),
    )
    made.spec_id = metadata.default_spec_id
    return made


def described_file(file: IcebergFile, path: str, metadata: TableMetadata) -> dict[str, Any]:
    """A file of the table, under the names that `ArchiveTable.list_files` has."""
    found: dict[str, Any] = {"path": quote(path), "size_bytes": file.file_size_in_bytes}
    found["num_records"] = file.record_count
    schema = metadata.schema()
    for name in STATISTICS:
        field = schema.find_field(name)
        for which, bounds in (("min", file.lower_bounds), ("max", file.upper_bounds)):
            bound = (bounds or {}).get(field.field_id)
            if bound is not None:
                value: Any = from_bytes(_plain_type(field), bound)
                found[f"{which}.{name}"] = datetime_of(value) if name == "ts" else value
    places = {
        field.name: file.partition[position] for position, field in enumerate(metadata.specs()[file.spec_id].fields)
    }
    day = places.get(_DAY_FIELD)
    # Another program may have chosen other partitions: then the first time says the day, and any topic may be in it.
    first = found.get("min.ts", EPOCH)
    found[f"partition.{DAY}"] = datetime_of(day * DAY_US).date() if isinstance(day, int) else first.date()
    found[f"partition.{PATTERN}"] = places.get(PATTERN) or CATCH_ALL
    return found


# ---- within


def _iceberg_type(kind: Any, number: Callable[[], int]) -> IcebergType:
    if pa.types.is_map(kind):
        return MapType(
            key_id=number(),
            key_type=_iceberg_type(kind.key_type, number),
            value_id=number(),
            value_type=_iceberg_type(kind.item_type, number),
            value_required=False,
        )
    return _PLAIN[kind]()


def _numbered_type(kind: Any, known: IcebergType) -> Any:
    if not isinstance(known, MapType):
        return kind
    key = _numbered(pa.field("key", kind.key_type, nullable=False), known.key_field)
    return pa.map_(key, _numbered(pa.field("value", kind.item_type), known.value_field))


def _numbered(field: Any, known: NestedField) -> Any:
    return field.with_metadata({_NUMBER: str(known.field_id).encode()})


def _plain_type(field: NestedField) -> PrimitiveType:
    assert isinstance(field.field_type, PrimitiveType), "bounds are noted of plain columns alone"
    return field.field_type


def _describe(kind: IcebergType) -> str:
    """Without the numbers of what is nested."""
    if isinstance(kind, MapType):
        return f"map<{_describe(kind.key_type)}, {_describe(kind.value_type)}>"
    return str(kind)


def _number(value: Any) -> int:
    """A bound; of a time, its microseconds."""
    return us_of(datetime.fromisoformat(value)) if isinstance(value, str) else int(value)
