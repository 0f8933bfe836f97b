"""Payloads as columns, on Spark. What cannot be decoded keeps its row, with the reason in `_why`.

No payload can fail a batch: functions of SQL are those that give null instead of an error, and decoders in
Python give their ValueError as the reason.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import arrow_udf

from holdfast.pipeline.declared.cbor import cbor_to_json
from holdfast.pipeline.declared.declaration import (
    ALSO_READ,
    BASE,
    SPARKPLUG,
    TYPES,
    DecodedColumn,
    DecodeSpec,
    PayloadFormat,
)
from holdfast.pipeline.declared.sparkplug import address_of, decode_payload, metrics_of
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from holdfast.pipeline.declared.table_files import FIRST, WHY

_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_DOCUMENT: Final = "_document"
_TEXT: Final = "_text"
#: What milliseconds can be a time: the years 1 to 9999.
_LEAST_MS, _MOST_MS = -62_135_596_800_000, 253_402_300_799_999
_SHOWN: Final = 80
#: Metrics in a record batch, at most, about.
_SPARKPLUG_ROWS: Final = 8_192


def decode_messages(messages: DataFrame, decode: DecodeSpec, aliases: Aliases | None = None) -> DataFrame:
    """`messages` with the declared columns, `_why` and `_first`."""
    if decode.format == PayloadFormat.SPARKPLUG_B:
        rows = _sparkplug(messages, aliases or Aliases())
    else:
        rows = messages.withColumn(FIRST, sql.lit(1))
        rows = rows.withColumn(
            _TEXT, sql.expr("CASE WHEN is_valid_utf8(CAST(payload AS STRING)) THEN CAST(payload AS STRING) END")
        )
        rows = {
            PayloadFormat.JSON: _json,
            PayloadFormat.CBOR: _cbor,
            PayloadFormat.NUMBER: _number,
            PayloadFormat.TEXT: _text,
        }[decode.format](rows)
    for column in decode.columns:
        rows = _level(rows, column) if column.level else _part(rows, column)
    return rows.drop(_TEXT, _DOCUMENT)


def _json(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn(_DOCUMENT, sql.try_parse_json(sql.col(_TEXT)))
    why = sql.when(sql.col(_TEXT).isNull(), sql.lit("not UTF-8")).when(sql.col(_DOCUMENT).isNull(), sql.lit("not JSON"))
    return rows.withColumn(WHY, why)


def _cbor(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn("_cbor", _cbor_udf()(sql.col("payload")))
    rows = rows.withColumn(_DOCUMENT, sql.try_parse_json(sql.col("_cbor.json")))
    why = sql.when(sql.col(_DOCUMENT).isNull(), sql.coalesce(sql.col("_cbor.why"), sql.lit("not decoded: too large")))
    return rows.withColumn(WHY, why).drop("_cbor")


def _number(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn("value", sql.when(sql.col(_TEXT).rlike(_NUMBER), sql.col(_TEXT).try_cast("double")))
    return rows.withColumn(WHY, sql.when(sql.col("value").isNull(), sql.lit("not a number")))


def _text(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn("value", sql.col(_TEXT))
    return rows.withColumn(WHY, sql.when(sql.col(_TEXT).isNull(), sql.lit("not UTF-8")))


def _part(rows: DataFrame, column: DecodedColumn) -> DataFrame:
    """A part of a document: null if it is missing, unless it is required."""
    document = sql.col(_DOCUMENT)
    found = sql.try_variant_get(document, column.path, "variant")
    there = found.isNotNull() & ~sql.is_variant_null(found)
    if column.kind == "timestamp_ms":
        number = sql.try_variant_get(document, column.path, "bigint")
        typed = sql.when(number.between(_LEAST_MS, _MOST_MS), sql.timestamp_millis(number))
    else:
        typed = sql.try_variant_get(document, column.path, TYPES[column.kind])
    return _typed(rows, column, typed, there, sql.to_json(found))


def _level(rows: DataFrame, column: DecodedColumn) -> DataFrame:
    found = sql.get(sql.split(sql.col("topic"), "/"), column.level - 1)
    typed = found.try_cast(TYPES[column.kind])
    if column.kind == "timestamp_ms":
        number = found.try_cast("bigint")
        typed = sql.when(number.between(_LEAST_MS, _MOST_MS), sql.timestamp_millis(number))
    return _typed(rows, column, typed, found.isNotNull(), found)


def _typed(rows: DataFrame, column: DecodedColumn, typed: Column, there: Column, text: Column) -> DataFrame:
    """With the column, and the reason where it is missing or is there and not of its type. The first reason counts."""
    rows = rows.withColumn(column.name, typed)
    shown = sql.concat(
        sql.lit(f"column {column.name}: "), sql.substring(text, 1, _SHOWN), sql.lit(f" is no {column.kind}")
    )
    wrong = sql.when(there & sql.col(column.name).isNull(), shown)
    if column.required:
        missing = sql.lit(f"column {column.name}: {column.path} is missing")
        wrong = wrong.when(~sql.coalesce(there, sql.lit(False)), missing)
    return rows.withColumn(WHY, sql.coalesce(sql.col(WHY), wrong))


# ---- decoders in Python


def _cbor_udf() -> Any:
    make: Any = arrow_udf
    return make(_cbor_texts, "struct<json: string, why: string>")


def _cbor_texts(payloads: pa.Array) -> pa.Array:
    found = []
    for payload in payloads.to_pylist():
        try:
            found.append({"json": cbor_to_json(payload or b""), "why": None})
        except ValueError as error:
            found.append({"json": None, "why": str(error)})
    return pa.array(found, pa.struct([("json", pa.string()), ("why", pa.string())]))


def _sparkplug(messages: DataFrame, aliases: Aliases) -> DataFrame:
    """A row for each metric; a message without any, and one that cannot be decoded, is one row."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in _SPARKPLUG_TYPES.items())

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for message in batch.to_pylist():
                if len(rows) >= _SPARKPLUG_ROWS:
                    yield pa.RecordBatch.from_pylist(rows, schema=_SPARKPLUG_ARROW)
                    rows = []
                rows += sparkplug_rows(message, aliases)
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=_SPARKPLUG_ARROW)

    return messages.select(*BASE, *ALSO_READ).mapInArrow(run, schema)


