"""`/retained`: the retained message of each topic, as of now, in the order of topics."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from holdfast.history.past.cursors import decode_cursor, encode_cursor
from holdfast.history.past.message_json import message_fields
from holdfast.history.past.messages import WAIT_S
from holdfast.history.past.questions import Question, wrong_value
from holdfast.history.past.time_scan import SECONDS, ClientGoneError
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import View
from holdfast.history.tables.retained_view import passed_rows, retained_range
from holdfast.model.errors import MisuseError
from holdfast.records.retained import COUNT_KEY, RetainedRecord, decode_retained, retained_key, retained_topic
from holdfast.storage.rocks.engine.column_families import RETAINED

_MOST: Final = 1000
_DEFAULT: Final = 100
#: Keys between two looks at the clock, and whether the client has gone.
_STEPS: Final = 256
_COUNT_BYTES: Final = 8


def retained(
    pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]
) -> Iterator[dict[str, object]]:
    question = Question(params, ("filter", "limit", "cursor"))
    topic_filter = question.filter()
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    lo, hi = retained_range(topic_filter.levels)
    if question.has("cursor"):
        lo = max(lo, _behind(decode_cursor(question.text("cursor"), str)))
    deadline_s = time.monotonic() + SECONDS
    shown: list[dict[str, Any]] = []
    next_cursor: str | None = None
    with pool.reading(WAIT_S) as reader:
        for count, (key, value) in enumerate(passed_rows(reader, lo, hi, topic_filter.levels), 1):
            record = decode_retained(value) if value else None
            if record is not None and not record.removed() and not record.stored.message.expired(question.now_us):
                shown.append(_fields(record, reader.view()))
            is_late = False
            if count % _STEPS == 0:
                if gone():
                    raise ClientGoneError
                is_late = time.monotonic() >= deadline_s
            if len(shown) == limit or is_late:
                next_cursor = encode_cursor(retained_topic(key).decode())
                break
        is_all = question.text("filter", "#") == "#"
        yield {
            "retained": shown,
            "next_cursor": next_cursor,
            "count": _count(reader) if is_all else None,
            "as_of_us": question.now_us,
        }


def _behind(topic: str) -> bytes:
    try:
        return retained_key(topic.encode()) + b"\0"
    except MisuseError as error:
        raise wrong_value("cursor", "it is of another question; take the one of the last answer") from error


def _fields(record: RetainedRecord, view: View) -> dict[str, Any]:
    stored = record.stored
    is_stored = stored.position_us > 0
    place = f"{record.shard}/{stored.position_us}/{stored.serial}" if is_stored else None
    zone = next((name for name, one in view.zones.items() if record.shard in one.shards), None) if is_stored else None
    fields = message_fields(stored.message, stored.position_us or record.stored_us, place, zone)
    return {**fields, "stored_us": record.stored_us}


def _count(reader: HistoryReader) -> int | None:
    """How many topics have one, `$`-topics and expired ones too; None in a cluster, where no row tells."""
    if reader.is_of_cluster:
        return None
    for _key, value in reader.rows(RETAINED, COUNT_KEY, COUNT_KEY + b"\0"):
        return int.from_bytes(value[:_COUNT_BYTES], "little")
    return 0
