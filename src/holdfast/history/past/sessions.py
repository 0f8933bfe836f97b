"""`/sessions`, `/session`, `/queue`, `/explain`: stored sessions and what they are owed, as of now.

What a connected client was sent within the last second may be missing: its progress follows the messages.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.durable.log import NO_END
from holdfast.history.explanation import explain as explain_messages
from holdfast.history.explanation_json import explanation_fields, no_session_fields, of_node
from holdfast.history.past.cursors import TimeCursor, borders_of, decode_cursor, encode_cursor
from holdfast.history.past.message_json import found_fields
from holdfast.history.past.messages import WAIT_S
from holdfast.history.past.questions import Question, above, not_found, wrong_value
from holdfast.history.past.time_scan import (
    END,
    LIMIT,
    SECONDS,
    ClientGoneError,
    FoundMessage,
    Place,
    ScanLimits,
    TimeScan,
    newer,
)
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tables.queue_view import LogPlaces, OwedQueue, queues_of
from holdfast.history.tables.session_view import SessionView, read_session, scan_sessions
from holdfast.model.message import Message
from holdfast.records.messages import decode_message, stored_topic
from holdfast.records.session.session_keys import RECORD, session_range
from holdfast.storage.event_files import read_events
from holdfast.topics.filters import REST, levels_match
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.subscription import SubscriptionRecord

_MOST: Final = 1000
_DEFAULT: Final = 100
_MOST_EXPLAINED: Final = 10_000
_EVERYTHING: Final = (REST,)


def sessions(
    pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]
) -> Iterator[dict[str, object]]:
    """Sessions in the order of their keys; with `q`, those whose id or user has it in its name."""
    question = Question(params, ("q", "limit", "cursor"))
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    wanted = question.text("q").casefold()
    lo, hi = bytes((RECORD,)), bytes((RECORD + 1,))
    if question.has("cursor"):
        lo = session_range(decode_cursor(question.text("cursor"), str))[1]
    deadline_s = time.monotonic() + SECONDS
    rows: list[dict[str, Any]] = []
    next_cursor: str | None = None
    with pool.reading(WAIT_S) as reader:
        places = LogPlaces(reader)
        for view in scan_sessions(reader, lo, hi):
            if gone():
                raise ClientGoneError
            user = view.record.user or ""
            if not view.group and (wanted in view.session_id.casefold() or wanted in user.casefold()):
                rows.append(_session_row(places, view))
            if len(rows) == limit or time.monotonic() >= deadline_s:
                next_cursor = encode_cursor(view.session_id)
                break
    yield {"sessions": rows, "next_cursor": next_cursor, "as_of_us": question.now_us}


def session(
    pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]
) -> Iterator[dict[str, object]]:
    question = Question(params, ("id",))
    with pool.reading(WAIT_S) as reader:
        view = _view(reader, question)
        topics = _Topics(reader)
        yield {
            **_session_row(LogPlaces(reader), view),
            "subscriptions": [_subscription(view.subscriptions[raw]) for raw in sorted(view.subscriptions)],
            "inflight": [
                *[
                    {
                        "packet_id": flight.packet_id,
                        "qos": flight.qos,
                        "state": flight.waits_for,
                        "place": f"{place[0]}/{place[1]}",
                        **topics.of(place),
                    }
                    for place, flight in sorted(view.inflight.items())
                ],
                *[
                    {"packet_id": flight.packet_id, "qos": flight.qos, "state": flight.waits_for}
                    for flight in view.placeless
                ],
            ],
            "as_of_us": question.now_us,
        }


def queue(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    """What a session is owed, the oldest first. It is not exact if its queue lies outside the log."""
    question = Question(params, ("id", "limit", "cursor"))
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    cursor: TimeCursor | None = None
    if question.has("cursor"):
        cursor = decode_cursor(question.text("cursor"), TimeCursor)
    with pool.reading(WAIT_S) as reader:
        view = _view(reader, question)
        queues = [_Owed(reader, one) for one in queues_of(view)]
        start: Place = above(min([one.from_us for one in queues], default=0) - 1)
        if cursor is not None:
            start = max(start, cursor.place)
            cursor.check(reader.view(), start[0], NO_END)
        shown: list[dict[str, Any]] = []
        scan = _scan(reader, queues, start, gone)
        for found in scan:
            if any(one.has(found, question.now_us) for one in queues):
                shown.append(found_fields(found))
                if len(shown) == limit:
                    scan.stopped = LIMIT
                    break
        borders = borders_of(reader.view()) if cursor is None else cursor.borders
        yield {
            "messages": shown,
            "next_cursor": None if scan.stopped == END else encode_cursor(TimeCursor(scan.place, borders)),
            "exact": not view.record.queue,
            "stopped": scan.stopped,
            "as_of_us": question.now_us,
        }


def explain(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    """What `holdfast explain --json` prints. `id` is a session id: a mount point and U+0000 may stand in front."""
    question = Question(params, ("id", "filter", "since", "limit"))
    session_id = question.needed("id")
    client = session_id.rpartition("\0")[2]
    topic_filter = question.filter()
    since_us = question.moment_us("since", max(0, question.now_us - 3_600_000_000))
    limit = question.number("limit", _DEFAULT, 1, _MOST_EXPLAINED)

    def check() -> None:
        if gone():
            raise ClientGoneError

    with pool.reading(WAIT_S) as reader:
        view = read_session(reader, session_id)
        # After the reader was refreshed, so that events of all that it shows are stored.
        events = read_events(reader.folder)
        about = [event for event in events if event.time_us >= since_us and event.is_about(client)]
        extra = of_node(of_cluster=reader.is_of_cluster)
        if view is None:
            yield no_session_fields(client, about) | extra
            return
        answer = explain_messages(
            reader, view, topic_filter, since_us, limit, events, now_us=question.now_us, check=check
        )
    yield explanation_fields(client, view, answer, about) | extra


class _Owed:
    """What one queue of a session is owed, decided as the broker does."""

    def __init__(self, reader: HistoryReader, queue: OwedQueue) -> None:
        self._queue: Final = queue
        self._shards: Final = {shard: queue.from_us(shard) for shard in LogPlaces(reader).shards_for(queue)}
        self._rule: Final = queue.rule()
        self.filters: Final = queue.filters()
        self.from_us: Final = min(self._shards.values(), default=0)

    def has(self, found: FoundMessage, now_us: int) -> bool:
        from_us = self._shards.get(found.shard)
        if from_us is None or not from_us <= found.position_us < self._queue.until_us:
            return False
        if not _matches_one(self.filters, stored_topic(found.value)):
            return False
        message = _placed(found)
        return not message.expired(now_us) and self._rule.owed(message) is not None


def _scan(reader: HistoryReader, queues: list[_Owed], start: Place, gone: Callable[[], bool]) -> TimeScan:
    """The messages that may be owed: of the one filter that a session has, or of all topics."""
    filters = {levels for one in queues for levels in one.filters}
    if not filters:
        return newer(reader, start, 0, _EVERYTHING, limits=ScanLimits(gone=gone))
    # Without levels also those of `$`-topics.
    levels = next(iter(filters)) if len(filters) == 1 else ()
    return newer(reader, start, NO_END, levels, limits=ScanLimits(gone=gone))


def _matches_one(filters: set[tuple[bytes, ...]], topic: bytes) -> bool:
    split, dollar = topic.split(SEPARATOR), is_dollar(topic)
    return any(levels_match(levels, split, dollar=dollar) for levels in filters)


def _placed(found: FoundMessage) -> Message:
    message = decode_message(found.value).message
    message.shard, message.position_us = found.shard, found.position_us
    return message


class _Topics(NamedTuple):
    """Topics of messages in flight."""

    reader: HistoryReader

    def of(self, place: Place) -> dict[str, Any]:
        """Nothing if the message was erased, or retention has dropped it."""
        shard, position_us = place
        replay = self.reader.start_replay(self.reader.shard_parts(shard, position_us, position_us + 1))
        for value in replay.next(1).messages:
            return {"topic": stored_topic(value).decode(errors="replace")}
        return {}


def _view(reader: HistoryReader, question: Question) -> SessionView:
    session_id = question.needed("id")
    try:
        found = read_session(reader, session_id)
    except UnicodeEncodeError as error:
        raise wrong_value("id", "it is no valid text") from error
    if found is None or found.group:
        raise not_found("id", f"there is no stored session {session_id[:80]!r}")
    return found


def _session_row(places: LogPlaces, view: SessionView) -> dict[str, Any]:
    record = view.record
    return {
        "session_id": view.session_id,
        "user": record.user,
        "expiry_s": record.expiry_s,
        "disconnected_us": record.disconnected_us or None,
        "connected": record.disconnected_us == 0,
        "subscriptions": len(view.subscriptions),
        "inflight": len(view.inflight) + len(view.placeless),
        "owed_at_most": sum(
            places.owed_at_most(one, shard) for one in queues_of(view) for shard in places.shards_for(one)
        ),
        "queue": record.queue,
    }


def _subscription(record: SubscriptionRecord) -> dict[str, Any]:
    return {
        "filter": record.filter.raw.decode(errors="replace"),
        "qos": record.qos,
        "no_local": record.no_local,
        "retain_as_published": record.retain_as_published,
        "retain_handling": record.retain_handling,
        "id": record.identifier or None,
        "since_us": record.began_us() or None,
    }
