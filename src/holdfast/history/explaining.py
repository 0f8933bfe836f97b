"""Why a client has a message, has it not yet, or never gets it: told from the log, its session and the events.

    message of the log ─▶ in flight? ─▶ dropped, by an event? ─▶ subscribed, and since when? ─▶ passed by its progress?

1. The first answer that fits is the answer, in the order above.
2. An event speaks of the messages of a second. Where it counts fewer than there are in its range, one of them may have
   arrived all the same; its count and range are part of the answer.
"""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final

from holdfast.durable.log import FOR_EVER
from holdfast.exchange.counters import (
    DROP_DENIED,
    DROP_EXPIRED,
    DROP_QUOTA,
    DROP_REFUSED,
    DROP_RETENTION,
    DROP_SLOW,
    DROP_TOO_LARGE,
    DROP_UNREADABLE,
)
from holdfast.exchange.drops import REASONS
from holdfast.history.reader import HistoryReader
from holdfast.history.session_view import SessionView, read_group
from holdfast.model.message import Message
from holdfast.records.events import CUT, Event
from holdfast.records.messages import decode_message
from holdfast.topics.filters import TopicFilter
from holdfast.topics.subscription import SubscriptionRecord

# What became of a message. These are values of the JSON form: never change them.
ACKNOWLEDGED: Final = "acknowledged"
IN_FLIGHT: Final = "in_flight"
OWED: Final = "owed"
DROPPED: Final = "dropped"
LIVE_ONLY: Final = "qos0"
NOT_FOR_IT: Final = "not_for_it"
WITH_GROUP: Final = "with_its_group"

#: Reasons that take a message from a subscriber; others speak of publishers and connections.
_TAKES: Final = frozenset(
    {DROP_DENIED, DROP_EXPIRED, DROP_QUOTA, DROP_REFUSED, DROP_RETENTION, DROP_SLOW, DROP_TOO_LARGE, DROP_UNREADABLE}
)

#: An event speaks of at most so long.
_WINDOW_US: Final = 1_000_000


class Fate:
    """One message, and what became of it for one client."""

    def __init__(self, message: Message, state: str, why: str) -> None:
        self.message: Final = message
        self.state: Final = state
        self.why: Final = why
        #: The subscriptions through which it comes.
        self.matched: list[SubscriptionRecord] = []
        self.packet_id = 0
        self.event: Event | None = None


class Explained:
    """The answer."""

    def __init__(self, fates: list[Fate], found: int, lost_at_most: int, *, events_complete: bool) -> None:
        #: The newest, in the order of their positions.
        self.fates: Final = fates
        #: How many messages of the filter there are, shown or not.
        self.found: Final = found
        #: Messages of all topics that retention removed of the time that was asked for, at most.
        self.lost_at_most: Final = lost_at_most
        #: Whether each message that was dropped has an event; else there were too many in some second.
        self.events_complete: Final = events_complete


def explain(
    reader: HistoryReader,
    session: SessionView,
    topic_filter: TopicFilter,
    since_us: int,
    limit: int,
    events: Iterable[Event],
    now_us: int,
) -> Explained:
    """What became of the newest `limit` messages that match a filter, from a time on."""
    counted = _Counted(_messages(reader, topic_filter, since_us))
    newest = nlargest(limit, counted, key=lambda message: (message.position_us, message.shard))
    own = _Taken([event for event in events if event.reason in _TAKES and event.client in ("", session.session_id)])
    judge = _Judge(reader, session, own, now_us)
    lost = [reader.lost(shard, since_us, head.position_us + 1) for shard, head in reader.heads().items()]
    return Explained(
        [judge.fate(message) for message in reversed(newest)],
        counted.count,
        sum(one.at_most for one in lost if one is not None),
        events_complete=own.complete_since(since_us),
    )


class _Counted(Iterator[Message]):
    def __init__(self, messages: Iterator[Message]) -> None:
        self._messages: Final = messages
        self.count = 0

    def __next__(self) -> Message:
        message = next(self._messages)
        self.count += 1
        return message


def _messages(reader: HistoryReader, topic_filter: TopicFilter, since_us: int) -> Iterator[Message]:
    for part in reader.parts(since_us):
        for value in reader.values(part, topic_filter.levels, in_order=False):
            stored = decode_message(value)
            message = stored.message
            if topic_filter.matches(message.topic):
                message.shard, message.position_us = part.shard, stored.position_us
                yield message


class _Taken:
    """Events that take messages from a session, found by the message."""

    def __init__(self, events: list[Event]) -> None:
        self._by_topic: Final[dict[str, list[Event]]] = {}
        #: The topic is cut, or there is none.
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
    # QoS 0 is dropped before it has a place.
    return message.qos == 0 and bool(event.client) and 0 <= message.received_us - event.time_us < _WINDOW_US


