"""Subscriptions of sessions: live ones, and those that begin in the past."""

from typing import Final

import structlog

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.broker.subscriptions.share_groups import ShareGroups
from holdfast.broker.subscriptions.share_request import ShareRequest
from holdfast.broker.subscriptions.shared_subscriptions import SharedSubscriptions
from holdfast.durable.lake_log import LakeHistory
from holdfast.durable.log import NO_END
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.sessions.session_store import (
    DropRetainedProgress,
    DropSubscription,
    KeepReplay,
    KeepSubscription,
)
from holdfast.exchange.client import BrokerClient, ReplayDelivery, Subscribed
from holdfast.exchange.drops import LAKE_AWAY
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.pace import Pace
from holdfast.model.clock import Clock
from holdfast.records.session.sessions import ReplayProgress
from holdfast.topics.subscription import SubscriptionRecord

_log = structlog.get_logger()

#: User properties of SUBACK: up to when messages come from the lake, and whether it could not be read the last time.
_LAKE: Final = "replay-lake"
_LAKE_STATE: Final = "replay-lake-state"
_AWAY: Final = "away"
#: Between two looks whether a slow client has everything up to an end.
_LOOK_AGAIN_US: Final = 100_000


class SessionSubscriptions:
    """Who gets what."""

    def __init__(self, exchange: Exchange, policy: Policy, stores: Stores, clock: Clock, deadlines: Deadlines) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._sender: Final = exchange.delivery.sender
        self._delivery: Final = exchange.delivery
        self._new_replay: Final = stores.new_replay
        self._lake: Final = stores.lake
        self._delivered: Final = stores.delivered
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        #: Subscriptions that are to end, by client id and filter.
        self._ends: Final[dict[tuple[str, bytes], Deadline]] = {}
        self.shared: Final[SharedSubscriptions] = (
            ShareGroups(exchange, policy, stores, clock, deadlines)
            if stores.shared is None
            else stores.shared(exchange)
        )

    def add(
        self, client: BrokerClient, record: SubscriptionRecord, share: ShareRequest | None = None
    ) -> tuple[Subscribed, bool]:
        """Add or replace a subscription; the entry, and whether it is new.

        Then the progress of a session that is stored has to be stored in the same batch: after a crash a shard's
        positions are ahead of the clock, so `since` alone does not tell what was there before the subscription.
        """
        replay = client.replay_of(record.filter.raw)
        if replay is not None:
            return self._go_on(client, record, replay), False
        if client.stored():
            self._state.step(KeepSubscription(client.session.client_id, record))
        return self.restore(client, record, client.queue.end_of(record.filter.raw), share)  # it keeps its end

    def restore(
        self,
        client: BrokerClient,
        record: SubscriptionRecord,
        until_us: int = NO_END,
        share: ShareRequest | None = None,
    ) -> tuple[Subscribed, bool]:
        """The same for a subscription that is stored already, and that may have an end."""
        is_new = self._keep_record(client, record)
        group = self.shared.group_for(client, record, share) if record.filter.group else None
        subscribed = Subscribed(client, record, group, until_us)
        self._exchange.routing.subscribe(subscribed, self._state.batch.number)
        self._await_end(subscribed)
        client.queue.subscribed(record.filter)
        if group is not None:
            self.shared.join(group, subscribed)
        return subscribed, is_new

    # ---- replays

    def has_history(self) -> bool:
        return self._new_replay is not None

    def present_us(self, now_us: int) -> int:
        """A time behind everything that was delivered: after a crash, positions are ahead of the clock for a while."""
        return max([now_us, *(position_us + 1 for position_us in self._delivered.values())])

    def replay(
        self,
        client: BrokerClient,
        record: SubscriptionRecord,
        until_us: int,
        pace: Pace | None = None,
        end_topic: bytes = b"",
    ) -> ReplayDelivery:
        """Add or replace a subscription that begins in the past; it becomes a live one when it reaches the present.

        A message on `end_topic`, if there is one, tells the client when that is.
        """
        raw = record.filter.raw
        had_retained = client.forget_retained(raw)
        self.remove(client, raw)
        if client.stored():
            if had_retained:
                self._state.step(DropRetainedProgress(client.session.client_id, raw))
            self._state.step(KeepSubscription(client.session.client_id, record))
            begun = ReplayProgress({}, until_us, joined=False)
            if pace is not None:
                begun = ReplayProgress({}, until_us, joined=False, speed=pace.speed, at_us=pace.first_us)
            self._state.step(KeepReplay(client.session.client_id, raw, begun))
        return self._replay(client, record, until_us, pace, end_topic)

    def _go_on(self, client: BrokerClient, record: SubscriptionRecord, before: ReplayDelivery) -> Subscribed:
        """A subscription is replaced while it is replayed: the rest follows with the new options."""
        if client.stored():
            self._state.step(KeepSubscription(client.session.client_id, record))
        sent = before.queue.sent()
        replay = self._replay(client, record, before.until_us, before.pace, before.end_topic)
        replay.queue.continue_from(sent, set(), {})
        client.add_replay(replay)
        return replay.subscribed

    def restore_replay(self, client: BrokerClient, record: SubscriptionRecord, progress: ReplayProgress) -> None:
        """Go on with a replay that is stored."""
        if progress.joined:
            self.restore(client, record, progress.until_us)
            client.queue.replayed(record.filter.raw, progress.sent)
            return
        pace = Pace(progress.speed, progress.at_us) if progress.speed else None
        replay = self._replay(client, record, progress.until_us, pace)
        replay.queue.continue_from(progress.sent, set(), {})
        client.add_replay(replay)

    def _replay(
        self,
        client: BrokerClient,
        record: SubscriptionRecord,
        until_us: int,
        pace: Pace | None,
        end_topic: bytes = b"",
    ) -> ReplayDelivery:
        assert self._new_replay is not None
        self._keep_record(client, record)
        client.queue.replayed(record.filter.raw, None)
        subscribed = Subscribed(client, record, None, until_us)
        queue = self._new_replay(client.session.client_id, record, until_us)
        if pace is not None:
            queue.merge_by_time()
        if self._lake is not None:
            self._read_lake(self._lake, client, record, queue)
        return ReplayDelivery(queue, subscribed, until_us, lambda: self._join(subscribed, end_topic), end_topic, pace)

    def _read_lake(self, lake: LakeHistory, client: BrokerClient, record: SubscriptionRecord, queue: LogQueue) -> None:
        """Have a replay read from the lake what the log does not have any more."""

        def ready() -> None:
            if client.channel is not None:
                self._state.pump_soon(client)
                self._state.schedule()

        def given_up(why: str, missing: dict[int, tuple[int, int]]) -> None:
            client_id = client.session.client_id
            topic = record.filter.raw
            for shard, (from_us, before_us) in missing.items():
                now_us = self._clock.wall_us()
                event = self._state.drops.note(LAKE_AWAY, client_id, topic, now_us, 1, shard, max(1, from_us), why)
                event.to_us = max(event.to_us, before_us - 1)
            _log.warning("replay goes on without the lake", client=client_id, why=why)

        queue.read_lake(lambda: lake.open(record.filter.levels, ready, given_up))

    def lake_properties(self, record: SubscriptionRecord) -> list[tuple[str, str]]:
        """What SUBACK says about the part of a replay that comes from the lake."""
        border_us = 0 if self._lake is None else self._lake.border_us(record.filter.levels, record.since_us)
        if self._lake is None or not border_us:
            return []
        found = [(_LAKE, str(border_us))]
        # Why is for the operator: it may name folders and stores.
        return [*found, (_LAKE_STATE, _AWAY)] if self._lake.problem() else found

    def _join(self, subscribed: Subscribed, end_topic: bytes) -> None:
        """The present, or its own end, is reached: live messages follow, up to the end."""
        self._exchange.routing.subscribe(subscribed, self._state.batch.number)
        self._delivery.replays.send_passed_on(subscribed, self._exchange.passed_on())
        if subscribed.until_us == NO_END:
            self._tell(subscribed, end_topic)
        self._await_end(subscribed, end_topic)

    def _tell(self, subscribed: Subscribed, end_topic: bytes) -> None:
        if end_topic:
            self._sender.send_notice(subscribed.client, end_topic, subscribed.record.filter.raw)
            self._state.schedule()

    def _tell_behind_the_queue(self, subscribed: Subscribed, end_topic: bytes) -> None:
        """What is queued for a slow client may lie below the end."""
        if end_topic and subscribed.client.behind:
            self._deadlines.after(_LOOK_AGAIN_US, lambda: self._tell_behind_the_queue(subscribed, end_topic))
        else:
            self._tell(subscribed, end_topic)

    def _await_end(self, subscribed: Subscribed, end_topic: bytes = b"") -> None:
        """Take a subscription out of the matcher when its end has come.

        That is for those that are not asked for any more; what lies behind the end is left out message by message.
        """
        until_us = subscribed.until_us
        if until_us == NO_END:
            return
        client = subscribed.client
        raw = subscribed.record.filter.raw
        client.queue.ends(raw, until_us)
        self._cancel_end(client, raw)
        left_us = until_us - self.present_us(self._clock.wall_us())
        if left_us > 0:
            self._ends[client.session.client_id, raw] = self._deadlines.after(
                left_us, lambda: self._await_end(subscribed, end_topic)
            )
        else:
            # What was written before has a position below the end, perhaps, and is delivered when it is committed.
            self._state.follow_up(client.session.client_id, lambda: self._end(subscribed, end_topic))

    def _cancel_end(self, client: BrokerClient, raw: bytes) -> None:
        deadline = self._ends.pop((client.session.client_id, raw), None)
        if deadline is not None:
            deadline.cancel()

    def _end(self, subscribed: Subscribed, end_topic: bytes) -> None:
        client = subscribed.client
        if client.subscribed(subscribed.record.filter.raw) is subscribed:
            self._exchange.routing.unsubscribe(client, subscribed.record.filter)
            self._tell_behind_the_queue(subscribed, end_topic)

    def drop_if_over(self, client: BrokerClient, raw: bytes) -> None:
        """Forget a subscription whose end has passed: to subscribe again makes a new one."""
        if client.queue.end_of(raw) <= self._clock.wall_us():
            self.drop(client, raw)

    # ---- ends

    def drop(self, client: BrokerClient, raw: bytes) -> bool:
        """Unsubscribe; whether there was a subscription."""
        if not client.stored():
            return self.remove(client, raw)
        self._state.step(DropSubscription(client.session.client_id, raw))
        subscribed = client.subscribed(raw)
        found = self.remove(client, raw)
        if subscribed is not None and subscribed.group is not None:
            # What it has in flight of the group is its own from now on, and no group gives it out again.
            self._exchange.delivery.progress.save(client)
        return found

    def remove(self, client: BrokerClient, raw: bytes) -> bool:
        """Take a subscription out of memory; what is stored of it stays."""
        record = client.session.subscriptions.pop(raw, None)
        if record is None:
            return False
        client.filter_levels -= len(record.filter.levels)
        client.end_deliveries(raw)
        self._cancel_end(client, raw)
        subscribed = self._exchange.routing.unsubscribe(client, record.filter)
        client.queue.unsubscribed(record.filter)
        if subscribed is not None and subscribed.group is not None:
            self.shared.leave(client, subscribed.group)
        return True

    @staticmethod
    def _keep_record(client: BrokerClient, record: SubscriptionRecord) -> bool:
        """Put a subscription into the session; whether it is new there."""
        subscriptions = client.session.subscriptions
        is_new = record.filter.raw not in subscriptions
        subscriptions[record.filter.raw] = record
        if is_new:
            client.filter_levels += len(record.filter.levels)
        return is_new
