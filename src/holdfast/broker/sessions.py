"""Sessions: begun, resumed, left behind, ended; their wills and their share of groups."""

from collections.abc import Callable
from typing import Final

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.broker.policy import Policy
from holdfast.durable.queue import ClientQueue
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Subscribed
from holdfast.exchange.counters import DROP_SESSION_ENDED
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.groups import Group
from holdfast.model.clock import Clock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import WILL
from holdfast.session.state import NEVER, SessionState, SubscriptionRecord, will_delay_s
from holdfast.wire.packets import Will
from holdfast.wire.properties import Properties, encode_property_list

_SECOND_US: Final = 1_000_000


class Sessions:
    """All sessions of this node, online and offline.

    1. An offline session without expiry does not exist.
    2. A will that waits for its delay belongs to a client that is offline.
    """

    def __init__(
        self,
        exchange: Exchange,
        policy: Policy,
        clock: Clock,
        deadlines: Deadlines,
        new_queue: Callable[[], ClientQueue],
    ) -> None:
        self._exchange: Final = exchange
        self._policy: Final = policy
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._new_queue: Final = new_queue
        self.clients: Final[dict[str, Client]] = {}
        self.groups: Final[dict[str, Group]] = {}
        self._expiries: Final[dict[str, Deadline]] = {}
        self._wills: Final[dict[str, tuple[Will, bytes, Deadline]]] = {}
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
        client = Client(SessionState(client_id), self._new_queue())
        client.session.window.limit_bytes = self._policy.sessions.max_inflight_bytes
        self.clients[client_id] = client
        return client, False

    def attach(self, client: Client, channel: Channel, *, expiry_s: int, inflight: int) -> None:
        """A connection takes its place in the session."""
        client.session.expiry_s = expiry_s
        client.session.disconnected_us = 0
        client.session.window.reconnected(inflight)
        client.owner = channel
        channel.client = client
        self._drop_will(client.session.client_id)

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
        elif session.expiry_s != NEVER:
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
        self.publish_waiting_will(client_id)
        for group in client.groups:
            group.members.pop(client_id, None)
            self._give_back(client, group)
        window = client.session.window
        unqueued = [owed for owed in map(window.owed, window.packet_ids()) if owed is not None and owed.serial == 0]
        self._exchange.counters.drop(DROP_SESSION_ENDED, client.queue.count() + len(unqueued))
        for raw in list(client.session.subscriptions):
            self.unsubscribe(client, raw)
        client.queue.drop()
        client.walks.clear()
        self.clients.pop(client_id, None)

    def _cancel_expiry(self, client_id: str) -> None:
        deadline = self._expiries.pop(client_id, None)
        if deadline is not None:
            deadline.cancel()

    # ---- wills

    def leave_will(self, client: Client, will: Will, mount: bytes) -> None:
        """The connection ended without goodbye: publish its will, after its delay."""
        delay_s = will_delay_s(will, client.session.expiry_s)
        if delay_s == 0:
            self._publish_will(client.session.client_id, will, mount)
            return
        client_id = client.session.client_id
        deadline = self._deadlines.after(delay_s * _SECOND_US, lambda: self.publish_waiting_will(client_id))
        self._wills[client_id] = (will, mount, deadline)

    def publish_waiting_will(self, client_id: str) -> None:
        """Publish the will that waits for this client, if there is one."""
        waiting = self._wills.pop(client_id, None)
        if waiting is not None:
            waiting[2].cancel()
            self._publish_will(client_id, waiting[0], waiting[1])

    def _drop_will(self, client_id: str) -> None:
        """The client is back in time [MQTT-3.1.3-9]."""
        waiting = self._wills.pop(client_id, None)
        if waiting is not None:
            waiting[2].cancel()

    def _publish_will(self, client_id: str, will: Will, mount: bytes) -> None:
        now_us = self._clock.wall_us()
        expiry_s = will.properties.message_expiry_interval
        self._exchange.publish(
            Message(
                mount + will.topic.encode(),
                will.payload,
                min(will.qos, self._policy.mqtt.max_qos),
                ClientId(client_id),
                now_us,
                retain=will.retain,
                properties=will_properties(will.properties),
                expires_us=0 if expiry_s is None else now_us + max(expiry_s * _SECOND_US, 1),
            )
        )

    # ---- subscriptions

    def subscribe(self, client: Client, record: SubscriptionRecord) -> tuple[Subscribed, bool]:
        """Add or replace a subscription; the entry, and whether it is new."""
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


def will_properties(properties: Properties) -> bytes:
    """The properties of a will as those of a message: all but the delay, which is ours."""
    values = {name: value for name, value in properties.present().items() if name != "will_delay_interval"}
    return encode_property_list(Properties(**values), WILL)  # type: ignore[arg-type]
