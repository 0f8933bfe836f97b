"""What sessions and shared groups are owed, as plain rows: one for each shard that may have something for them.

    sent up to here            durable head
    ───────────────┤───●──●───────●──────┤        owed_at_most: all messages of the shard in between, by serials
                       owed: those that its subscriptions ask for, counted one by one

1. A queue is a place in the log (ADR 0010), so how far behind it is costs one look into the log, and what of that is
   for its owner costs reading it. The second is done only if the query says `exact`.
2. What is owed is decided by the rule that the broker delivers by, `OwedRule`, so the two cannot disagree.
3. What was sent and is not acknowledged is in flight, and not owed.
4. A replay under way has its own place, and its own rows.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.durable.log import NO_END
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.session_view import SessionView, scan_sessions
from holdfast.records.lanes import is_lane
from holdfast.records.messages import decode_message, stored_position, stored_serial
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.overlap import overlap
from holdfast.topics.subscription import SubscriptionRecord

#: Filters that are looked up one by one; with more of them, everything is read once.
MAX_FILTERS: Final = 16


def queue_rows(reader: HistoryReader, lo: bytes, hi: bytes, now_us: int, *, exact: bool) -> Iterator[dict[str, Any]]:
    """`now_us` tells what has expired."""
    places = LogPlaces(reader)
    for view in scan_sessions(reader, lo, hi):
        for queue in queues_of(view):
            for shard in sorted(places.shards_for(queue)):
                yield _row(reader, places, queue, shard, now_us, exact=exact)


class OwedQueue(NamedTuple):
    """A place in each shard, and what is wanted from there on."""

    view: SessionView
    wanted: Mapping[bytes, SubscriptionRecord]
    sent: Mapping[int, int]
    replay: SubscriptionRecord | None = None
    until_us: int = NO_END

    def filters(self) -> set[tuple[bytes, ...]]:
        return {record.filter.levels for record in self.wanted.values()}

    def from_us(self, shard: int) -> int:
        """The first position that it was not sent; a shard that it does not know begins with its subscriptions."""
        if shard in self.sent:
            return self.sent[shard] + 1
        return max(1, min(_first_us(record, shard) for record in self.wanted.values()))

    def rule(self) -> OwedRule:
        """What decides which messages it is owed."""
        # `upgrade_outgoing_qos` is a setting of the broker, which no record tells.
        wanted = dict(self.wanted)
        rule = OwedRule(self.view.session_id, wanted, upgrade_qos=False, with_qos0=self.replay is not None)
        # Where its progress is not stored yet, what is in flight lies above it.
        rule.sent_before(self.view.done | self.view.inflight.keys(), {})
        rule.given_out_before(self.view.progress.given_out)
        for raw, progress in {} if self.replay else self.view.replays.items():
            rule.replayed(raw, progress.sent if progress.joined else None)
            rule.ends(raw, progress.until_us)
        return rule


def _first_us(record: SubscriptionRecord, shard: int) -> int:
    return record.since_us if record.since_heads is None else max(record.since_us, record.since_heads.get(shard, 0) + 1)


def queues_of(view: SessionView) -> Iterator[OwedQueue]:
    if view.group:
        # The group's own subscription takes every message, from any client; members have their own options.
        shared = parse_filter(view.group.encode())
        plain = TopicFilter(shared.inner(), shared.levels, "", "")
        yield OwedQueue(view, {plain.raw: SubscriptionRecord(plain, 2, False, False, 0, 0, 0)}, view.progress.sent)
        return
    own = {raw: record for raw, record in view.subscriptions.items() if not record.filter.group}
    # QoS 0 is for who was there.
    waits = {raw: record for raw, record in own.items() if record.qos}
    if waits and not view.record.queue:  # what waits outside the log is not to be seen in it
        yield OwedQueue(view, waits, view.progress.sent)
    for raw, progress in sorted(view.replays.items()):
        if not progress.joined and raw in own:
            record = own[raw]
            yield OwedQueue(view, {raw: record}, progress.sent, record, progress.until_us)


class LogPlaces:
    """Lookups in the log that many sessions have in common."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader: Final = reader
        self.heads: Final = reader.heads()
        self._zones: Final = [
            (zone, [tuple(text.encode().split(b"/")) for text in zone.filters]) for zone in reader.zones()
        ]
        #: What was loaded is owed to no client; a replay finds it.
        self._loaded: Final = {shard for zone in reader.zones() if is_lane(zone.name) for shard in zone.shards}
        self._shards: Final[dict[tuple[bytes, ...], frozenset[int]]] = {}
        self._first: Final[dict[tuple[int, int], tuple[int, int]]] = {}

    def shards_for(self, queue: OwedQueue) -> set[int]:
        found: set[int] = set()
        for levels in queue.filters():
            if levels not in self._shards:
                self._shards[levels] = frozenset(
                    shard
                    for zone, filters in self._zones
                    if not filters or any(overlap(own, levels) for own in filters)
                    for shard in zone.shards
                    if shard in self.heads
                )
            found |= self._shards[levels]
        return found if queue.replay is not None else found - self._loaded

    def first(self, shard: int, from_us: int) -> tuple[int, int]:
        """Position and serial of the first message from a position on; behind the head if there is none."""
        head = self.heads[shard]
        if from_us > head.position_us:
            return 0, head.serial + 1
        if (shard, from_us) not in self._first:
            replay = self._reader.start_replay(self._reader.shard_parts(shard, from_us, NO_END))
            found = [(stored_position(value), stored_serial(value)) for value in replay.next(1).messages]
            self._first[shard, from_us] = found[0] if found else (0, head.serial + 1)
        return self._first[shard, from_us]

    def owed_at_most(self, queue: OwedQueue, shard: int) -> int:
        """All messages of a shard from the place of a queue on, for any client."""
        from_us = queue.from_us(shard)
        _begin_us, serial = self.first(shard, from_us)
        _end_us, end_serial = self.first(shard, max(from_us, min(queue.until_us, NO_END - 1)))
        return max(0, end_serial - serial)


