"""Rows as messages, their order, their numbers, and the ledger."""

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.types import IntegerType, MapType, StringType, StructField, StructType

from holdfast.durable.numbering import MAX_NUMBER
from holdfast.exchange.inbound import publish_number
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.model.protocol import PUBLISH
from holdfast.pipeline.publisher import Message
from holdfast.pipeline.stream_writer import check_number, numbered
from holdfast.pipeline.write_ledger import Ledger, digest
from holdfast.pipeline.write_options import WriteOptions
from holdfast.pipeline.write_order import PACKED, in_order, pack, unpack
from holdfast.pipeline.write_rows import Rows, check_write_schema
from holdfast.wire.primitives import Reader, encode_varint
from holdfast.wire.properties import Properties, decode_properties

OPTIONS = WriteOptions("host", 1)


def messages(options: WriteOptions = OPTIONS, **columns: Any) -> list[Message]:
    return list(Rows(options).messages(pa.RecordBatch.from_pydict(columns)))


def properties_of(message: Message) -> Properties:
    data = encode_varint(len(message.properties)) + message.properties
    return decode_properties(Reader(data, 0, len(data)), PUBLISH, 1)


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
    assert messages(topic=["a"], payload=[b"x"]) == [Message(0x32, b"a", b"", b"x")]


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


def test_the_order_does_not_depend_on_how_rows_come() -> None:
    made = [Message(0x32, b"t%d" % (number % 3), b"p", b"%d" % number) for number in range(9)]
    keys = [number // 4 if number != 5 else None for number in range(9)]

    def ordered(places: list[int]) -> list[Message]:
        packed = pa.array([pack(made[place]) for place in places], PACKED)
        return [unpack(value.as_py()) for value in in_order(packed, [pa.array([keys[place] for place in places])])]

    right = ordered(list(range(9)))
    assert ordered([4, 8, 0, 2, 6, 1, 3, 7, 5]) == right
    assert [message.payload for message in right[:1] + right[-1:]] == [b"0", b"5"]
    assert sorted(right) == sorted(made)


def test_numbers_increase_from_row_to_row_and_from_batch_to_batch() -> None:
    found = [
        publish_number(numbered(Message(0x32, b"a", b"\x02\0\0\0\1", b""), batch << 31 | row).properties)
        for batch, row in ((0, 1), (0, 2), (1, 1), (2**31, 1))
    ]
    assert found == sorted(set(found))
    assert found[0] == 1
    check_number(2**32 - 1, 2**31 - 1)
    for batch, rows in ((0, 2**31), (2**32, 1)):
        with pytest.raises(PermanentError, match="there is no number"):
            check_number(batch, rows)
    assert MAX_NUMBER == (2**32 - 1) << 31 | 2**31 - 1


def test_a_ledger_takes_the_same_rows_again_and_no_others(tmp_path: Path) -> None:
    rows = pa.array([b"a", b"bc"], PACKED)
    Ledger(str(tmp_path), "q").enter(3, 0, rows)
    Ledger(str(tmp_path), "q").enter(3, 0, rows)
    Ledger(str(tmp_path), "q").enter(4, 0, pa.array([b"other"], PACKED))
    Ledger(str(tmp_path), "other").enter(3, 0, pa.array([], PACKED))
    for others in ([b"bc", b"a"], [b"ab", b"c"], [b"a"], []):
        with pytest.raises(PermanentError, match=f"partition 0 of batch 3 had 2 rows .*now has {len(others)}"):
            Ledger(str(tmp_path), "q").enter(3, 0, pa.array(others, PACKED))
    assert digest(rows) != digest(pa.array([b"ab", b"c"], PACKED))


def test_a_ledger_notices_partitions_that_are_gone_and_forgets_old_batches(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path), "q")
    for batch in range(4):
        for partition in range(2):
            ledger.enter(batch, partition, pa.array([b"a"], PACKED))
        ledger.leave(batch, 2)
    assert sorted(folder.name for folder in (tmp_path / "q").iterdir()) == ["2", "3"]
    with pytest.raises(PermanentError, match="batch 3 was begun with 2 partitions or more, and ended with 1"):
        ledger.leave(3, 1)
