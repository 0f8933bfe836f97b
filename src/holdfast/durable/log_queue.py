"""A client queue that is no queue: the messages lie in the log, and a session knows how far it was sent them.

    sent up to here          delivered to everybody who is live
    ──────────────┤──────────────────────────────┤
                   what is owed: read when there is room

A session that is live costs nothing here: it has what everybody has. When a message cannot be sent to it, it falls
behind: from then on it reads the log, until it has caught up with what is being delivered, in the same turn of the
loop, so that nothing is missed and nothing comes twice. State is a number for each shard, however long the backlog.
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.log import FOR_EVER, Lost, ShardLog
from holdfast.durable.memory_queue import MemoryQueue
from holdfast.durable.queue import ClientQueue
from holdfast.durable.shard_reader import ShardReader
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.topics.filters import TopicFilter, levels_match
from holdfast.topics.matcher import Matcher
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.subscription import SubscriptionRecord

#: Filters that are walked each for itself. With more of them, everything is read once and looked through.
_MAX_WALKS: Final = 16
#: The filters to read a whole shard by.
_EVERYTHING: Final[list[tuple[bytes, ...]]] = [()]
#: Messages looked at in one go by a read by time, whether they are owed or not.
_LOOKED: Final = 2000
#: Subscriptions that are looked through one by one for a topic; more of them are found by a matcher.
_MAX_SCANNED: Final = 256
#: Topics whose matching subscriptions are remembered.
_REMEMBERED: Final = 1000


class LogQueue(ClientQueue):
    """What a session is owed, as the log has it. Survives: what the log and the session's progress survive.

    1. While it is not behind, the session was sent everything up to `delivered`, in every shard.
    2. While it is behind, it was sent everything up to `sent_up_to(shard)`.
    """

    def __init__(
        self,
        log: ShardLog,
        delivered: dict[int, int],
        session_id: str,
        subscriptions: dict[bytes, SubscriptionRecord],
        unlogged: MemoryQueue,
        lost: Callable[[str, Lost], None],
        *,
        upgrade_qos: bool,
        with_qos0: bool = False,
        until_us: int = FOR_EVER,
    ) -> None:
        self._log: Final = log
        #: The last position of each shard that was delivered to whoever is live. Shared by all.
        self._delivered: Final = delivered
        self._session_id: Final = session_id
        self._subscriptions: Final = subscriptions
        #: What is owed and not in any log.
        self._unlogged: Final = unlogged
        self._lost: Final = lost
        self._upgrade_qos: Final = upgrade_qos
        #: Whether it is history that is read: then QoS 0 belongs to it, too.
        self._with_qos0: Final = with_qos0
        #: Nothing from here on belongs to it.
        self._until_us: Final = until_us
        #: Whether all shards are merged by time; else each is in order for itself.
        self._by_time = until_us != FOR_EVER
        #: By time: nothing above is given out yet, and it is not at its end before there is no such bound.
        self.up_to_us = FOR_EVER
        #: By time, after a read that found nothing: the position of the next message; FOR_EVER if there is none as of
        #: now, 0 if that is not known yet.
        self.next_us = 0
        #: Subscriptions that deliver nothing from a position on.
        self._ends: Final[dict[bytes, int]] = {}
        #: Subscriptions whose replay is under way (None), or has delivered what is not above these positions.
        self._replayed: Final[dict[bytes, dict[int, int] | None]] = {}
        self._behind = False
        self._sent: dict[int, int] = {}
        self._readers: dict[int, ShardReader] = {}
        self._turn = 0
        self._matching: Final[dict[bytes, list[SubscriptionRecord]]] = {}
        #: All subscriptions but those of groups; None until it was behind with many of them.
        self._matcher: Matcher[bytes, SubscriptionRecord] | None = None
        #: For very many subscriptions: the filters to read each shard by, or the one for everything. Those of
        #: subscriptions that are gone stay, and find nothing. None if they are looked up.
        self._shard_filters: dict[int, list[tuple[bytes, ...]]] | None = None
        #: Places that were done before the rest, as (shard, position). Keys alone count, to save memory.
        self._done: Final[dict[tuple[int, int], None]] = {}
        #: Up to here messages may have been sent before, by an earlier run of the broker.
        self._repeated: dict[int, int] = {}

    # ---- how far it is

    def sent(self) -> dict[int, int]:
        """How far the session was sent its messages, in each shard."""
        sent = dict(self._delivered)
        if self._behind:
            for shard in sent:
                sent[shard] = self._sent_up_to(shard)
        return sent

    def _sent_up_to(self, shard: int) -> int:
        reader = self._readers.get(shard)
        if reader is not None:
            return reader.done_us()
        return self._sent[shard] if shard in self._sent else self._earliest_us() - 1

    def _earliest_us(self) -> int:
        """Where a shard begins that was not known: at the first subscription."""
        earliest_us = -1
        for record in self._subscriptions.values():
            if earliest_us < 0 or record.since_us < earliest_us:
                earliest_us = record.since_us
        return max(earliest_us, 1)

    def resume(self, sent: dict[int, int], done: set[tuple[int, int]], repeated: dict[int, int]) -> None:
        """Go on where an earlier connection, or an earlier run of the broker, stopped."""
        self._behind = True
        self._sent = dict(sent)
        self._readers = {}
        self._done.update(dict.fromkeys(done))
        self._repeated = repeated

    def replaying(self, raw: bytes, up_to: dict[int, int] | None) -> None:
        """A subscription is replayed by itself, up to these positions; without any, it still is."""
        self._replayed[raw] = up_to
        record = self._subscriptions.get(raw)
        if record is not None:
            self.subscriptions_changed(record.filter)

    def ending(self, raw: bytes, until_us: int) -> None:
        """A subscription delivers nothing from a position on."""
        self._ends[raw] = until_us

    def end_of(self, raw: bytes) -> int:
        """The position from which on a subscription delivers nothing; FOR_EVER if there is none."""
        return self._ends.get(raw, FOR_EVER)

    def not_replaying(self, raw: bytes) -> None:
        """A subscription is gone, and with it what was replayed of it, and its end."""
        if raw in self._replayed:
            del self._replayed[raw]
        if raw in self._ends:
            del self._ends[raw]

    def merge_by_time(self) -> None:
        """Read all shards as one sequence, in the order of positions."""
        self._by_time = True

    def rest(self) -> None:
        """It is not read for a while: hold nothing of the store meanwhile."""
        if self._behind:
            self._sent = self.sent()
            self._readers = {}

    def expect_many(self) -> None:
        """Very many subscriptions follow one by one: what finds them grows with them, and not at once when it is read.

        Requires: it has no subscription yet. A zone that a filter does not concern now, it does not concern later.
        """
        self._matcher = Matcher()
        self._shard_filters = {}

    def subscriptions_changed(self, topic_filter: TopicFilter) -> None:
        """A subscription was added, replaced or removed, or what is replayed of it has changed."""
        matcher = self._matcher
        if matcher is not None and not topic_filter.group:
            record = self._subscriptions.get(topic_filter.raw)
            if record is None:
                matcher.unsubscribe(topic_filter, topic_filter.raw)
            else:
                matcher.subscribe(topic_filter, topic_filter.raw, record)
                if self._shard_filters is not None:
                    self._note_filter(self._shard_filters, topic_filter.levels)
        self._matching.clear()
        self.rest()

    def _note_filter(self, by_shard: dict[int, list[tuple[bytes, ...]]], levels: tuple[bytes, ...]) -> None:
        for shard in self._log.shards_for(levels):
            filters = by_shard.setdefault(shard, [])
            if filters == _EVERYTHING or levels in filters:
                continue
            if len(filters) == _MAX_WALKS:
                by_shard[shard] = _EVERYTHING
            else:
                filters.append(levels)

    # ---- the queue

    def append(self, pack: list[Owed]) -> int:
        dropped = 0
        for owed in pack:
            message = owed.message
            if not message.position_us:
                dropped += self._unlogged.append([owed])
            elif not self._behind:
                self._behind = True
                self._sent = dict(self._delivered)
                self._sent[message.shard] = message.position_us - 1
                self._readers = {}
        return dropped

    def read(self, after: int, limit: int) -> list[Owed]:
        found: list[Owed] = []
        if self._behind and self._by_time:
            self._read_by_time(found, limit)
        elif self._behind:
            self._read_log(found, limit)
        if not found and not self._behind:
            found = self._unlogged.read(after, limit)
        return found

    def _read_log(self, found: list[Owed], limit: int) -> None:
        shards = list(self._delivered)
        at_end = True
        for step in range(len(shards)):
            shard = shards[(self._turn + step) % len(shards)]
            barrier_us = min(self._delivered[shard] + 1, self._until_us)
            reader = self._reader(shard)
            if reader is None:
                self._sent[shard] = self._delivered[shard]
                continue
            if reader.done_us() + 1 >= barrier_us:
                continue
            for message in reader.next(limit - len(found), barrier_us):
                owed = self.owed(message)
                if owed is not None:
                    found.append(owed)
            for lost in reader.take_lost():
                self._lost(self._session_id, lost)
            if reader.done_us() + 1 < barrier_us:
                at_end = False
            if len(found) >= limit:
                self._turn = (self._turn + step) % len(shards)
                return
        if at_end and not found:
            self._caught_up()

    def _read_by_time(self, found: list[Owed], limit: int) -> None:
        """All shards as one sequence, in the order of positions."""
        looked = 0
        while len(found) < limit:
            if looked >= _LOOKED:
                self.next_us = 0
                break
            first: ShardReader | None = None
            first_us = second_us = FOR_EVER
            unknown_us = FOR_EVER
            for shard in self._delivered:
                reader = self._reader(shard)
                if reader is None:
                    self._sent[shard] = self._delivered[shard]
                    continue
                at_us = reader.peek(min(self._delivered[shard] + 1, self._until_us))
                for lost in reader.take_lost():
                    self._lost(self._session_id, lost)
                if at_us == 0:
                    unknown_us = min(unknown_us, reader.done_us() + 1)
                elif at_us < first_us:
                    first, first_us, second_us = reader, at_us, first_us
                elif at_us < second_us:
                    second_us = at_us
            if first is None or first_us >= unknown_us:
                self.next_us = FOR_EVER if unknown_us == FOR_EVER else 0
                break
            if first_us > self.up_to_us:
                self.next_us = first_us
                break
            # As long as no other shard can have an earlier one.
            bound_us = min(second_us, unknown_us - 1, self.up_to_us)
            while 0 < first_us <= bound_us and len(found) < limit:
                owed = self.owed(first.take())
                looked += 1
                if owed is not None:
                    found.append(owed)
                first_us = first.peeked_us()
        if not found and self.next_us == FOR_EVER and self.up_to_us == FOR_EVER:
            self._caught_up()

    def _caught_up(self) -> None:
        self._behind = False
        self._readers = {}
        self._done.clear()
        self._repeated = {}

    def _reader(self, shard: int) -> ShardReader | None:
        """What reads a shard; None if no subscription asks for anything of it."""
        reader = self._readers.get(shard)
        if reader is None:
            from_us = self._sent_up_to(shard) + 1
            filters = self._filters_of(shard)
            if not filters:
                return None
            walks = [self._log.walk(shard, levels, from_us) for levels in filters]
            reader = self._readers[shard] = ShardReader(walks)
        return reader

    def _filters_of(self, shard: int) -> list[tuple[bytes, ...]]:
        """The filters to read a shard by; the one for everything if there are too many of them."""
        if self._shard_filters is not None:
            return self._shard_filters.get(shard, [])
        filters: list[tuple[bytes, ...]] = []
        for record in self._subscriptions.values():
            levels = record.filter.levels
            if not record.filter.group and levels not in filters and shard in self._log.shards_for(levels):
                if len(filters) == _MAX_WALKS:
                    return _EVERYTHING
                filters.append(levels)
        return filters

    def owed(self, message: Message) -> Owed | None:
        """How the session gets a message by its present subscriptions; None if it does not."""
        if self._done and (message.shard, message.position_us) in self._done:
            return None
        qos = -1
        keep_retain = False
        identifiers: list[int] = []
        for record in self._match(message.topic):
            if record.since_us > message.position_us or (record.no_local and message.publisher == self._session_id):
                continue
            if self._replayed and self._was_replayed(record, message):
                continue
            if self._ends and message.position_us >= self._ends.get(record.filter.raw, FOR_EVER):
                continue
            qos = max(qos, record.qos)
            keep_retain = keep_retain or record.retain_as_published
            if record.identifier:
                identifiers.append(record.identifier)
        if not self._upgrade_qos:
            qos = min(qos, message.qos)
        if qos < 0 or (qos == 0 and not self._with_qos0):  # QoS 0 is for who was there
            return None
        owed = Owed(message, qos, retain=message.retain and keep_retain, identifiers=tuple(identifiers))
        owed.repeated = message.position_us <= self._repeated.get(message.shard, 0)
        return owed

    def skip(self, message: Message) -> bool:
        """A message was sent already: it is left out when the log is read; whether it would have been read."""
        if self._behind and message.position_us:
            self._done[message.shard, message.position_us] = None
            return True
        return False

    def _was_replayed(self, record: SubscriptionRecord, message: Message) -> bool:
        raw = record.filter.raw
        if raw not in self._replayed:
            return False
        up_to = self._replayed[raw]
        return up_to is None or message.position_us <= up_to.get(message.shard, 0)

    def _match(self, topic: bytes) -> list[SubscriptionRecord]:
        """The session's own subscriptions that match a topic."""
        known = self._matching.get(topic)
        if known is None:
            if len(self._subscriptions) > _MAX_SCANNED:
                known = [record for record in self._all_subscriptions().match(topic) if not record.hides(topic)]
            else:
                known = self._scan(topic)
            if len(self._matching) >= _REMEMBERED:
                self._matching.clear()
            self._matching[topic] = known
        return known

    def _scan(self, topic: bytes) -> list[SubscriptionRecord]:
        levels = topic.split(SEPARATOR)
        dollar = is_dollar(topic)
        known: list[SubscriptionRecord] = []
        for record in self._subscriptions.values():
            if record.filter.group or record.hides(topic):
                continue
            if levels_match(record.filter.levels, levels, dollar=dollar):
                known.append(record)
        return known

    def _all_subscriptions(self) -> Matcher[bytes, SubscriptionRecord]:
        """The session's subscriptions in a matcher of its own, from the first time that it is needed."""
        matcher = self._matcher
        if matcher is None:
            matcher = self._matcher = Matcher()
            for raw, record in self._subscriptions.items():
                if not record.filter.group:
                    matcher.subscribe(record.filter, raw, record)
        return matcher

    def at_end(self) -> bool:
        return not self._behind

    def places(self) -> dict[int, int]:
        """Where the log ends for whoever is live."""
        return dict(self._delivered)

    def has_sent(self, places: dict[int, int]) -> bool:
        """Whether it has come as far as these places, in every shard."""
        return not self._behind or all(self._sent_up_to(shard) >= places[shard] for shard in places)

    def last_serial(self) -> int:
        """The serial of the newest message that is in no log."""
        return self._unlogged.last_serial()

    def acknowledge(self, serial: int) -> None:
        self._unlogged.acknowledge(serial)

    def release(self, serial: int) -> None:
        self._unlogged.release(serial)

    def count(self) -> int:
        """An estimate: whether anything is owed. An exact count would cost reading the backlog."""
        return self._unlogged.count() + (1 if self._behind else 0)

    def drop(self) -> None:
        self._behind = False
        self._readers = {}
        self._matcher = None
        self._shard_filters = None
        self._unlogged.drop()
