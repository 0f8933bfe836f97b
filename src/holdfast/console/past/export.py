"""Messages of a range as a file: pages of the history process, written as JSON lines or CSV.

    jsonl   a message of `history/messages` in each line, payloads whole
    csv     at_us, topic, payload, payload_base64, qos, retain, client, zone, place      with a header line

A payload that is not text is in `payload_base64`, and `payload` is empty then.
"""

import csv
import io
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from holdfast.console.past.history_link import HistoryLink, Parameters

EXPORT_TYPES: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_PAGE: Final = 1000
_COLUMNS: Final = ("at_us", "topic", "payload", "payload_base64", "qos", "retain", "client", "zone", "place")
#: A spreadsheet takes a cell that begins so for a formula. A quote in front keeps it text.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

_json: Final = msgspec.json.Encoder()

Page = list[dict[str, Any]]


async def message_pages(history: HistoryLink, parameters: Parameters) -> AsyncIterator[Page]:
    """All messages of a question, the oldest first. At least one page. ProblemError as the history process says."""
    asked = [*parameters, ("direction", "newer"), ("limit", str(_PAGE)), ("full", "1")]
    cursor: str | None = ""
    while cursor is not None:
        answer = await history.get("/messages", [*asked, *([("cursor", cursor)] if cursor else [])])
        yield answer["messages"]
        cursor = answer.get("next_cursor")


async def render_export(first: Page, rest: AsyncIterator[Page], form: str) -> AsyncIterator[bytes]:
    """The bytes of the file, a page at a time."""
    write = _csv if form == "csv" else _lines
    yield (",".join(_COLUMNS).encode() + b"\r\n" if form == "csv" else b"") + write(first)
    async for page in rest:
        yield write(page)


def _lines(page: Page) -> bytes:
    return b"".join(_json.encode(message) + b"\n" for message in page)


def _csv(page: Page) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for message in page:
        payload = message.get("payload") or {}
        row = {**message, "topic": _text(message.get("topic")), "payload": _text(payload)}
        row["payload_base64"] = payload.get("base64", "") if isinstance(payload, dict) else ""
        row["retain"] = int(bool(message.get("retain")))
        writer.writerow([_cell(row.get(column)) for column in _COLUMNS])
    return text.getvalue().encode()


def _text(value: Any) -> Any:
    """Text of `{"text": …}`; a plain text as it is; empty for other bytes."""
    return value.get("text", "") if isinstance(value, dict) else value


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
