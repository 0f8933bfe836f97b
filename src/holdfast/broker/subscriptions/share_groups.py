"""The groups of shared subscriptions: begun, joined, left, stored, ended.

1. The first member says where a group begins, and the first that says so how long work may rest. Later ones join it.
2. A group ends with its last member. Members whose sessions are stored and not in memory are members, too.
3. A group with a member whose session is stored is stored itself: where it began, how far it is, who its members are.
"""

from collections.abc import Callable
from typing import Final

from holdfast.broker.deadlines import Deadlines
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.broker.subscriptions.share_request import STEAL_AFTER, ShareRequest
from holdfast.durable.log import NO_END
from holdfast.durable.sessions.session_store import (
    DropMember,
    DropSession,
    KeepGroup,
    KeepMember,
    KeepSession,
    StoredSession,
)
from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.exchange.drops import DROP_SESSION_ENDED
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.owed import Owed
from holdfast.model.time import SECOND_US
from holdfast.records.session.groups import GROUP_PREFIX, GroupRecord
from holdfast.records.session.session_record import SessionRecord
from holdfast.session.state import NEVER
from holdfast.topics.filters import TopicFilter
from holdfast.topics.subscription import SubscriptionRecord

#: A group ends with its last member, and no sooner.
_GROUP_RECORD: Final = SessionRecord(expiry_s=NEVER, disconnected_us=1)


