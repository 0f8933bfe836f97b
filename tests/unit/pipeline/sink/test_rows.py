"""Rows become messages by their columns and the options."""

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.types import IntegerType, MapType, StringType, StructField, StructType

from holdfast.client.message import OutgoingMessage
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.model.protocol import PUBLISH
from holdfast.pipeline.sink.rows import RowEncoder, check_write_schema
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import Properties, decode_properties

OPTIONS = WriteOptions("host", 1)


def messages(options: WriteOptions = OPTIONS, **columns: Any) -> list[OutgoingMessage]:
    return list(RowEncoder(options).messages(pa.RecordBatch.from_pydict(columns)))


def properties_of(message: OutgoingMessage) -> Properties:
    data = encode_varint(len(message.properties)) + message.properties
    return decode_properties(ByteReader(data, 0, len(data)), PUBLISH, 1)


def test_a_row_has_what_its_columns_say_and_the_options_where_they_say_nothing() -> None:
    pairs = pa.array([[("a", "1"), ("a", "2"), ("publish-number", "7")], None], pa.map_(pa.string(), pa.string()))
    first, second = messages(
        WriteOptions("host", 1, qos=2, retain=True, content_type="text/plain", message_expiry_s=60),
        topic=["a/b", "c"],
        payload=["é", None],
        qos=pa.array([0, None], pa.int8()),
        retain=pa.array([False, None]),
        content_type=["json", None],
        response_topic=["r", None],
        correlation_data=pa.array([b"c", None], pa.binary()),
        user_properties=pairs,
        message_expiry_s=pa.array([5, None], pa.int64()),
    )
    assert (first.first, first.topic, first.payload) == (0x30, b"a/b", "é".encode())
    assert properties_of(first) == Properties(
        content_type="json",
        response_topic="r",
        correlation_data=b"c",
        user_properties=(("a", "1"), ("a", "2")),
        message_expiry_interval=5,
    )
    assert (second.first, second.payload) == (0x35, b"")
    assert properties_of(second) == Properties(content_type="text/plain", message_expiry_interval=60)


def test_plain_rows_have_no_properties() -> None:
    assert messages(topic=["a"], payload=[b"x"]) == [OutgoingMessage(0x32, b"a", b"", b"x")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"topic": [None]}, "a row has no topic"),
        ({"topic": [""]}, "the topic name is empty"),
        ({"topic": ["a/+"]}, "the row with topic 'a/\\+' is no message: .*wildcard"),
        ({"topic": ["a"], "qos": [3]}, "topic 'a' is no message: its QoS is 3; 0 to 2"),
        ({"topic": ["a"], "message_expiry_s": [-1]}, "topic 'a' is no message: message_expiry_interval cannot be -1"),
        ({"topic": ["a"], "response_topic": ["b/#"]}, "topic 'a' is no message: response topic"),
    ],
)
def test_a_row_that_is_no_message_is_named_by_its_topic(columns: dict[str, Any], words: str) -> None:
    columns["topic"] = pa.array(columns["topic"], pa.string())
    with pytest.raises(PermanentError, match=words):
        messages(payload=[b""], **columns)


def schema(**kinds: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_columns_that_are_missing_unknown_or_of_another_type_are_named() -> None:
    text = StringType()
    check_write_schema(schema(topic=text, payload=text, ts=text), ["ts"])
    for wrong, words in (
        (schema(topic=text), "no column 'payload'"),
        (schema(payload=text), "no column 'topic'"),
        (schema(topic=text, payload=text, Qos=text), "column 'Qos' is no part of a message"),
        (schema(topic=text, payload=IntegerType()), "column 'payload' has to be binary or string, not int"),
        (schema(topic=text, payload=text, qos=text), "column 'qos' has to be int, not string"),
        (
            schema(topic=text, payload=text, user_properties=MapType(text, IntegerType())),
            "has to be map<string,string>, not map<string,int>",
        ),
    ):
        with pytest.raises(SettingsError, match=words):
            check_write_schema(wrong)
