"""Why a client has, does not have yet, or never gets a message, found from the log, its session and the events.

    message of the log ─▶ in flight? ─▶ dropped, by an event? ─▶ subscribed, and since when? ─▶ passed by its progress?

1. The first test that holds, in the order above, gives the answer.
2. An event covers the messages of a second. If it counts fewer than its range has, some of them may have arrived; the
   answer shows its count and range.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import Final, NamedTuple

from holdfast.durable.log import NO_END
from holdfast.exchange.drops import (
    DROP_DENIED,
    DROP_EXPIRED,
    DROP_PURGED,
    DROP_QUOTA,
    DROP_REFUSED,
    DROP_RETENTION,
    DROP_SLOW,
    DROP_TOO_LARGE,
    DROP_UNREADABLE,
    REASONS,
)
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.session_view import SessionView, read_group
from holdfast.model.message import Message
from holdfast.records.events import CUT, Event
from holdfast.records.messages import decode_message
from holdfast.topics.filters import TopicFilter
from holdfast.topics.subscription import SubscriptionRecord

# The states of a message. They are values in the JSON output: never change them.
ACKNOWLEDGED: Final = "acknowledged"
IN_FLIGHT: Final = "in_flight"
OWED: Final = "owed"
DROPPED: Final = "dropped"
LIVE_ONLY: Final = "qos0"
NOT_FOR_IT: Final = "not_for_it"
WITH_GROUP: Final = "with_its_group"

#: Reasons for which a subscriber does not get a message; others concern publishers and connections.
_TAKES: Final = frozenset(
    {
        DROP_DENIED,
        DROP_EXPIRED,
        DROP_PURGED,
        DROP_QUOTA,
        DROP_REFUSED,
        DROP_RETENTION,
        DROP_SLOW,
        DROP_TOO_LARGE,
        DROP_UNREADABLE,
    }
)

#: Messages read at once.
_PAGE: Final = 1000
#: An event covers at most this time.
_WINDOW_US: Final = 1_000_000


class MessageFate(NamedTuple):
    """A message and its state for one client."""

    message: Message
    state: str
    why: str
    #: The subscriptions that match it.
    matched: list[SubscriptionRecord]
    packet_id: int
    event: Event | None


class Explanation(NamedTuple):
    """The answer."""

    #: The newest, in the order of their positions.
    fates: list[MessageFate]
    #: How many messages of the filter there are, shown or not.
    found: int
    #: At most this many messages, of all topics, were removed by retention in the time asked for.
    lost_at_most: int
    #: Whether each dropped message has an event; False if some second had too many.
    events_complete: bool


def explain(
    reader: HistoryReader,
    session: SessionView,
    topic_filter: TopicFilter,
    since_us: int,
    limit: int,
    events: Iterable[Event],
    now_us: int,
    check: Callable[[], None] = lambda: None,
) -> Explanation:
    """Explain the newest `limit` messages that match a filter, from a time on.

    `check` is called now and then; what it raises ends the reading.
    """
    found = 0

    def counted() -> Iterator[Message]:
        nonlocal found
        for message in _messages(reader, topic_filter, since_us):
            if found % _PAGE == 0:
                check()
            found += 1
            yield message

    newest = nlargest(limit, counted(), key=lambda message: (message.position_us, message.shard))
    own = _Taken([event for event in events if event.reason in _TAKES and event.client in ("", session.session_id)])
    judge = _Judge(reader, session, own, now_us)
    lost = [reader.lost(shard, since_us, head.position_us + 1) for shard, head in reader.heads().items()]
    return Explanation(
        [judge.fate(message) for message in reversed(newest)],
        found,
        sum(one.at_most for one in lost if one is not None),
        events_complete=own.complete_since(since_us),
    )


def _messages(reader: HistoryReader, topic_filter: TopicFilter, since_us: int) -> Iterator[Message]:
    replay = reader.start_replay(reader.parts(since_us), topic_filter.levels, in_order=False)
    while not (page := replay.next(_PAGE)).at_end:
        for value in page.messages:
            stored = decode_message(value)
            message = stored.message
            if topic_filter.matches(message.topic):
                message.shard, message.position_us = page.shard, stored.position_us
                yield message


class _Taken:
    """Events of messages that a session did not get, by message."""

    def __init__(self, events: list[Event]) -> None:
        self._by_topic: Final[dict[str, list[Event]]] = {}
        #: Events whose topic is cut or missing.
        self._others: Final[list[Event]] = []
        self._merged_us: Final = [event.time_us for event in events if not event.client and not event.topic]
        for event in events:
            if event.topic and not event.topic.endswith(CUT):
                self._by_topic.setdefault(event.topic, []).append(event)
            else:
                self._others.append(event)

    def complete_since(self, since_us: int) -> bool:
        return all(time_us < since_us for time_us in self._merged_us)

    def of(self, message: Message) -> Event | None:
        topic = message.topic.decode()
        for event in self._by_topic.get(topic, ()):
            if _speaks_of(event, message):
                return event
        for event in self._others:
            if topic.startswith(event.topic.removesuffix(CUT)) and _speaks_of(event, message):
                return event
        return None


def _speaks_of(event: Event, message: Message) -> bool:
    if event.from_us:
        return event.covers(message.shard, message.position_us)
    # QoS 0 messages are dropped before they have a position.
    return message.qos == 0 and bool(event.client) and 0 <= message.received_us - event.time_us < _WINDOW_US


class _Judge:
    """Answers for one session."""

    def __init__(self, reader: HistoryReader, session: SessionView, events: _Taken, now_us: int) -> None:
        self._reader: Final = reader
        self._session: Final = session
        self._events: Final = events
        self._now_us: Final = now_us
        self._groups: Final[dict[bytes, SessionView | None]] = {}

    def fate(self, message: Message) -> MessageFate:
        matching = [record for record in self._session.subscriptions.values() if _matches(record, message.topic)]
        entitled = [record for record in matching if self._refuses(record, message) == ""]
        flight = self._session.inflight.get((message.shard, message.position_us))
        event = self._events.of(message) if matching and flight is None else None
        if flight is not None:
            state, why = IN_FLIGHT, f"sent with packet id {flight.packet_id}, waits for {flight.waits_for}"
        elif event is not None:
            state, why = DROPPED, _told(event)
        else:
            state, why = self._state(message, matching, entitled)
        return MessageFate(message, state, why, entitled or matching, flight.packet_id if flight else 0, event)

    def _state(
        self, message: Message, matching: list[SubscriptionRecord], entitled: list[SubscriptionRecord]
    ) -> tuple[str, str]:
        """The state of a message that is not in flight and has no event, and why."""
        if not matching:
            return NOT_FOR_IT, "no subscription of the session matches the topic"
        if not entitled:
            return NOT_FOR_IT, self._refuses(matching[0], message)
        alone = [record for record in entitled if not record.filter.group]
        replayed = any(record.filter.raw in self._session.replays for record in alone)
        if min(message.qos, max(record.qos for record in entitled)) == 0 and not replayed:
            return LIVE_ONLY, "QoS 0: sent if the client was connected and reading; not kept"
        return self._of_own(message, alone) if alone else self._of_group(message, entitled[0])

    def _refuses(self, record: SubscriptionRecord, message: Message) -> str:
        """Why a matching subscription does not cover a message; empty if it does."""
        if not record.begins_before(message.shard, message.position_us):
            return "the subscription began later"
        if record.no_local and message.publisher == self._session.session_id:
            return "the client's own message, and the subscription is 'no local'"
        replay = self._session.replays.get(record.filter.raw)
        if replay is not None and message.position_us >= replay.until_us:
            return "the replay that was asked for ends before it"
        return ""

    def _of_own(self, message: Message, records: list[SubscriptionRecord]) -> tuple[str, str]:
        if any(self._replay_has_passed(record, message) for record in records):
            return ACKNOWLEDGED, "replayed, and the client has it"
        live = [record for record in records if not self._replays_still(record)]
        if live and self._session.record.queue:
            where = self._session.record.queue
            return OWED, f"given to the client's own queue ({where}); whether it waits there is not seen"
        if live and self._session.has_passed((message.shard, message.position_us)):
            return ACKNOWLEDGED, "the client has it"
        if message.expired(self._now_us):
            return OWED, "it has expired: it is dropped when its turn comes"
        if self._session.record.disconnected_us:
            return OWED, "waits for the client, which is offline"
        return OWED, "not known to be acknowledged; the client is connected, so it may be on its way"

    def _replay_has_passed(self, record: SubscriptionRecord, message: Message) -> bool:
        replay = self._session.replays.get(record.filter.raw)
        if replay is None:
            return False
        finished = replay.joined and replay.until_us != NO_END
        return finished or message.position_us <= replay.sent.get(message.shard, 0)

    def _replays_still(self, record: SubscriptionRecord) -> bool:
        replay = self._session.replays.get(record.filter.raw)
        return replay is not None and not replay.joined

    def _of_group(self, message: Message, record: SubscriptionRecord) -> tuple[str, str]:
        raw = record.filter.raw
        if raw not in self._groups:
            self._groups[raw] = read_group(self._reader, record)
        group = self._groups[raw]
        if group is None or group.has_passed((message.shard, message.position_us)):
            return WITH_GROUP, "one member of the group has it, or was sent it"
        return WITH_GROUP, "waits for a member of the group, or is on its way to one"


def _matches(record: SubscriptionRecord, topic: bytes) -> bool:
    inner = TopicFilter(record.filter.inner(), record.filter.levels, "", "")
    return inner.matches(topic) and not record.hides(topic)


def _told(event: Event) -> str:
    words = REASONS.get(event.reason, event.reason)
    if event.detail:
        words += f" ({event.detail})"
    return f"{event.reason}: {words}" + (f"; {event.count} in that second" if event.count > 1 else "")