def _row(
    reader: HistoryReader, places: LogPlaces, queue: OwedQueue, shard: int, now_us: int, *, exact: bool
) -> dict[str, Any]:
    view = queue.view
    from_us = queue.from_us(shard)
    behind_us, _serial = places.first(shard, from_us)
    at_most = places.owed_at_most(queue, shard)
    counted = _count(reader, queue, shard, from_us, now_us) if exact and at_most else (0, 0)
    flights = {} if queue.replay else view.inflight
    return {
        "client_id": None if view.group else view.session_id,
        "group": view.group or None,
        "replay": queue.replay.filter.raw.decode(errors="replace") if queue.replay else None,
        "connected": None if view.group else view.record.disconnected_us == 0,
        "zone": reader.view().zone_of(shard),
        "shard": shard,
        "sent_at": queue.sent.get(shard) or None,
        "sent_offset": queue.sent.get(shard) or None,
        "head_offset": places.heads[shard].position_us,
        "owed_at_most": at_most,
        "behind_since": behind_us if at_most else None,
        "owed": counted[0] if exact else None,
        "oldest_owed_at": counted[1] or None,
        "inflight": [
            {"packet_id": flight.packet_id, "qos": flight.qos, "offset": place[1], "waits_for": flight.waits_for}
            for place, flight in sorted(flights.items())
            if place[0] == shard
        ],
    }


def _count(reader: HistoryReader, queue: OwedQueue, shard: int, from_us: int, now_us: int) -> tuple[int, int]:
    """How many messages of a shard are owed, and when the oldest was stored; 0 if there is none."""
    filters = sorted(queue.filters())
    rule = queue.rule()
    owed: set[int] = set()
    parts = reader.shard_parts(shard, from_us, queue.until_us)
    for levels in filters if len(filters) <= MAX_FILTERS else [()]:
        for value in reader.start_replay(parts, levels, in_order=False).records():
            stored = decode_message(value)
            message = stored.message
            message.shard, message.position_us = shard, stored.position_us
            if not message.expired(now_us) and rule.owed(message) is not None:
                owed.add(message.position_us)
    return len(owed), min(owed, default=0)
