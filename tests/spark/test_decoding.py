"""Payloads as columns: what is there, what is missing, what is wrong; no payload ends anything."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from holdfast.pipeline.declared.declaration import ALSO_READ, BASE, DecodedColumn, DecodeSpec, PayloadFormat
from holdfast.pipeline.declared.decoder import decode_messages
from holdfast.pipeline.declared.expression_check import struct_type
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from holdfast.pipeline.declared.table_files import FIRST, WHY
from tests.unit.pipeline.declared.sparkplug_payloads import metric, payload
from tests.unit.pipeline.declared.test_cbor import encoded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = (
    DecodedColumn("hall", level=2),
    DecodedColumn("number", "int", level=3),
    DecodedColumn("celsius", "double", "$.celsius", required=True),
    DecodedColumn("volt", "double", "$.battery['volt']"),
    DecodedColumn("at", "timestamp", "$.at"),
    DecodedColumn("ms", "timestamp_ms", "$.ms"),
)


def rows(
    spark: SparkSession, decode: DecodeSpec, *messages: tuple[str, bytes | None], aliases: Any = None
) -> list[Row]:
    types = {**BASE, **ALSO_READ}
    given = [
        (NOON + timedelta(seconds=number), topic, "device", 0, number, 1, False, None, content)
        for number, (topic, content) in enumerate(messages)
    ]
    table = spark.createDataFrame(given, struct_type(types))
    found = decode_messages(table, decode, aliases).drop(
        "payload", "content_type", "qos", "retain", "client_id", "shard"
    )
    return sorted(found.collect(), key=lambda row: row.serial)


def test_json_and_cbor_lead_to_the_same_columns(spark: SparkSession) -> None:
    whole = {"celsius": 21.5, "battery": {"volt": 3}, "at": "2026-03-01T00:00:10Z", "ms": 1_772_323_200_000}
    texts = [
        b'{"celsius": 21.5, "battery": {"volt": 3}, "at": "2026-03-01T00:00:10Z", "ms": 1772323200000}',
        b'{"celsius": "warm"}',
        b'{"celsius": null}',
        b'{"celsius": 1, "ms": 9223372036854775807}',
        b"[1, 2",
        b"\xff\xfe",
        b"",
        None,
    ]
    json_rows = rows(
        spark, DecodeSpec(PayloadFormat.JSON, COLUMNS), *(("plant/a/7", text) for text in texts), ("plant", b"{}")
    )
    assert [row[WHY] for row in json_rows] == [
        None,
        'column celsius: "warm" is no double',
        "column celsius: $.celsius is missing",
        "column ms: 9223372036854775807 is no timestamp_ms",
        "not JSON",
        "not UTF-8",
        "not JSON",
        "not UTF-8",
        "column celsius: $.celsius is missing",
    ]
    first = json_rows[0]
    assert (first.hall, first.number, first.celsius, first.volt, first[FIRST]) == ("a", 7, 21.5, 3.0, 1)
    assert (first["at"], first.ms) == (datetime(2026, 3, 1, 0, 0, 10), datetime(2026, 3, 1))
    assert (json_rows[8].hall, json_rows[8].number) == (None, None)

    messages = (("plant/a/7", encoded(whole)), ("plant/a/x", encoded({"celsius": 1})), ("plant/a/7", b"\x9f"))
    found = rows(spark, DecodeSpec(PayloadFormat.CBOR, COLUMNS), *messages)
    assert found[0][1:] == first[1:]
    assert [row[WHY] for row in found] == [None, "column number: x is no int", "not CBOR: it ends too early"]


def test_numbers_and_texts(spark: SparkSession) -> None:
    texts = [b" 21.5 ", b"-1e3", b".5", b"1d", b"0x10", b"NaN", b"", b"\xff"]
    found = rows(spark, DecodeSpec(PayloadFormat.NUMBER), *(("t", text) for text in texts))
    assert [row.value for row in found] == [21.5, -1000.0, 0.5, None, None, None, None, None]
    assert [row[WHY] for row in found] == [None] * 3 + ["not a number"] * 5
    found = rows(spark, DecodeSpec(PayloadFormat.TEXT), ("t", "wärme".encode()), ("t", b"\xff"), ("t", b""))
    assert [(row.value, row[WHY]) for row in found] == [("wärme", None), (None, "not UTF-8"), ("", None)]


def test_metrics_of_sparkplug_are_rows(spark: SparkSession) -> None:
    birth = payload(metric(1, "Int16", name="warm", alias=7), metric("on", "String", name="state"), seq=0)
    data = payload(metric(-3, "Int16", alias=7, typed=False), metric(2.5, alias=8), seq=1)
    messages = (
        ("spBv1.0/plant/NBIRTH/edge", birth),
        ("spBv1.0/plant/NDATA/edge", data),
        ("spBv1.0/plant/NDATA/edge", b"\xff"),
        ("spBv1.0/STATE/host", b"{}"),
        ("spBv1.0/plant/NDEATH/edge", payload(seq=2)),
    )
    aliases = Aliases()
    aliases.learn([("spBv1.0/plant/NBIRTH/edge", int(NOON.timestamp()) * 1_000_000, birth)])
    found = rows(spark, DecodeSpec(PayloadFormat.SPARKPLUG_B), *messages, aliases=aliases)
    assert [(row.serial, row.metric, row.value, row.text, row.seq, row[FIRST]) for row in found] == [
        (0, "warm", 1.0, None, 0, 1),
        (0, "state", None, "on", 0, 0),
        (1, "warm", -3.0, None, 1, 1),
        (1, None, None, None, 1, 0),
        (2, None, None, None, None, 1),
        (3, None, None, None, None, 1),
        (4, None, None, None, 2, 1),
    ]
    assert [row[WHY] for row in found][3:6] == [
        "alias 8 of plant/edge is not known: the log has no birth before it",
        "not Sparkplug B: it ends too early",
        "the topic is not spBv1.0/GROUP/TYPE/NODE, with a DEVICE or without",
    ]
    assert {row.edge_node for row in found[:4]} == {"edge"}
    assert found[0]["at"] == datetime(2023, 11, 14, 22, 13, 20)
