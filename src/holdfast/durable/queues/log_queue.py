"""A client queue that is no queue: the messages lie in the log, and a session knows how far it was sent them.

    sent up to here          delivered to live clients
    ──────────────┤──────────────────────────────┤
                   what is owed: read when there is room

A session that is live costs nothing here: it has been sent what is delivered. When a message cannot be sent to it, it
falls behind: from then on it reads the log, until it has caught up with what is being delivered, in the same loop
iteration, so that nothing is missed and nothing comes twice. State is a number for each shard, for any backlog.
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.lake_log import LakeLog
from holdfast.durable.log import NO_END, LostRange, MessageLog
from holdfast.durable.queues.client_queue import BacklogEnd, RunStart, SessionQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.replay import LogReplay
from holdfast.durable.sessions.session_store import StoredSession
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.cursors import EVERY_ZONE, Cursor
from holdfast.records.session.progress import GivenOut, ProgressEntry
from holdfast.topics.filters import TopicFilter
from holdfast.topics.subscription import SubscriptionRecord

#: Filters that are scanned each for itself. With more of them, everything is read once and looked through.
_MAX_SCANS: Final = 16
#: The filters to read a whole shard by.
_EVERYTHING: Final[list[tuple[bytes, ...]]] = [()]
#: Bytes of messages that end a read, though there may be more.
_MAX_READ_BYTES: Final = 1 << 20
#: Messages looked at in one go by a read by time, whether they are owed or not.
_LOOKED: Final = 2000


class SubscriptionFilters:
    """The filters of a session, by shard: those of its subscriptions, or the one for everything if they are many."""

    def __init__(self, log: MessageLog, subscriptions: dict[bytes, SubscriptionRecord], *, many: bool = False) -> None:
        self._log: Final = log
        self._subscriptions: Final = subscriptions
        #: For very many subscriptions: what grows with them, one by one. Filters of subscriptions that are gone stay,
        #: and find nothing. None if they are looked up.
        self._by_shard: Final[dict[int, list[tuple[bytes, ...]]] | None] = {} if many else None

    def add(self, levels: tuple[bytes, ...]) -> None:
        """A subscription was added. Requires: there are many."""
        by_shard = self._by_shard
        if by_shard is None:
            return
        for shard in self._log.shards_for(levels):
            filters = by_shard.setdefault(shard, [])
            if filters == _EVERYTHING or levels in filters:
                continue
            if len(filters) == _MAX_SCANS:
                by_shard[shard] = _EVERYTHING
            else:
                filters.append(levels)

    def filters_of(self, shard: int) -> list[tuple[bytes, ...]]:
        if self._by_shard is not None:
            return self._by_shard.get(shard, [])
        filters: list[tuple[bytes, ...]] = []
        for record in self._subscriptions.values():
            levels = record.filter.levels
            if not record.filter.group and levels not in filters and shard in self._log.shards_for(levels):
                if len(filters) == _MAX_SCANS:
                    return _EVERYTHING
                filters.append(levels)
        return filters


class LogQueue(SessionQueue):
    """What a session is owed, as the log has it. Survives: what the log and the session's progress survive.

    1. While it is not behind, the session was sent everything up to `delivered`, in every shard.
    2. While it is behind, it was sent everything up to `sent_up_to(shard)`.
    """

    def __init__(
        self,
        log: MessageLog,
        delivered: dict[int, int],
        rule: OwedRule,
        new_unlogged: Callable[[], MemoryQueue],
        lost: Callable[[str, LostRange], None],
        until_us: int = NO_END,
    ) -> None:
        self._log: Final = log
        #: The last position of each shard that was delivered to live clients. Shared by all.
        self._delivered: Final = delivered
        self._rule: Final = rule
        self._subscriptions: Final = rule.subscriptions
        #: What is owed and not in any log; made when there is something.
        self._unlogged: MemoryQueue | None = None
        self._new_unlogged: Final = new_unlogged
        self._lost: Final = lost
        #: Nothing from here on belongs to it.
        self._until_us: Final = until_us
        #: Whether all shards are merged by time; else each is in order for itself.
        self._by_time = until_us != NO_END
        #: By time: nothing above is given out yet, and it is not at its end before there is no such bound.
        self.up_to_us = NO_END
        #: By time, after a read that found nothing: the position of the next message; NO_END if there is none as of
        #: now, 0 if that is not known yet.
        self.next_us = 0
        self._behind = False
        #: How far it was sent its messages while it is behind; None while it is not.
        self._sent: dict[int, int] | None = None
        #: What reads the log while it is behind; made when it is read.
        self._replay: LogReplay | None = None
        #: Makes the log with the lake behind it, for each reading; None if no lake is read. And that of this reading.
        self._open_lake: Callable[[], LakeLog] | None = None
        self._lake: LakeLog | None = None
        #: Kept for very many subscriptions only; else made with the replay.
        self._filters: SubscriptionFilters | None = None

    # ---- how far it is

    def sent(self) -> dict[int, int]:
        """How far the session was sent its messages, in each shard."""
        sent = dict(self._delivered)
        if self._behind:
            for shard in sent:
                sent[shard] = self._sent_up_to(shard)
        return sent

    def _sent_up_to(self, shard: int) -> int:
        if self._replay is not None:
            return self._replay.done_us(shard)
        sent = self._sent
        return sent[shard] if sent is not None and shard in sent else self._earliest_us() - 1

    def _earliest_us(self) -> int:
        """Where a shard begins that was not known: at the first subscription."""
        earliest_us = -1
        for record in self._subscriptions.values():
            if earliest_us < 0 or record.since_us < earliest_us:
                earliest_us = record.since_us
        return max(earliest_us, 1)

    def sent_before(self) -> list[ProgressEntry]:
        return []  # the window has everything that was sent

    def given_out(self) -> GivenOut | None:
        """Of a group: what it had given out before a restart, until all of that is read again."""
        return self._rule.given_out()

    def resume(self, stored: StoredSession, crashed: RunStart | None) -> None:
        messages = [owed.message for owed in stored.inflight.values()]
        messages += stored.unacknowledged.values()  # above the progress, if it was sent before its commit
        done = stored.done | {(message.shard, message.position_us) for message in messages}
        sent = {} if stored.progress is None else stored.progress.sent
        self.continue_from(sent, done, {} if crashed is None else crashed.heads)
        self._rule.given_out_before(None if stored.progress is None else stored.progress.given_out)

    def continue_from(self, sent: dict[int, int], done: set[tuple[int, int]], repeated: dict[int, int]) -> None:
        """Read on behind these positions, without what is done; up to `repeated` it may have been sent before."""
        self._behind = True
        self._sent = dict(sent)
        self._end_reading()
        self._rule.sent_before(done, repeated)

    def owed(self, message: Message) -> Owed | None:
        return self._rule.owed(message)

    def skip(self, message: Message) -> bool:
        if self._behind and message.position_us:
            self._rule.skip(message)
            return True
        return False

    def backlog_end(self) -> BacklogEnd:
        return BacklogEnd(dict(self._delivered), 0 if self._unlogged is None else self._unlogged.last_serial())

    def has_sent(self, end: BacklogEnd, cursor: int) -> bool:
        if cursor < end.serial:
            return False
        return not self._behind or all(self._sent_up_to(shard) >= end.positions[shard] for shard in end.positions)

    # ---- subscriptions and connections

    def subscribed(self, topic_filter: TopicFilter) -> None:
        self._changed(topic_filter)

    def unsubscribed(self, topic_filter: TopicFilter) -> None:
        self._rule.forget(topic_filter.raw)
        self._changed(topic_filter)

    def replayed(self, raw: bytes, up_to: dict[int, int] | None) -> None:
        self._rule.replayed(raw, up_to)
        record = self._subscriptions.get(raw)
        if record is not None:
            self._changed(record.filter)

    def ends(self, raw: bytes, until_us: int) -> None:
        self._rule.ends(raw, until_us)

    def end_of(self, raw: bytes) -> int:
        return self._rule.end_of(raw)

    def online(self) -> None:
        """What it is owed is read when there is room."""

    def offline(self) -> None:
        """Its position is all that it has."""

    def waits(self) -> bool:
        return self._lake is not None and self._lake.waits()

    def in_log(self) -> bool:
        return True

    def merge_by_time(self) -> None:
        """Read all shards as one sequence, in the order of positions."""
        self._by_time = True

    def read_lake(self, open_lake: Callable[[], LakeLog]) -> None:
        """Read from a lake what the log does not have any more; `open_lake` is called for each reading.

        What is replayed of a lake is merged by time: it knows no generations, at whose borders a replay of the log has
        all shards meet.
        """
        self._open_lake = open_lake
        self._end_reading()

    def rest(self) -> None:
        """It is not read for a while: hold nothing of the store meanwhile."""
        if self._behind:
            self._sent = self.sent()
            self._end_reading()

    def pause(self) -> None:
        """The same; but what a page of a lake has is kept for the one who goes on."""
        lake = self._lake
        if not self._behind or lake is None or lake.is_over:
            self.rest()
            return
        self._sent = self.sent()
        self._replay = None
        lake.pause(self._sent)

    def expect_many(self) -> None:
        """What finds very many subscriptions grows with them, and not at once when it is read.

        A zone that a filter does not concern now, it does not concern later.
        """
        self._rule.expect_many()
        self._filters = SubscriptionFilters(self._log, self._subscriptions, many=True)

    def _changed(self, topic_filter: TopicFilter) -> None:
        """A subscription was added, replaced or removed, or what is replayed of it has changed."""
        self._rule.changed(topic_filter)
        if self._filters is not None and not topic_filter.group and topic_filter.raw in self._subscriptions:
            self._filters.add(topic_filter.levels)
        self.rest()

    # ---- the queue

    def append(self, messages: list[Owed]) -> int:
        dropped = 0
        for owed in messages:
            message = owed.message
            if not message.position_us:
                if self._unlogged is None:
                    self._unlogged = self._new_unlogged()
                dropped += self._unlogged.append([owed])
            elif not self._behind:
                self._behind = True
                self._sent = dict(self._delivered)
                self._sent[message.shard] = message.position_us - 1
                self._end_reading()
        return dropped

    def read(self, after: int, limit: int) -> list[Owed]:
        found: list[Owed] = []
        if self._behind:
            self._read_log(found, limit)
        if not found and not self._behind and self._unlogged is not None:
            found = self._unlogged.read(after, limit)
        return found

    def _read_log(self, found: list[Owed], limit: int) -> None:
        replay = self._replay
        if replay is None:
            replay = self._replay = self._new_replay()
        replay.up_to_us = self.up_to_us
        # A node that has no message yet has no shard either: without a look it would be behind until one comes.
        most = _LOOKED if self._by_time else limit * max(len(self._delivered), 1)
        looked = size_bytes = 0
        at_end = False
        while len(found) < limit and size_bytes < _MAX_READ_BYTES:
            if looked >= most:
                self.next_us = 0
                break
            try:
                page = replay.next(limit - len(found))
            except PermanentError:
                if not found:
                    raise
                break  # the replay is past what was found: it is sent first, and the next read fails
            self.next_us = replay.next_us
            for lost in page.lost:
                self._lost(self._rule.session_id, lost)
            for message in page.messages:
                owed = self._rule.owed(message)
                if owed is not None:
                    found.append(owed)
                    size_bytes += owed.size_bytes
            looked += len(page.messages)
            at_end = page.at_end
            if at_end or not page.messages:
                break
        if at_end and not found:
            self._behind = False
            self._sent = None
            self._end_reading()
            self._rule.caught_up()

    def _end_reading(self) -> None:
        """What reads on begins again, from where it was."""
        self._replay = None
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    def _new_replay(self) -> LogReplay:
        filters = self._filters or SubscriptionFilters(self._log, self._subscriptions)
        log = self._log
        if self._open_lake is not None:
            if self._lake is None:
                self._lake = self._open_lake()
            log = self._lake
            if self._lake.is_needed({shard: self._sent_up_to(shard) + 1 for shard in self._delivered}):
                self._by_time = True
        return LogReplay(
            log,
            filters.filters_of,
            self._earliest_us(),
            self._until_us,
            cursor=Cursor(EVERY_ZONE, self._done()),
            by_time=self._by_time,
            ends=self._delivered,
        )

    def _done(self) -> dict[int, int]:
        """By shard, up to where it was sent its messages. Requires: it is not read now.

        History that has nothing of a shard yet begins with the earliest there is. A session was owed all of it: what is
        gone is lost.
        """
        sent = self._sent or {}
        if self._rule.with_qos0:
            return {shard: sent_us for shard, sent_us in sent.items() if sent_us}
        return {shard: self._sent_up_to(shard) for shard in {*sent, *self._log.heads()}}

    def at_end(self) -> bool:
        return not self._behind

    def acknowledge(self, serial: int) -> None:
        if self._unlogged is not None:
            self._unlogged.acknowledge(serial)

    def release(self, serial: int) -> None:
        if self._unlogged is not None:
            self._unlogged.release(serial)

    def count(self) -> int:
        """An estimate: whether anything is owed. An exact count would cost reading the backlog."""
        unlogged = 0 if self._unlogged is None else self._unlogged.count()
        return unlogged + (1 if self._behind else 0)

    def drop_unread(self) -> int:
        """Count everything that is owed now as sent; how many messages that are in no log went with it."""
        self._behind = False
        self._sent = None
        self._end_reading()
        self._rule.caught_up()
        return 0 if self._unlogged is None else self._unlogged.drop_unread()

    def drop(self) -> None:
        self._behind = False
        self._end_reading()
        self._rule.drop()
        self._filters = None
        if self._unlogged is not None:
            self._unlogged.drop()