class _Judge:
    """Answers for one session."""

    def __init__(self, reader: HistoryReader, session: SessionView, events: _Taken, now_us: int) -> None:
        self._reader: Final = reader
        self._session: Final = session
        self._events: Final = events
        self._now_us: Final = now_us
        self._groups: Final[dict[bytes, SessionView | None]] = {}

    def fate(self, message: Message) -> Fate:
        matching = [record for record in self._session.subscriptions.values() if _matches(record, message.topic)]
        entitled = [record for record in matching if self._refuses(record, message) == ""]
        found = self._fate(message, matching, entitled)
        found.matched = entitled or matching
        return found

    def _fate(self, message: Message, matching: list[SubscriptionRecord], entitled: list[SubscriptionRecord]) -> Fate:
        flight = self._session.inflight.get((message.shard, message.position_us))
        if flight is not None:
            found = Fate(message, IN_FLIGHT, f"sent with packet id {flight.packet_id}, waits for {flight.waits_for}")
            found.packet_id = flight.packet_id
            return found
        event = self._events.of(message) if matching else None
        if event is not None:
            found = Fate(message, DROPPED, _told(event))
            found.event = event
            return found
        if not matching:
            return Fate(message, NOT_FOR_IT, "no subscription of the session matches the topic")
        if not entitled:
            return Fate(message, NOT_FOR_IT, self._refuses(matching[0], message))
        alone = [record for record in entitled if not record.filter.group]
        if min(message.qos, max(record.qos for record in entitled)) == 0 and not self._is_replayed(alone):
            return Fate(message, LIVE_ONLY, "QoS 0: sent if the client was connected and reading; not kept")
        return self._of_own(message, alone) if alone else self._of_group(message, entitled[0])

    def _refuses(self, record: SubscriptionRecord, message: Message) -> str:
        """Why a subscription that matches does not ask for a message; empty if it does."""
        if record.since_us > message.position_us:
            return "the subscription began later"
        if record.no_local and message.publisher == self._session.session_id:
            return "the client's own message, and the subscription is 'no local'"
        replay = self._session.replays.get(record.filter.raw)
        if replay is not None and message.position_us >= replay.until_us:
            return "the replay that was asked for ends before it"
        return ""

    def _is_replayed(self, records: list[SubscriptionRecord]) -> bool:
        return any(record.filter.raw in self._session.replays for record in records)

    def _of_own(self, message: Message, records: list[SubscriptionRecord]) -> Fate:
        place = (message.shard, message.position_us)
        if any(self._replay_has_passed(record, message) for record in records):
            return Fate(message, ACKNOWLEDGED, "replayed, and the client has it")
        live = [record for record in records if not self._replays_still(record)]
        if live and self._session.record.queue:
            where = self._session.record.queue
            return Fate(message, OWED, f"given to the client's own queue ({where}); whether it waits there is not seen")
        if live and self._session.has_passed(place):
            return Fate(message, ACKNOWLEDGED, "the client has it")
        if message.expired(self._now_us):
            return Fate(message, OWED, "it has expired: it is dropped when its turn comes")
        if self._session.record.disconnected_us:
            return Fate(message, OWED, "waits for the client, which is offline")
        return Fate(message, OWED, "not known to be acknowledged; the client is connected, so it may be on its way")

    def _replay_has_passed(self, record: SubscriptionRecord, message: Message) -> bool:
        replay = self._session.replays.get(record.filter.raw)
        if replay is None:
            return False
        finished = replay.joined and replay.until_us != FOR_EVER
        return finished or message.position_us <= replay.sent.get(message.shard, 0)

    def _replays_still(self, record: SubscriptionRecord) -> bool:
        replay = self._session.replays.get(record.filter.raw)
        return replay is not None and not replay.joined

    def _of_group(self, message: Message, record: SubscriptionRecord) -> Fate:
        raw = record.filter.raw
        if raw not in self._groups:
            self._groups[raw] = read_group(self._reader, record)
        group = self._groups[raw]
        if group is None or group.has_passed((message.shard, message.position_us)):
            return Fate(message, WITH_GROUP, "one member of the group has it, or was sent it")
        return Fate(message, WITH_GROUP, "waits for a member of the group, or is on its way to one")


def _matches(record: SubscriptionRecord, topic: bytes) -> bool:
    inner = TopicFilter(record.filter.inner(), record.filter.levels, "", "")
    return inner.matches(topic) and not record.hides(topic)


def _told(event: Event) -> str:
    words = REASONS.get(event.reason, event.reason)
    if event.detail:
        words += f" ({event.detail})"
    return f"{event.reason}: {words}" + (f"; {event.count} in that second" if event.count > 1 else "")
