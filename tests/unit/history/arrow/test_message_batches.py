"""Stored messages as Arrow: the same as decoding one after the other, and the same damage is noticed."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.arrow.buffer_slices import PADDING, collect
from holdfast.history.arrow.message_batches import COLUMNS, SCHEMA, record_batch, schema_of
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import PUBLISH, SERVER
from holdfast.records.messages import StoredMessage, decode_message, encode_message
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import decode_properties
from tests.unit.records.stored_messages import stored_messages, text_property

T = 1_700_000_000_000_000


def encoded(stored: StoredMessage) -> bytes:
    return encode_message(stored.message, stored.position_us, min(stored.serial, 2**63 - 1))


def expected_row(value: bytes, shard: int) -> dict[str, Any]:
    """A row, by decoding one message in the ordinary way."""
    stored = decode_message(value)
    message = stored.message
    raw = message.properties
    listed = encode_varint(len(raw)) + raw
    found = decode_properties(ByteReader(listed, 0, len(listed)), PUBLISH, SERVER)
    return {
        "ts": stored.position_us,
        "shard": shard,
        "offset": stored.position_us,
        "topic": message.topic.decode(),
        "client_id": message.publisher,
        "qos": message.qos,
        "retain": message.retain,
        "payload": message.payload,
        "content_type": found.content_type,
        "response_topic": found.response_topic,
        "correlation_data": found.correlation_data,
        "user_properties": list(found.user_properties),
        "expires_at": message.expires_us or None,
        "serial": stored.serial,
        "received_at": message.received_us,
        "properties": message.properties,
    }


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """A batch as rows; times as the numbers that they are, since Python's end in the year 9999."""
    columns = {}
    for name in batch.schema.names:
        column = batch.column(name)
        columns[name] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@given(st.lists(stored_messages(), max_size=12), st.integers(0, 65_535))
def test_a_batch_equals_the_messages_decoded_one_by_one(messages: list[StoredMessage], shard: int) -> None:
    values = [encoded(stored) for stored in messages]

    batch = record_batch(values, shard)

    batch.validate(full=True)
    assert batch.schema == SCHEMA
    assert rows_of(batch) == [expected_row(value, shard) for value in values]


@pytest.mark.parametrize("columns", [["payload"], ["serial", "topic"], ["user_properties"], []])
def test_only_the_columns_asked_for_are_made_in_their_order(columns: list[str]) -> None:
    values = [encode_message(Message(b"t", b"x", 1, ClientId("c"), T), T, 1)]

    batch = record_batch(values, 0, columns)

    assert batch.schema == schema_of(columns)
    assert batch.schema.names == columns


def test_times_are_times() -> None:
    values = [encode_message(Message(b"t", b"x", 1, ClientId("c"), T - 5, expires_us=T - 5 + 1_000_000), T, 1)]

    row = record_batch(values, 0, ["ts", "received_at", "expires_at"]).to_pylist()[0]

    assert row == {
        "ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "received_at": datetime(2023, 11, 14, 22, 13, 19, 999_995, tzinfo=UTC),
        "expires_at": datetime(2023, 11, 14, 22, 13, 20, 999_995, tzinfo=UTC),
    }


def test_no_messages_are_an_empty_batch_with_every_column() -> None:
    batch = record_batch([], 0)

    assert (batch.num_rows, batch.schema) == (0, SCHEMA)


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(MisuseError, match="no column 'colour'; there are ts, "):
        record_batch([], 0, ["topic", "colour"])


def made(count: int, *, properties: bytes = b"") -> list[bytes]:
    return [
        encode_message(Message(b"a/b", b"payload", 1, ClientId("dev"), T, properties=properties), T + i, i + 1)
        for i in range(count)
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value[:41],
        lambda value: value[:-1],
        lambda value: value + b"x",
        lambda value: b"\x02" + value[1:],
        lambda value: value[:1] + b"\x03" + value[2:],
        lambda value: value[:1] + b"\x10" + value[2:],
        lambda value: value[:6] + b"\xff\xff\xff\xff" + value[10:],
    ],
)
@pytest.mark.parametrize("columns", [COLUMNS, ("serial",)])
def test_what_decoding_refuses_is_refused_by_its_words_with_the_row(damage: Any, columns: tuple[str, ...]) -> None:
    values = made(5)
    values[3] = damage(values[3])
    with pytest.raises(PermanentError) as single:
        decode_message(values[3])

    with pytest.raises(PermanentError) as caught:
        record_batch(values, 0, columns)

    assert str(caught.value) == f"row 3: {single.value}"


@pytest.mark.parametrize(("column", "at"), [("topic", 43), ("client_id", 46)])
def test_text_that_is_not_utf8_is_refused(column: str, at: int) -> None:
    values = made(5)
    values[3] = values[3][:at] + b"\xff" + values[3][at + 1 :]

    with pytest.raises(PermanentError, match=f"{column} of a message record is not UTF-8"):
        record_batch(values, 0, [column])


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(b"\x26\x00\x01u\x00", id="ends within a length"),
        pytest.param(b"\x26\x00\x01u\x00\x02v", id="ends within a value"),
        pytest.param(b"\x26\x00\x05u", id="ends within a name"),
        pytest.param(b"\x26\xff\xff", id="a name that runs out of everything"),
        pytest.param(b"\x03\x00", id="ends within the length of a text"),
        pytest.param(b"\x02\x00\x00", id="ends within a number"),
        pytest.param(b"\x01", id="nothing behind the id"),
        pytest.param(b"\x23\x00\x01", id="a topic alias, which is never stored"),
        pytest.param(b"\x00", id="no such property"),
    ],
)
def test_properties_that_are_none_are_refused_with_the_row(properties: bytes) -> None:
    values = made(2, properties=b"\x26\x00\x01u\x00\x01v") + made(1, properties=b"\x01\x00" + properties)

    with pytest.raises(PermanentError, match="row 2: the properties"):
        record_batch(values, 0, ["user_properties"])
    assert record_batch(values, 0, ["properties"]).num_rows == 3


def test_a_serial_that_no_shard_can_reach_is_refused_with_the_row() -> None:
    values = [*made(2), encode_message(Message(b"t", b"x", 1, ClientId("c"), T), T, 2**63)]

    with pytest.raises(PermanentError, match="row 2: no shard has had 9223372036854775808 messages"):
        record_batch(values, 0, ["serial"])


def test_names_of_user_properties_may_repeat_and_keep_their_order() -> None:
    pairs = [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")]
    values = made(1) + made(1, properties=b"".join(text_property(0x26, *pair) for pair in pairs)) + made(1)

    assert record_batch(values, 0, ["user_properties"]).column(0).to_pylist() == [
        [],
        [("b", "1"), ("a", "2"), ("b", "3")],
        [],
    ]


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from([0, 16, 60]))
def test_slices_are_collected_in_each_of_the_ways(pieces: list[bytes], longer: int) -> None:
    """Equal, short and long slices are collected differently, and alike in what comes out."""
    pieces = [piece + b"x" * longer for piece in pieces]
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    starts = np.cumsum(lengths + 3) - lengths
    data = np.frombuffer(b"".join(b"---" + piece for piece in pieces) + PADDING, np.uint8)

    column = collect(data, starts, lengths, pa.binary())

    column.validate(full=True)
    assert column.to_pylist() == pieces


def test_the_schema_has_the_columns_that_readers_without_arrow_know() -> None:
    assert tuple(SCHEMA.names) == COLUMNS