class ShareGroups:
    """A `SharedSubscriptions` by shape: every group that has a member in memory."""

    def __init__(self, exchange: Exchange, policy: Policy, stores: Stores, clock: Clock, deadlines: Deadlines) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._drops: Final = exchange.drops
        self._group_delivery: Final = exchange.delivery.groups
        self._progress: Final = exchange.delivery.progress
        self._policy: Final = policy
        self._new_queue: Final = stores.new_queue
        self._new_replay: Final = stores.new_replay
        self._stored: Final = stores.sessions
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self.groups: Final[dict[str, Group]] = {}
        #: Keys of groups that ended, and whose end is not committed yet.
        self._ended: Final[set[str]] = set()

    def count(self) -> int:
        return len(self.groups)

    # ---- begin

    def group_for(self, client: BrokerClient, record: SubscriptionRecord, share: ShareRequest | None) -> Group:
        """The group of a subscription, which begins with it if there is none; without a request it was stored."""
        key = f"$share/{record.filter.group}/{record.filter.inner().decode()}"
        group = self.groups.get(key)
        if group is None:
            replay = bool(record.filter.since) or (share is not None and share.replay)
            group = self.groups[key] = self._begin(key, record, replay=replay)
        if share is not None and share.steal_after_us and not group.steal_after_us:
            group.steal_after_us = share.steal_after_us
            self._watch(group, group.steal_after_us)
            if group.stored_as:
                self._state.step(KeepGroup(group.stored_as, _record_of(group)))
        if client.stored() and not group.stored_as and group.backlog.sent() is not None:
            group.stored_as = GROUP_PREFIX + key
            self._state.step(KeepSession(group.stored_as, _GROUP_RECORD, None))
            self._state.step(KeepGroup(group.stored_as, _record_of(group)))
            self._progress.save_group(group)
        return group

    def _begin(self, key: str, record: SubscriptionRecord, *, replay: bool) -> Group:
        """A group that goes on where it was when the broker ended, or a new one."""
        stored = self._load(key)
        since_us = record.since_us
        steal_after_us = 0
        if stored is not None and stored.group is not None:
            since_us = stored.group.since_us
            steal_after_us = stored.group.steal_after_us
            replay = stored.group.replaying
        own = _as_group(record, since_us)
        if replay and self._new_replay is not None:
            group = Group(key, self._policy.sessions.share_strategy, own, self._new_replay(key, own, NO_END))
            group.joined = lambda: self._joined(group)
        else:
            backlog = self._new_queue(key, {own.filter.raw: own})
            group = Group(key, self._policy.sessions.share_strategy, own, backlog)
        if stored is not None and group.backlog.sent() is not None:
            group.stored_as = GROUP_PREFIX + key
            group.stored_members.update(stored.members)
            group.unlisted = stored.group is None or stored.group.unlisted
            # Without progress the broker ended before the first was stored: from the subscription on.
            group.backlog.resume(stored, None)
        if steal_after_us:
            group.steal_after_us = steal_after_us
            self._watch(group, steal_after_us)
        return group

    def _load(self, key: str) -> StoredSession | None:
        """What is stored of a group, unless it has ended: the sessions of all its members may be over."""
        if key in self._ended:
            return None
        stored = self._stored.load(GROUP_PREFIX + key)
        if stored is not None and stored.group is not None and self._is_over(stored.members, stored.group):
            self._drop_stored(key)
            return None
        return stored

    def _is_over(self, members: set[str], record: GroupRecord) -> bool:
        """Whether none of the members has a session any more."""
        return not record.unlisted and all(self._stored.record(member) is None for member in members)

    def _joined(self, group: Group) -> None:
        """A group has reached the present: what it is owed from now on was published, with QoS 1 or 2."""
        group.backlog = self._new_queue(group.key, {group.record.filter.raw: group.record})
        if group.stored_as:
            self._state.step(KeepGroup(group.stored_as, _record_of(group)))
        self._group_delivery.deliver_passed_on(group, self._exchange.passed_on())

    def await_standing(
        self,
        client: BrokerClient,  # noqa: ARG002 - a group of one node stands at once
        records: list[SubscriptionRecord],  # noqa: ARG002
        decided: Callable[[set[bytes]], None],
    ) -> None:
        decided(set())

    def describe(self, client: BrokerClient, raw: bytes, now_us: int, *, replay: bool) -> list[tuple[str, str]]:
        subscribed = client.subscribed(raw)
        assert subscribed is not None
        group = subscribed.group
        assert group is not None
        properties: list[tuple[str, str]] = []
        if replay:
            properties += [("ts", str(now_us)), ("replay-from", str(group.record.since_us))]
        if group.steal_after_us:
            properties.append((STEAL_AFTER, str(group.steal_after_us // SECOND_US)))
        return properties

    # ---- members

    def join(self, group: Group, subscribed: Subscribed) -> None:
        client = subscribed.client
        client_id = client.session.client_id
        group.members[client_id] = subscribed
        if group not in client.groups:
            client.groups = (*client.groups, group)
        if client.stored() and group.stored_as and client_id not in group.stored_members:
            group.stored_members.add(client_id)
            self._state.step(KeepMember(group.stored_as, client_id))

    def leave(self, client: BrokerClient, group: Group) -> None:
        """The client is a member no more. What it has in flight it keeps: it may be about to acknowledge it.

        The group's progress passes that, and must not go back when the client joins again: QoS 2 would come twice.
        """
        client_id = client.session.client_id
        client.session.window.leave_group(group.key)
        self._progress.group_changed(group)
        group.members.pop(client_id, None)
        if group in client.groups:
            client.groups = tuple(other for other in client.groups if other is not group)
        if client_id in group.stored_members:
            group.stored_members.discard(client_id)
            self._state.step(DropMember(group.stored_as, client_id))
        if not group.members:
            self._end(group)

    def _end(self, group: Group) -> None:
        given_back = [owed for owed in group.held if owed.serial == 0]
        count = group.backlog.count() + len(given_back)
        now_us = self._state.now_us
        self._drops.lose(DROP_SESSION_ENDED, group.key, count, now_us, "the last member is gone")
        self.groups.pop(group.key, None)
        group.unsaved = False
        if group.stored_as and self._is_over(group.stored_members, _record_of(group)):
            self._drop_stored(group.key)

    def _drop_stored(self, key: str) -> None:
        """Have a group removed; until that is committed, what is stored of it does not count."""
        self._state.step(DropSession(GROUP_PREFIX + key, _GROUP_RECORD))
        self._ended.add(key)
        self._state.follow_up(GROUP_PREFIX + key, lambda: self._ended.discard(key))

    def take_from_absent(self, client: BrokerClient) -> None:
        """A member is online again: it gets what waits for its groups, with what absent members had in flight."""
        for group in client.groups:
            for member in list(group.members.values()):
                if member.client.owner is None:
                    self._give_back(member.client, group)
            self._group_delivery.drain(group)

    def share_out(self, client: BrokerClient) -> None:
        """A member is gone: those who are there get what it did not acknowledge, unless they have it already."""
        client.session.window.drop_stolen()
        for group in client.groups:
            if any(member.client.channel is not None for member in group.members.values()):
                self._give_back(client, group)

    def leave_all(self, client: BrokerClient) -> None:
        """A member's session ends."""
        for group in client.groups:
            group.members.pop(client.session.client_id, None)
            self._give_back(client, group)

    def _give_back(self, client: BrokerClient, group: Group) -> None:
        """Unacknowledged QoS 1 work of an absent member goes to the others.

        QoS 2 stays: once begun it is completed with this client or not at all [MQTT-4.8.2-4] [MQTT-4.8.2-5].
        """
        window = client.session.window
        given_back: list[Owed] = []
        for packet_id in window.packet_ids():
            owed = window.owed(packet_id)
            if owed is not None and owed.qos == 1 and owed.group == group.key:
                if not window.is_stolen(packet_id):
                    given_back.append(owed)
                window.discard(packet_id)
        self._group_delivery.give_back(group, given_back)

    # ---- work that rests

    def _watch(self, group: Group, delay_us: int) -> None:
        self._deadlines.after(delay_us, lambda: self._steal(group))

    def _steal(self, group: Group) -> None:
        if self.groups.get(group.key) is group:
            self._state.schedule()
            self._watch(group, self._group_delivery.steal(group, self._clock.monotonic_us()))


def _record_of(group: Group) -> GroupRecord:
    return GroupRecord(
        group.record.since_us,
        replaying=group.joined is not None,
        steal_after_us=group.steal_after_us,
        unlisted=group.unlisted,
    )


def _as_group(record: SubscriptionRecord, since_us: int) -> SubscriptionRecord:
    """The subscription as the group's own: every message of every publisher; members have their own options."""
    plain = TopicFilter(record.filter.inner(), record.filter.levels, "", "")
    return SubscriptionRecord(plain, 2, False, False, 0, 0, since_us)
