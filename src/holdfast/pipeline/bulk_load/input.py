"""Rows from files or a DataFrame, as messages: which column is what, and in which order rows with one time come.

    Parquet, a DataFrame    columns with types
    CSV, JSON lines         texts; as `holdfast export` writes them, and as `mosquitto_sub -F %j` and others do

| column            | other names understood  | what it is                                                        |
|-------------------|-------------------------|-------------------------------------------------------------------|
| ts                | tst, time, timestamp    | a time, ISO 8601, or a number since 1970: s, ms, µs, ns by size   |
| topic             |                         | the topic                                                         |
| payload           | message, value          | bytes or a text; with `payload_encoding` = base64 that            |
| client_id         | clientid, publisher     | who published it; `load` by default                               |
| qos, retain       |                         | 0 and false by default                                            |
| content_type, response_topic, correlation_data, user_properties, expires_at, received_at, properties  | as exported |

Other columns are left out. Rows with one time keep the order of their file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, BooleanType, NumericType, StringType, StructField, StructType, TimestampType

from holdfast.history.arrow.file_columns import ALIASES, CLIENT_ID, COLUMNS, NEEDED, FileFormat
from holdfast.model.errors import SettingsError

#: Which row comes first of those with one time.
ORDER: Final = ("order_file", "order_block", "order_row")
_PAIRS: Final = "array<array<string>>"
#: `2026-01-31T12:00:00+0100`, as mosquitto_sub writes it.
_OFFSET_WITHOUT_COLON: Final = r"([+-]\d\d)(\d\d)$"


def read_files(spark: SparkSession, paths: Sequence[Path], kind: FileFormat, names: Mapping[str, str]) -> DataFrame:
    """Files of one kind, with all columns that may be needed as they are there."""
    places = [str(path) for path in paths]
    if kind is FileFormat.PARQUET:
        found = spark.read.parquet(*places)
    elif kind is FileFormat.CSV:
        found = spark.read.csv(places, header=True, multiLine=True, escape='"', enforceSchema=False)
    else:
        # All that is known, as text: what an object is in JSON stays as it was written.
        known = [name for column in COLUMNS for name in (names.get(column, column), *ALIASES.get(column, ()))]
        schema = StructType([StructField(name, StringType()) for name in dict.fromkeys([*known, "payload_encoding"])])
        found = spark.read.schema(schema).json(places, mode="FAILFAST")
    return number_rows(found, sql.col("_metadata.file_path"), sql.col("_metadata.file_block_start"))


def number_rows(rows: DataFrame, file: Column, block: Column) -> DataFrame:
    """With the columns of the order: the rows of a block of a file are numbered as they come."""
    order = (file, block, sql.monotonically_increasing_id())
    return rows.select("*", *[column.alias(name) for column, name in zip(order, ORDER, strict=True)])


def select_messages(rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The columns of messages in the types that `rows.py` takes, and those of the order."""
    there = set(rows.columns)
    found: dict[str, list[str]] = {}
    for column in COLUMNS:
        given = names.get(column)
        if given is not None and given not in there:
            raise SettingsError(f"--column {column}={given}: there is no column {given!r}; there are {_listed(there)}")
        wanted = (given,) if given is not None else (column, *ALIASES.get(column, ()))
        present = [name for name in wanted if name in there]
        if present:
            found[column] = present
    missing = [column for column in NEEDED if column not in found]
    if missing:
        raise SettingsError(
            f"there is no column {missing[0]!r}; there are {_listed(there)}; say which one it is: "
            f"--column {missing[0]}=NAME"
        )
    made = {column: _made(rows, column, present) for column, present in found.items()}
    made.setdefault("client_id", sql.lit(CLIENT_ID))
    made.setdefault("qos", sql.lit(0))
    made.setdefault("retain", sql.lit(False))
    return rows.select(*[column.alias(name) for name, column in made.items()], *ORDER)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names - set(ORDER)))


def _made(rows: DataFrame, column: str, present: list[str]) -> Column:
    kind = rows.schema[present[0]].dataType
    # Lines of JSON may call it one thing or another; where there are types, the first name counts.
    alike = [name for name in present if isinstance(kind, StringType) and rows.schema[name].dataType == kind]
    given = sql.coalesce(*[sql.col(f"`{name}`") for name in alike or present[:1]])
    if column in ("ts", "expires_at", "received_at"):
        return _time_us(given, kind)
    if column == "qos":
        return sql.coalesce(given.cast("int"), sql.lit(0))
    if column == "retain":
        return sql.coalesce(given.cast("boolean") if not isinstance(kind, BooleanType) else given, sql.lit(False))
    if column == "client_id":
        return sql.coalesce(given.cast("string"), sql.lit(CLIENT_ID))
    if column == "payload":
        return sql.coalesce(_payload(rows, given, kind), sql.lit(b""))
    if column in ("correlation_data", "properties"):
        return given if isinstance(kind, BinaryType) else sql.unbase64(given)
    if column == "user_properties":
        return sql.from_json(given, _PAIRS) if isinstance(kind, StringType) else given
    return given.cast("string")


def _payload(rows: DataFrame, given: Column, kind: object) -> Column:
    if isinstance(kind, BinaryType):
        return given
    text = given.cast("string").cast("binary")
    if "payload_encoding" not in rows.columns:
        return text
    return sql.when(sql.col("payload_encoding") == "base64", sql.unbase64(given)).otherwise(text)


def _time_us(given: Column, kind: object) -> Column:
    """Microseconds since 1970."""
    if isinstance(kind, TimestampType):
        return sql.unix_micros(given)
    if isinstance(kind, NumericType):
        return _since_1970(given)
    if isinstance(kind, StringType):
        number = given.try_cast("decimal(38,9)")
        moment = sql.regexp_replace(given, _OFFSET_WITHOUT_COLON, "$1:$2").try_cast("timestamp")
        return sql.coalesce(_since_1970(number), sql.unix_micros(moment))
    return sql.unix_micros(given.cast("timestamp"))


def _since_1970(given: Column) -> Column:
    number = given.cast("decimal(38,9)")
    return (
        sql.when(number < sql.lit(10**11), number * 1_000_000)
        .when(number < sql.lit(10**14), number * 1_000)
        .when(number < sql.lit(10**17), number)
        .otherwise(number / 1_000)
        .cast("long")
    )
