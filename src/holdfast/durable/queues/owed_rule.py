"""What a session is owed: the rule by which messages of the log are for it, by its present subscriptions.

Pure: it knows neither a log nor a store. Sessions read the log by it (`log_queue`), and the history table `queues`
counts by it, so the two cannot disagree.
"""

from typing import Final

from holdfast.durable.log import NO_END
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.session.progress import GivenOut
from holdfast.topics.filters import REST, TopicFilter, levels_match
from holdfast.topics.matcher import Matcher
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.subscription import SubscriptionRecord

#: Subscriptions that are looked through one by one for a topic; more of them are found by a matcher.
_MAX_SCANNED: Final = 256
#: Topics whose matching subscriptions are remembered.
_REMEMBERED: Final = 1000


class OwedRule:
    """Decides which messages one session gets, with which options."""

    def __init__(
        self,
        session_id: str,
        subscriptions: dict[bytes, SubscriptionRecord],
        *,
        upgrade_qos: bool,
        with_qos0: bool = False,
    ) -> None:
        self.session_id: Final = session_id
        self.subscriptions: Final = subscriptions
        self._upgrade_qos: Final = upgrade_qos
        #: Whether it is history that is read: then QoS 0 belongs to it, too.
        self.with_qos0: Final = with_qos0
        # None for empty, in all of them: there are as many as sessions.
        #: Subscriptions that deliver nothing from a position on.
        self._ends: dict[bytes, int] | None = None
        #: Subscriptions whose replay is under way (None), or has delivered what is not above these positions.
        self._replayed: dict[bytes, dict[int, int] | None] | None = None
        #: Subscriptions that match topics that were asked for lately.
        self._matching: dict[bytes, list[SubscriptionRecord]] | None = None
        #: Its only subscription, if that is `#`; known while `_matching` is.
        self._to_everything: list[SubscriptionRecord] | None = None
        #: All subscriptions but those of groups; None until it is needed for many of them.
        self._matcher: Matcher[bytes, SubscriptionRecord] | None = None
        #: Messages that were sent before the rest, as (shard, position). Keys alone count, to save memory.
        self._done: dict[tuple[int, int], None] | None = None
        #: Up to here messages may have been sent before, by an earlier run of the broker.
        self._repeated: dict[int, int] | None = None
        #: Of a group: what an earlier run of the broker has given out to its members.
        self._given_out: GivenOut | None = None

    # ---- subscriptions

    def expect_many(self) -> None:
        """Very many subscriptions follow one by one: the matcher grows with them, and not at once when it is needed."""
        self._matcher = Matcher()

    def changed(self, topic_filter: TopicFilter) -> None:
        """A subscription was added, replaced or removed, or what is replayed of it has changed."""
        matcher = self._matcher
        if matcher is not None and not topic_filter.group:
            record = self.subscriptions.get(topic_filter.raw)
            if record is None:
                matcher.unsubscribe(topic_filter, topic_filter.raw)
            else:
                matcher.subscribe(topic_filter, topic_filter.raw, record)
        self._matching = None

    def replayed(self, raw: bytes, up_to: dict[int, int] | None) -> None:
        """A subscription is replayed on its own: what is not above these positions; without any, all of it."""
        if self._replayed is None:
            self._replayed = {}
        self._replayed[raw] = up_to

    def ends(self, raw: bytes, until_us: int) -> None:
        """A subscription delivers nothing from a position on."""
        if self._ends is None:
            self._ends = {}
        self._ends[raw] = until_us

    def end_of(self, raw: bytes) -> int:
        """The position from which on a subscription delivers nothing; NO_END if there is none."""
        return NO_END if self._ends is None else self._ends.get(raw, NO_END)

    def forget(self, raw: bytes) -> None:
        """A subscription is gone, and with it what was replayed of it, and its end."""
        if self._replayed is not None and raw in self._replayed:
            del self._replayed[raw]
        if self._ends is not None and raw in self._ends:
            del self._ends[raw]

    def drop(self) -> None:
        """The session has ended."""
        self._matcher = None

    # ---- what was sent

    def sent_before(self, done: set[tuple[int, int]], repeated: dict[int, int]) -> None:
        """These were sent, as (shard, position); and up to `repeated`, messages may have been by an earlier run."""
        for shard, position_us in done:
            self._skip(shard, position_us)
        self._repeated = repeated or None

    def given_out_before(self, given_out: GivenOut | None) -> None:
        """Of a group: these were given out before, and of them only what is open is owed."""
        self._given_out = given_out

    def given_out(self) -> GivenOut | None:
        """What was given out before and may lie ahead of what is read now."""
        return self._given_out

    def skip(self, message: Message) -> None:
        """The message was sent before those in front of it."""
        self._skip(message.shard, message.position_us)

    def _skip(self, shard: int, position_us: int) -> None:
        if self._done is None:
            self._done = {}
        self._done[shard, position_us] = None

    def caught_up(self) -> None:
        """Everything so far was sent: nothing has to be left out."""
        self._done = None
        self._repeated = None
        self._given_out = None

    # ---- the rule

    def owed(self, message: Message) -> Owed | None:
        """How the session gets a message by its present subscriptions; None if it does not."""
        if self._done and (message.shard, message.position_us) in self._done:
            return None
        if self._given_out is not None and self._given_out.is_done(message.shard, message.position_us):
            return None
        qos = -1
        keep_retain = False
        identifiers: tuple[int, ...] = ()
        for record in self._match(message.topic):
            if not record.begins_before(message.shard, message.position_us):
                continue
            if record.no_local and message.publisher == self.session_id:
                continue
            if self._replayed and self._was_replayed(record, message):
                continue
            if self._ends and message.position_us >= self._ends.get(record.filter.raw, NO_END):
                continue
            qos = max(qos, record.qos)
            keep_retain = keep_retain or record.retain_as_published
            if record.identifier:
                identifiers += (record.identifier,)
        if not self._upgrade_qos:
            qos = min(qos, message.qos)
        if qos < 0 or (qos == 0 and not self.with_qos0):  # QoS 0 is for who was there
            return None
        owed = Owed(message, qos, retain=message.retain and keep_retain, identifiers=identifiers)
        if qos < 2 and self._repeated is not None:  # of QoS 2 nothing is sent before its entry in flight is stored
            owed.repeated = message.position_us <= self._repeated.get(message.shard, 0)
        return owed

    def _was_replayed(self, record: SubscriptionRecord, message: Message) -> bool:
        raw = record.filter.raw
        if self._replayed is None or raw not in self._replayed:
            return False
        up_to = self._replayed[raw]
        return up_to is None or message.position_us <= up_to.get(message.shard, 0)

    def _match(self, topic: bytes) -> list[SubscriptionRecord]:
        """The session's own subscriptions that match a topic."""
        matching = self._matching
        if matching is None:
            matching = self._matching = {}
            self._to_everything = self._only_to_everything()
        if self._to_everything is not None and not is_dollar(topic):
            return self._to_everything  # without a look at the topic: a replay of `#` has very many of them
        known = matching.get(topic)
        if known is None:
            if len(self.subscriptions) > _MAX_SCANNED:
                known = [record for record in self._all_subscriptions().match(topic) if not record.hides(topic)]
            else:
                known = self._scan(topic)
            if len(matching) >= _REMEMBERED:
                matching.clear()
            matching[topic] = known
        return known

    def _only_to_everything(self) -> list[SubscriptionRecord] | None:
        """The only subscription, if it matches every topic but those that begin with `$`."""
        if len(self.subscriptions) != 1:
            return None
        record = next(iter(self.subscriptions.values()))
        wanted = record.filter
        return [record] if not wanted.group and wanted.levels == (REST,) and record.mount_bytes == 0 else None

    def _scan(self, topic: bytes) -> list[SubscriptionRecord]:
        levels: list[bytes] = []
        dollar = is_dollar(topic)
        known: list[SubscriptionRecord] = []
        for record in self.subscriptions.values():
            if record.filter.group or record.hides(topic):
                continue
            wanted = record.filter.levels
            if not levels and wanted[0] != REST:
                levels = topic.split(SEPARATOR)  # only a filter that looks at them needs them
            if levels_match(wanted, levels, dollar=dollar):
                known.append(record)
        return known

    def _all_subscriptions(self) -> Matcher[bytes, SubscriptionRecord]:
        """The session's subscriptions in a matcher, which is made when it is first needed."""
        matcher = self._matcher
        if matcher is None:
            matcher = self._matcher = Matcher()
            for raw, record in self.subscriptions.items():
                if not record.filter.group:
                    matcher.subscribe(record.filter, raw, record)
        return matcher