def sparkplug_rows(message: dict[str, Any], aliases: Aliases) -> list[dict[str, Any]]:
    """The metrics of a message. Only a row that failed keeps the payload: metrics would repeat it."""
    ts_us = int(message["ts"].timestamp()) * 1_000_000 + message["ts"].microsecond
    try:
        address = address_of(message["topic"])
        payload = decode_payload(message["payload"] or b"")
    except ValueError as error:
        return [{**message, WHY: str(error), FIRST: 1}]
    known = {
        "group_id": address.group,
        "message_type": address.message_type,
        "edge_node": address.node,
        "device": address.device,
        "seq": payload.seq,
    }
    rows = [
        {
            **message,
            **known,
            "payload": message["payload"] if metric.why else None,
            "metric": metric.name,
            "alias": metric.alias,
            "datatype": metric.datatype,
            "at": None if metric.at_ms is None else metric.at_ms * 1000,
            "value": metric.value,
            "text": metric.text,
            WHY: metric.why,
            FIRST: 0,
        }
        for metric in metrics_of(address, payload, ts_us, aliases)
    ]
    if not rows:
        # A message that says only that it is there, as a death may.
        at_us = None if payload.at_ms is None else payload.at_ms * 1000
        rows = [{**message, **known, "payload": None, "at": at_us, WHY: None}]
    rows[0][FIRST] = 1
    return rows


_ARROW: Final = {
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "double": pa.float64(),
}
_SPARKPLUG_TYPES: Final = {**BASE, **ALSO_READ, **SPARKPLUG, WHY: "string", FIRST: "int"}
_SPARKPLUG_ARROW: Final = pa.schema([(name, _ARROW[kind]) for name, kind in _SPARKPLUG_TYPES.items()])
