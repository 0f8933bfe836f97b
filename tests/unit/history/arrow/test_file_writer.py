"""Files of messages: what was stored is what a reader of the file gets, byte by byte."""

import base64
import csv
import io
import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from holdfast.history.arrow import file_writer
from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.arrow.file_writer import default_columns, open_writer
from holdfast.history.arrow.message_batches import COLUMNS, record_batch
from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import encode_message
from tests.unit.records.stored_messages import text_property

T = 1_700_000_000_000_000
AWKWARD = [
    b"21.5",
    b"",
    'gr\u00fc\u00dfe, "quoted"\r\nand a line'.encode(),
    b"\x00\xff\xfe",
    b"MjEuNQ==",
    b"=1+1",
    b"\x00",
]


def batch_of(payloads: list[bytes], columns: tuple[str, ...] = COLUMNS, properties: bytes = b"") -> Any:
    values = [
        encode_message(Message(b"plant/a", payload, 1, ClientId("p"), T + 5, properties=properties), T + number, number)
        for number, payload in enumerate(payloads)
    ]
    return record_batch(values, 3, columns)


def written(file_format: FileFormat, columns: tuple[str, ...], *batches: Any) -> bytes:
    sink = io.BytesIO()
    writer = open_writer(file_format, sink, columns)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def rows_of(file_format: FileFormat, content: bytes) -> list[dict[str, Any]]:
    if file_format is FileFormat.CSV:
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    return [json.loads(line) for line in content.splitlines()]


def decoded(row: dict[str, Any]) -> bytes:
    """A payload, as the documentation says that it is read."""
    text: str = row["payload"]
    return base64.b64decode(text) if row["payload_encoding"] == "base64" else text.encode()


@pytest.mark.parametrize("file_format", [FileFormat.CSV, FileFormat.JSONL])
@pytest.mark.parametrize("payloads", [AWKWARD, AWKWARD[:3]], ids=["some binary", "all text"])
def test_payloads_of_text_files_come_back_byte_by_byte(file_format: FileFormat, payloads: list[bytes]) -> None:
    columns = ("topic", "payload")
    content = written(file_format, columns, batch_of(payloads, columns), batch_of(payloads, columns))
    rows = rows_of(file_format, content)
    assert [decoded(row) for row in rows] == payloads * 2
    assert list(rows[0]) == ["topic", "payload", "payload_encoding"]
    assert {row["payload_encoding"] for row in rows[:3]} == {"utf-8"}


@pytest.mark.parametrize("file_format", [FileFormat.CSV, FileFormat.JSONL])
def test_the_other_columns_of_text_files_are_plain(file_format: FileFormat) -> None:
    properties = text_property(0x26, b"a", b"1") + text_property(0x26, b"a", b"2") + text_property(0x09, b"\xff")
    columns = default_columns(file_format)
    row = rows_of(file_format, written(file_format, columns, batch_of([b"x"], columns, properties)))[0]
    assert row["ts"] == "2023-11-14T22:13:20.000000Z"
    assert row["received_at"] == "2023-11-14T22:13:20.000005Z"
    assert row["correlation_data"] == "/w=="
    pairs = row["user_properties"]
    assert (json.loads(pairs) if file_format is FileFormat.CSV else pairs) == [["a", "1"], ["a", "2"]]
    assert (str(row["qos"]), str(row["retain"]).lower(), str(row["shard"])) == ("1", "false", "3")
    assert not row["expires_at"]
    assert "properties" not in row


def test_bytes_of_properties_are_base64_for_who_asks_for_them() -> None:
    properties = text_property(0x03, b"text")
    content = written(FileFormat.JSONL, ("properties",), batch_of([b"x"], ("properties",), properties))
    assert base64.b64decode(json.loads(content)["properties"]) == properties


def test_parquet_has_the_columns_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "_GROUP_ROWS", 10)
    batches = [batch_of(AWKWARD), batch_of(AWKWARD), batch_of(AWKWARD)]
    file = pq.ParquetFile(io.BytesIO(written(FileFormat.PARQUET, COLUMNS, *batches)))
    assert file.read().equals(pa.Table.from_batches(batches))
    assert [file.metadata.row_group(group).num_rows for group in range(2)] == [14, 7]


def test_a_large_payload_ends_a_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "_GROUP_BYTES", 1000)
    batches = [batch_of([bytes(2000)]), batch_of([b"x"])]
    file = pq.ParquetFile(io.BytesIO(written(FileFormat.PARQUET, COLUMNS, *batches)))
    assert file.metadata.num_row_groups == 2


def test_without_messages_a_file_is_whole_nevertheless() -> None:
    columns = ("topic", "payload")
    assert pq.read_table(io.BytesIO(written(FileFormat.PARQUET, columns))).num_rows == 0
    assert written(FileFormat.CSV, columns) == b'"topic","payload","payload_encoding"\n'
    assert written(FileFormat.JSONL, columns) == b""


def test_a_column_that_is_not_there_is_refused_before_anything_is_written() -> None:
    sink = io.BytesIO()
    with pytest.raises(MisuseError, match="there is no column 'colour'"):
        open_writer(FileFormat.CSV, sink, ("colour",))
    assert sink.getvalue() == b""
