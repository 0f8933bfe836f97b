"""The columns of the tables beside history, as Spark knows them."""

from collections.abc import Sequence

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from holdfast.history.tables import schema_of
from holdfast.model.errors import MisuseError, SettingsError


def check_table_columns(table: str, names: Sequence[str]) -> None:
    """ValueError names the first column that does not exist, or comes twice."""
    try:
        schema_of(table, names)
    except MisuseError as wrong:
        raise ValueError(str(wrong)) from None


def table_schema(table: str, columns: Sequence[str] | None = None) -> StructType:
    schema = from_arrow_schema(schema_of(table, columns), prefer_timestamp_ntz=False)
    assert isinstance(schema, StructType)
    return schema


def check_table_schema(table: str, schema: StructType) -> None:
    """SettingsError if a schema that a query brought is not one of these columns with their types."""
    try:
        check_table_columns(table, schema.fieldNames())
    except ValueError as wrong:
        raise SettingsError(f"schema: {wrong}") from None
    for field, right in zip(schema.fields, table_schema(table, schema.fieldNames()).fields, strict=True):
        if field.dataType.simpleString() != right.dataType.simpleString():
            given = field.dataType.simpleString()
            raise SettingsError(f"schema: column {field.name!r} is {right.dataType.simpleString()}, not {given}")
