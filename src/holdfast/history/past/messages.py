"""`/messages`: the messages of a filter from a moment on, backwards or forwards, with a search in their payloads."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from holdfast.durable.log import NO_END
from holdfast.history.past.counts import count_messages, lost_at_most
from holdfast.history.past.cursors import TimeCursor, borders_of, decode_cursor, encode_cursor
from holdfast.history.past.json_paths import PayloadCheck, payload_check
from holdfast.history.past.message_json import FULL_BYTES, SHOWN_BYTES, found_fields
from holdfast.history.past.questions import Question, above, below
from holdfast.history.past.time_scan import END, LIMIT, ScanLimits, TimeScan, newer, older
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.records.messages import HEADER_BYTES, stored_payload, stored_publisher

OLDER: Final = "older"
NEWER: Final = "newer"
_PARAMETERS: Final = (
    "filter",
    "zone",
    "at",
    "direction",
    "limit",
    "cursor",
    "client",
    "payload",
    "from",
    "to",
    "full",
)
_MOST: Final = 1000
_DEFAULT: Final = 100
#: Bytes of payloads in an answer that shows them in full; at least one message is shown.
_ANSWER_BYTES: Final = 32 << 20
#: Seconds that a question waits for a reader.
WAIT_S: Final = 5.0


def messages(
    pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]
) -> Iterator[dict[str, object]]:
    question = Question(params, _PARAMETERS)
    levels = question.filter().levels
    direction = question.choice("direction", OLDER, (OLDER, NEWER))
    from_us, to_us = question.range_us()
    is_older = direction == OLDER
    at_us = question.moment_us("at", NO_END if is_older else -1)
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    full = question.flag("full")
    check = message_check(question)
    cursor: TimeCursor | None = None
    if question.has("cursor"):
        cursor = decode_cursor(question.text("cursor"), TimeCursor)
    with pool.reading(WAIT_S) as reader:
        view = reader.view()
        zone = question.zone(view.zones)
        start = below(min(at_us, to_us - 1)) if is_older else above(max(at_us, from_us - 1))
        if cursor is not None:
            start = min(start, cursor.place) if is_older else max(start, cursor.place)
        lo_us, hi_us = (from_us, start[0]) if is_older else (max(0, start[0]), to_us)
        if cursor is not None:
            cursor.check(view, lo_us, hi_us)
        limits = ScanLimits(gone=gone)
        scan = (
            older(reader, start, from_us, levels, zone, limits)
            if is_older
            else newer(reader, start, to_us, levels, zone, limits)
        )
        shown = _shown(scan, check, limit, full=full)
        borders = cursor.borders if cursor is not None else borders_of(view)
        yield {
            "messages": shown,
            "next_cursor": None if scan.stopped == END else encode_cursor(TimeCursor(scan.place, borders)),
            "looked_through": scan.looked_at,
            "of": _total(reader, question, from_us, to_us, zone),
            "stopped": scan.stopped,
            "lost_at_most": lost_at_most(view, lo_us, hi_us, zone),
            "ahead": question.is_ahead,
            "as_of_us": question.now_us,
        }


def message_check(question: Question) -> Callable[[bytes], bool]:
    """Whether an encoded message is of the client, and has the payload, that are asked for."""
    client = question.text("client")
    wanted: PayloadCheck | None = payload_check(question.text("payload")) if question.text("payload") else None

    def check(value: bytes) -> bool:
        if client and stored_publisher(value) != client:
            return False
        return wanted is None or wanted(stored_payload(value))

    return check


def _shown(scan: TimeScan, check: Callable[[bytes], bool], limit: int, *, full: bool) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    size_bytes = 0
    for found in scan:
        if check(found.value):
            shown.append(found_fields(found, FULL_BYTES if full else SHOWN_BYTES))
            size_bytes += len(found.value) - HEADER_BYTES if full else 0
            if len(shown) == limit or size_bytes >= _ANSWER_BYTES:
                scan.stopped = LIMIT
                break
    return shown


def _total(reader: HistoryReader, question: Question, from_us: int, to_us: int, zone: str | None) -> int | None:
    """How many messages a search has to look through, where serials tell: of all topics. None for any other."""
    if question.text("filter", "#") != "#" or not (question.has("payload") or question.has("client")):
        return None
    return count_messages(reader, from_us, to_us, zone)
