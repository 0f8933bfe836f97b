"""Sessions: begun, resumed, left behind, ended; their wills and their share of groups."""

from typing import Final

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.broker.wills import Wills
from holdfast.durable.sessions import (
    DropSession,
    DropSubscription,
    KeepSession,
    KeepSubscription,
    StoredSession,
)
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Subscribed
from holdfast.exchange.counters import DROP_SESSION_ENDED
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.groups import Group
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.reasons import QUOTA_EXCEEDED
from holdfast.model.will import StoredWill
from holdfast.records.sessions import SessionRecord
from holdfast.session.state import NEVER, SessionState, will_delay_s
from holdfast.topics.subscription import SubscriptionRecord

_SECOND_US: Final = 1_000_000


class Sessions:
    """All sessions of this node, online and offline.

    1. An offline session without expiry does not exist.
    2. What is stored of a session that outlives its connection is, with the batch under way, what it is here.
    """

    def __init__(
        self,
        exchange: Exchange,
        policy: Policy,
        clock: Clock,
        deadlines: Deadlines,
        stores: Stores,
    ) -> None:
        self._exchange: Final = exchange
        self._policy: Final = policy
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._stored: Final = stores.sessions
        self._new_queue: Final = stores.new_queue
        self.clients: Final[dict[str, Client]] = {}
        self.groups: Final[dict[str, Group]] = {}
        self._expiries: Final[dict[str, Deadline]] = {}
        #: Sessions that ended, and whose end is not committed yet.
        self._dropped: Final[set[str]] = set()
        self.wills: Final = Wills(exchange, clock, deadlines, max_qos=policy.mqtt.max_qos)
        self.expired = 0

    # ---- begin and end

    def open(self, client_id: str, *, clean_start: bool) -> tuple[Client, bool]:
        """The client's session, and whether it was there before."""
        existing = self.clients.get(client_id)
        if existing is not None and clean_start:
            self.end(existing)
            existing = None
        if existing is not None:
            self._cancel_expiry(client_id)
            return existing, True
        stored = None if client_id in self._dropped else self._stored.load(client_id)
        most = self._policy.limits.max_sessions
        if stored is None and most and len(self.clients) >= most:
            raise PeerError(QUOTA_EXCEEDED, f"there are {most} sessions, which is the limit")
        if stored is not None and clean_start:
            self._drop_stored(client_id, stored.record)
            stored = None
        client = Client(SessionState(client_id), self._new_queue())
        self.clients[client_id] = client
        if stored is not None:
            self._restore(client, stored)
        return client, stored is not None

    def _restore(self, client: Client, stored: StoredSession) -> None:
        """Go on with a session as it was stored."""
        session = client.session
        session.record = stored.record
        session.expiry_s = stored.record.expiry_s
        session.disconnected_us = stored.record.disconnected_us
        session.incoming.update(stored.incoming)
        for packet_id, owed in stored.inflight.items():
            session.next_order()
            session.window.restore(packet_id, owed, released=packet_id in stored.released)
        for record in stored.subscriptions.values():
            self._add(client, record)

    def attach(
        self, client: Client, channel: Channel, *, expiry_s: int, inflight: int, will: StoredWill | None
    ) -> None:
        """A connection takes its place in the session."""
        session = client.session
        session.expiry_s = expiry_s
        session.disconnected_us = 0
        session.window.limit_bytes = self._policy.sessions.max_inflight_bytes
        session.window.reconnected(inflight)
        client.owner = channel
        channel.client = client
        self.wills.drop(session.client_id)
        if session.persistent() or will is not None or session.record is not None:
            self._keep(client, will)

    def _keep(self, client: Client, will: StoredWill | None) -> None:
        """Have the session itself stored as it is now."""
        session = client.session
        record = SessionRecord(expiry_s=session.expiry_s, disconnected_us=session.disconnected_us, will=will)
        self._exchange.under_way.step(KeepSession(session.client_id, record, session.record))
        session.record = record

    def begin(self, client: Client, channel: Channel) -> None:
        """CONNACK is on its way: messages may follow it now [MQTT-3.2.0-1]."""
        client.channel = channel
        client.behind = True  # until the queue turns out to be empty
        self._rights_changed(client, channel)
        self._exchange.delivery.pump(client)
        self._take_from_absent(client)

    def _rights_changed(self, client: Client, channel: Channel) -> None:
        """Plans leave out who may not read a topic on the present connection: have them made again."""
        if channel.access is not None:
            for record in client.session.subscriptions.values():
                self._exchange.routes.touch(record.filter)

    def detach(self, client: Client) -> None:
        """The connection is gone; the session waits for the next one, or ends."""
        self._exchange.wake()
        session = client.session
        if client.channel is not None:
            self._rights_changed(client, client.channel)
        client.channel = client.owner = None
        session.disconnected_us = self._clock.wall_us()
        for group in client.groups:
            if any(member.client.channel is not None for member in group.members.values()):
                self._give_back(client, group)
        if not session.persistent():
            self.end(client)
            return
        self._keep(client, self.wills.waiting(session.client_id))
        if session.expiry_s != NEVER:
            self._expiries[session.client_id] = self._deadlines.after(
                session.expiry_s * _SECOND_US, lambda: self._expire(client)
            )

    def _expire(self, client: Client) -> None:
        if client.owner is None:
            self.expired += 1
            self.end(client)

    def end(self, client: Client) -> None:
        """The session is over: everything of it goes, and a will that waited is due [MQTT-3.1.3-9]."""
        client_id = client.session.client_id
        self._cancel_expiry(client_id)
        self.wills.publish_waiting(client_id)
        if client.session.record is not None:
            self._drop_stored(client_id, client.session.record)
        for group in client.groups:
            group.members.pop(client_id, None)
            self._give_back(client, group)
        window = client.session.window
        unqueued = [owed for owed in map(window.owed, window.packet_ids()) if owed is not None and owed.serial == 0]
        self._exchange.counters.drop(DROP_SESSION_ENDED, client.queue.count() + len(unqueued))
        for raw in list(client.session.subscriptions):
            self._remove(client, raw)
        client.queue.drop()
        client.walks.clear()
        self.clients.pop(client_id, None)

    def _drop_stored(self, client_id: str, record: SessionRecord) -> None:
        """Have everything of a session removed; until that is committed, what is stored of it does not count."""
        self._exchange.under_way.step(DropSession(client_id, record))
        self._dropped.add(client_id)
        self._exchange.after_commit(None, b"", lambda: self._dropped.discard(client_id))

    def _cancel_expiry(self, client_id: str) -> None:
        deadline = self._expiries.pop(client_id, None)
        if deadline is not None:
            deadline.cancel()

    # ---- wills

    def leave_will(self, client: Client, will: StoredWill) -> None:
        """The connection ended without goodbye: publish its will, after its delay."""
        session = client.session
        delay_s = will_delay_s(will, session.expiry_s)
        self.wills.leave(session.client_id, will, delay_s, lambda: self._will_due(client))

    def _will_due(self, client: Client) -> None:
        """The delay has passed. One commit publishes the will and forgets it, so that it comes once."""
        if self.wills.publish_waiting(client.session.client_id) and client.session.record is not None:
            self._keep(client, None)

    # ---- subscriptions

    def subscribe(self, client: Client, record: SubscriptionRecord) -> tuple[Subscribed, bool]:
        """Add or replace a subscription; the entry, and whether it is new."""
        if client.stored():
            self._exchange.under_way.step(KeepSubscription(client.session.client_id, record))
        return self._add(client, record)

    def _add(self, client: Client, record: SubscriptionRecord) -> tuple[Subscribed, bool]:
        raw = record.filter.raw
        is_new = raw not in client.session.subscriptions
        client.session.subscriptions[raw] = record
        group = self._group(record) if record.filter.group else None
        subscribed = Subscribed(client, record, group)
        self._exchange.subscribe(subscribed)
        if group is not None:
            group.members[client.session.client_id] = subscribed
            if group not in client.groups:
                client.groups.append(group)
            self._exchange.delivery.drain_backlog(group)
        return subscribed, is_new

    def unsubscribe(self, client: Client, raw: bytes) -> bool:
        """Remove a subscription; whether there was one."""
        if client.stored():
            self._exchange.under_way.step(DropSubscription(client.session.client_id, raw))
        return self._remove(client, raw)

    def _remove(self, client: Client, raw: bytes) -> bool:
        record = client.session.subscriptions.pop(raw, None)
        if record is None:
            return False
        client.drop_walks(raw)
        subscribed = self._exchange.unsubscribe(client, record.filter)
        if subscribed is not None and subscribed.group is not None:
            self._leave_group(client, subscribed.group)
        return True

    def _take_from_absent(self, client: Client) -> None:
        """A member is online again: it gets what waits for its groups, with what absent members had in flight."""
        for group in client.groups:
            for member in list(group.members.values()):
                if member.client.owner is None:
                    self._give_back(member.client, group)
            self._exchange.delivery.drain_backlog(group)

    def _group(self, record: SubscriptionRecord) -> Group:
        key = f"$share/{record.filter.group}/{record.filter.inner().decode()}"
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key, self._policy.sessions.share_strategy, self._new_queue())
        return group

    def _leave_group(self, client: Client, group: Group) -> None:
        """The client is a member no more. What it has in flight it keeps: it may be about to acknowledge it."""
        group.members.pop(client.session.client_id, None)
        if group in client.groups:
            client.groups.remove(group)
        if not group.members:
            self._exchange.counters.drop(DROP_SESSION_ENDED, group.backlog.count())
            self.groups.pop(group.key, None)

    def _give_back(self, client: Client, group: Group) -> None:
        """Unacknowledged QoS 1 work of an absent member goes to the others.

        QoS 2 stays: once begun it is completed with this client or with nobody [MQTT-4.8.2-4] [MQTT-4.8.2-5].
        """
        window = client.session.window
        for packet_id in window.packet_ids():
            owed = window.owed(packet_id)
            if owed is not None and owed.qos == 1 and owed.group == group.key:
                window.discard(packet_id)
                self._exchange.delivery.give_back(group, owed)
