"""`/export`: the messages of a filter as a file, the oldest first, in blocks of bytes that are passed on as they are.

    jsonl     a message of `/messages` in each line, payloads whole
    csv       at_us, topic, payload, payload_base64, qos, retain, client, zone, place     with a header line
    parquet   the columns of `holdfast export`; needs Arrow

1. A file shows one state of the log, that of its beginning, and its messages are in the order of places.
2. It is made a block at a time, so it needs the memory of a block, and of a row group for Parquet.
3. In CSV a payload that is not text is in `payload_base64`, and `payload` is empty then.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from time import monotonic
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.history.past.message_json import as_text, base64_text, found_fields
from holdfast.history.past.messages import message_check
from holdfast.history.past.questions import Question, QuestionError, above
from holdfast.history.past.time_scan import STEPS, ClientGoneError, FoundMessage, newer_steps
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.records.messages import decode_message

JSONL: Final = "jsonl"
CSV: Final = "csv"
PARQUET: Final = "parquet"
_FORMATS: Final = (JSONL, CSV, PARQUET)
_PARAMETERS: Final = ("filter", "zone", "from", "to", "client", "format")
#: Bytes of messages in a block, and the longest that messages wait for it to be full, in seconds.
_BLOCK_BYTES: Final = 256 * 1024
_BLOCK_S: Final = 1.0
_COLUMNS: Final = ("at_us", "topic", "payload", "payload_base64", "qos", "retain", "client", "zone", "place")
#: The column of shards in a record batch.
_SHARD: Final = "shard"
#: A spreadsheet takes a cell that begins so for a formula. A quote in front keeps it text.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class ExportFile(NamedTuple):
    """A file that is made while it is read."""

    content_type: str
    blocks: Iterator[bytes]


class FileWriter(Protocol):
    """Makes the bytes of one file."""

    content_type: str

    def begin(self) -> bytes: ...

    def write(self, found: Sequence[FoundMessage]) -> bytes: ...

    def end(self) -> bytes: ...


def export(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> ExportFile:
    """QuestionError for a wrong parameter, before anything is read."""
    question = Question(params, _PARAMETERS)
    levels = question.filter().levels
    from_us, to_us = question.range_us()
    check = message_check(question) if question.has("client") else None
    writer = _open_writer(question.choice("format", JSONL, _FORMATS))

    def read(reader: HistoryReader) -> Iterator[bytes]:
        steps = newer_steps(reader, above(from_us - 1), to_us, levels, question.zone(reader.view().zones))
        held = writer.begin()
        for page in _pages(steps, check, gone):
            held += writer.write(page)
            # A row group of Parquet takes many pages.
            if held:
                yield held
            held = b""
        if held := held + writer.end():
            yield held

    return ExportFile(writer.content_type, pool.read(read, gone))


def _pages(
    steps: Iterator[FoundMessage], check: Callable[[bytes], bool] | None, gone: Callable[[], bool]
) -> Iterator[Sequence[FoundMessage]]:
    """The messages of blocks. The clock and the client are looked at now and then: a message costs little else."""
    page: list[FoundMessage] = []
    size_bytes = 0
    due_s = monotonic() + _BLOCK_S
    for count, found in enumerate(steps):
        is_due = False
        if count % STEPS == 0:
            if gone():
                raise ClientGoneError
            is_due = monotonic() >= due_s
        value = found.value
        if value and (check is None or check(value)):
            page.append(found)
            size_bytes += len(value)
        if size_bytes >= _BLOCK_BYTES or is_due:
            if page:
                yield page
            page, size_bytes, due_s = [], 0, monotonic() + _BLOCK_S
    if page:
        yield page


def _open_writer(name: str) -> FileWriter:
    """QuestionError if the format needs what is not installed."""
    if name == JSONL:
        return _JsonLines()
    if name == CSV:
        return _Csv()
    if not all(find_spec(module) for module in ("numpy", "pyarrow")):
        detail = (
            "format: parquet needs Arrow, which is not installed where the broker runs; install holdfast[history] "
            "there, or take csv or jsonl"
        )
        raise QuestionError(HTTPStatus.NOT_IMPLEMENTED, "not_installed", detail, "format")
    return _Parquet()


class _JsonLines:
    content_type = "application/x-ndjson"

    def __init__(self) -> None:
        self._encoder: Final = msgspec.json.Encoder()

    def begin(self) -> bytes:
        return b""

    def write(self, found: Sequence[FoundMessage]) -> bytes:
        return self._encoder.encode_lines([found_fields(one, len(one.value)) for one in found])

    def end(self) -> bytes:
        return b""


class _Csv:
    content_type = "text/csv; charset=utf-8"

    def begin(self) -> bytes:
        return ",".join(_COLUMNS).encode() + b"\r\n"

    def write(self, found: Sequence[FoundMessage]) -> bytes:
        return "".join(map(_row, found)).encode()

    def end(self) -> bytes:
        return b""


def _row(found: FoundMessage) -> str:
    """The line of a message, its cells in the order of `_COLUMNS`. What `csv.writer` would make, which takes
    twice as long.
    """
    stored = decode_message(found.value)
    message = stored.message
    at_us = found.position_us
    payload, encoded = as_text(message.payload), ""
    if payload is None:
        payload, encoded = "", _cell(base64_text(message.payload))
    return (
        f"{at_us},{_cell(as_text(message.topic) or '')},{_cell(payload)},{encoded},{message.qos},"
        f"{1 if message.retain else 0},{_cell(message.publisher)},{_cell(found.zone)},"
        f"{found.shard}/{at_us}/{stored.serial}\r\n"
    )


def _cell(text: str) -> str:
    """A text that no spreadsheet calculates with, in quotes if it needs them."""
    if text.startswith(_FORMULA) and not _is_number(text):
        text = f"'{text}"
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Parquet:
    content_type = "application/vnd.apache.parquet"

    def __init__(self) -> None:
        # Imported here: the other formats are written without Arrow.
        from holdfast.history.arrow.file_columns import FileFormat
        from holdfast.history.arrow.file_writer import default_columns, open_writer

        self._made: Final = io.BytesIO()
        self._columns: Final = default_columns(FileFormat.PARQUET)
        self._writer: Final = open_writer(FileFormat.PARQUET, self._made, self._columns)

    def begin(self) -> bytes:
        return self._take()

    def write(self, found: Sequence[FoundMessage]) -> bytes:
        import pyarrow as pa  # type: ignore[import-untyped]

        from holdfast.history.arrow.message_batches import record_batch

        batch = record_batch([one.value for one in found], 0, self._columns)
        # A batch is of one shard, and a page is of all.
        place, field = self._columns.index(_SHARD), batch.schema.field(_SHARD)
        shards = pa.array([one.shard for one in found], field.type)
        self._writer.write(batch.set_column(place, field, shards))
        return self._take()

    def end(self) -> bytes:
        self._writer.close()
        return self._take()

    def _take(self) -> bytes:
        data = self._made.getvalue()
        self._made.seek(0)
        self._made.truncate()
        return data
