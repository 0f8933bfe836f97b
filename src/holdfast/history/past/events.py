"""`/events`: what was dropped, refused or ended, and why, the newest first."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from zlib import crc32

from holdfast.durable.log import NO_END
from holdfast.exchange.drops import REASONS
from holdfast.history.past.cursors import decode_cursor, encode_cursor
from holdfast.history.past.questions import Question
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.records.events import Event, encode_event
from holdfast.storage.event_files import read_events
from holdfast.topics.filters import TopicFilter

_MOST: Final = 1000
_DEFAULT: Final = 100
_MOST_BUCKETS: Final = 600
#: When it happened, and a number that tells events of one microsecond apart.
_Order = tuple[int, int]


def events(pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    question = Question(params, ("since", "until", "reason", "client", "topic", "limit", "cursor", "buckets"))
    since_us, until_us = question.moment_us("since", 0), question.moment_us("until", NO_END)
    reason = question.choice("reason", "", ("", *REASONS))
    client = question.text("client")
    topic_filter: TopicFilter | None = question.filter("topic") if question.has("topic") else None
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    buckets = question.number("buckets", 0, 0, _MOST_BUCKETS)
    below: _Order | None = None
    if question.has("cursor"):
        below = decode_cursor(question.text("cursor"), _Order)
    chosen = [
        event
        for event in read_events(pool.folder)
        if since_us <= event.time_us < until_us
        and (not client or event.is_about(client))
        and (topic_filter is None or (event.topic and topic_filter.matches(event.topic.encode())))
    ]
    counts: Counter[str] = Counter()
    for event in chosen:
        counts[event.reason] += event.count
    rows = sorted(
        [(_order(event), event) for event in chosen if not reason or event.reason == reason],
        key=lambda row: row[0],
        reverse=True,
    )
    matched = len(rows)
    density = _density([event for _order, event in rows], since_us, min(until_us, question.now_us), buckets)
    rows = [row for row in rows if below is None or row[0] < below]
    yield {
        "events": [_fields(event) for _order, event in rows[:limit]],
        "next_cursor": encode_cursor(rows[limit - 1][0]) if len(rows) > limit else None,
        "matched": matched,
        "counts_by_reason": dict(counts),
        "density": density,
        "ahead": question.is_ahead,
        "as_of_us": question.now_us,
    }


def _density(chosen: list[Event], since_us: int, until_us: int, buckets: int) -> dict[str, object] | None:
    """How often it happened in each part of the range; None if that is not asked for. `chosen`: the newest first.

    A range without a beginning begins with the first event.
    """
    if not buckets:
        return None
    # A beginning may lie ahead of now.
    to_us = max(until_us, since_us + 1, chosen[0].time_us + 1 if chosen else 1)
    from_us = since_us or (chosen[-1].time_us if chosen else to_us - 1)
    step_us = max(1, -(-(to_us - from_us) // buckets))
    counts = [0] * max(1, -(-(to_us - from_us) // step_us))
    for event in chosen:
        # An event that does not know how often has happened once at least.
        counts[(event.time_us - from_us) // step_us] += max(1, event.count)
    return {"from_us": from_us, "to_us": to_us, "step_us": step_us, "counts": counts, "total": sum(counts)}


def _order(event: Event) -> _Order:
    return event.time_us, crc32(encode_event(event))


def _fields(event: Event) -> dict[str, Any]:
    has_place = event.from_us > 0
    return {
        "at_us": event.time_us,
        "reason": event.reason,
        "client": event.client,
        "topic": event.topic,
        "count": event.count,
        "detail": event.detail,
        "shard": event.shard if has_place else None,
        "from_us": event.from_us if has_place else None,
        "to_us": event.to_us if has_place else None,
    }
