"""SUBSCRIBE and UNSUBSCRIBE: each filter is judged on its own, the answer waits for the commit."""

from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.broker.connections.connection import ClientConnection
from holdfast.broker.policy import Policy
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.broker.subscriptions.replay_request import parse_replay_request
from holdfast.broker.subscriptions.share_request import ShareRequest, parse_share_request
from holdfast.exchange.client import BrokerClient, Channel, ReplayDelivery, Subscribed
from holdfast.exchange.drops import SUBSCRIBE_REFUSED
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.pace import Pace
from holdfast.exchange.retained_delivery import RetainedDelivery
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.protocol import V5
from holdfast.model.reasons import (
    IMPLEMENTATION_SPECIFIC_ERROR,
    NO_SUBSCRIPTION_EXISTED,
    NOT_AUTHORIZED,
    PACKET_TOO_LARGE,
    QUOTA_EXCEEDED,
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
    SUCCESS,
    TOPIC_FILTER_INVALID,
    UNSPECIFIED_ERROR,
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
)
from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.codec import encode
from holdfast.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.primitives import encode_varint
from holdfast.wire.properties import NO_PROPERTIES, Properties

_RETAINED_ALWAYS: Final = 0
_RETAINED_IF_NEW: Final = 1
#: Levels on the average of the filters of a session that has as many as it may. A level of a wildcard filter takes as
#: much memory as a short filter does, and there may be hundreds in each.
_MEAN_LEVELS: Final = 20
#: Why a shared subscription is refused in a cluster.
_NO_LEADER: Final = "the node that leads this group has not answered in time; subscribe again"
#: SUBACK and UNSUBACK behind their header, without reasons: the packet id, and that there are no properties.
_ANSWER_BYTES: Final = 3


@dataclass(eq=False)
class _Answer:
    """What SUBACK says, and what follows it."""

    packet_id: int
    reasons: list[int] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)
    retained: list[tuple[Subscribed, RetainedDelivery]] = field(default_factory=list)
    replays: list[ReplayDelivery] = field(default_factory=list)
    #: Shared subscriptions, by filter the index of their reason, and whether history is wanted.
    shared: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    #: Those of them that the session did not have before.
    new_shared: set[bytes] = field(default_factory=set)
    #: Whether groups were waited for.
    waits: bool = False


class SubscribeHandler:
    """Handles the two packets for connected clients."""

    def __init__(self, exchange: Exchange, sessions: BrokerSessions, policy: Policy, clock: Clock) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._delivery: Final = exchange.delivery
        self._subscriptions: Final = sessions.subscriptions
        self._retained: Final = sessions.retained
        self._policy: Final = policy
        self._clock: Final = clock

    def subscribe(self, connection: ClientConnection, client: BrokerClient, packet: Subscribe) -> None:
        """Subscribe to each filter that may be, answer for all of them, then send what is retained."""
        _check_answer_fits(connection.channel, len(packet.subscriptions))
        answer = _Answer(packet.packet_id)
        any_new = False
        asked = packet.properties.user_properties
        identifiers = packet.properties.subscription_identifiers
        identifier = identifiers[0] if identifiers else 0
        for subscription in packet.subscriptions:
            topic_filter = subscription.filter
            now_us = self._clock.wall_us()
            try:
                self._check(connection, client, topic_filter)
                present_us = self._subscriptions.present_us(now_us)
                span = parse_replay_request(topic_filter, asked, now_us, present_us)
                if span is not None:
                    self._check_replay(client, topic_filter, len(answer.replays))
                share = parse_share_request(topic_filter, asked, replay=span is not None)
            except PeerError as refusal:
                self._refuse(connection, topic_filter, answer, refusal)
                continue
            answer.reasons.append(min(subscription.qos, self._policy.mqtt.max_qos))
            if span is not None and not topic_filter.group:
                record = self._record(connection, subscription, identifier, span.from_us)
                pace = Pace(span.speed, span.first_us()) if span.speed else None
                answer.replays.append(self._subscriptions.replay(client, record, span.until_us, pace, span.end_topic))
                answer.properties += span.suback_properties(now_us)
                answer.properties += self._subscriptions.lake_properties(record)
                continue
            since_us = None if span is None else span.from_us
            delivery, is_new = self._subscribe_one(connection, client, subscription, identifier, since_us, share)
            any_new = any_new or is_new
            if delivery is not None:
                answer.retained.append(delivery)
            if topic_filter.group:
                answer.shared[topic_filter.raw] = (len(answer.reasons) - 1, span is not None)
                if is_new:
                    answer.new_shared.add(topic_filter.raw)
                if not self._exchange.settings.log_decides:
                    answer.properties += self._subscriptions.shared.describe(
                        client, topic_filter.raw, now_us, replay=span is not None
                    )
        if any_new and client.stored():
            self._delivery.progress.save(client)  # once, as it costs as much as there is in flight
        if answer.shared:
            self._await_groups(connection, client, answer)
        else:
            self._send_suback(connection, client, answer)

    def _refuse(
        self, connection: ClientConnection, topic_filter: TopicFilter, answer: "_Answer", refusal: PeerError
    ) -> None:
        answer.reasons.append(refusal.reason)
        self._exchange.counters.refuse(refusal.reason)
        now_us = self._clock.wall_us()
        self._exchange.drops.note(
            SUBSCRIBE_REFUSED, connection.session_id, topic_filter.raw, now_us, detail=refusal.detail
        )
        answer.complaints.append(f"{topic_filter.raw.decode()}: {refusal.detail}")

    def _await_groups(self, connection: ClientConnection, client: BrokerClient, answer: "_Answer") -> None:
        """Answer when every group stands with this member. Its packets wait meanwhile, if that takes a while."""
        channel = connection.channel
        records = [client.session.subscriptions[raw] for raw in answer.shared]
        channel.blocked = True

        def decided(failed: set[bytes]) -> None:
            channel.blocked = False
            if channel.closed or client.owner is not channel:
                return
            for raw in failed:
                # An earlier SUBACK may have confirmed one that is not new: its group stays, and loses nothing.
                if raw in answer.new_shared:
                    self._subscriptions.drop(client, raw)
                answer.reasons[answer.shared[raw][0]] = UNSPECIFIED_ERROR
                self._exchange.counters.refuse(UNSPECIFIED_ERROR)
                answer.complaints.append(f"{raw.decode()}: {_NO_LEADER}")
            if self._exchange.settings.log_decides:
                # What holds for a group is known when it stands.
                for raw, (_index, replay) in answer.shared.items():
                    now_us = self._clock.wall_us()
                    answer.properties += self._subscriptions.shared.describe(client, raw, now_us, replay=replay)
            self._send_suback(connection, client, answer)
            if answer.waits:
                self._exchange.resume(channel)

        self._subscriptions.shared.await_standing(client, records, decided)
        answer.waits = channel.blocked

    def _send_suback(self, connection: ClientConnection, client: BrokerClient, answer: "_Answer") -> None:
        properties = NO_PROPERTIES
        if (answer.complaints or answer.properties) and connection.explain:
            properties = Properties(
                reason_string="; ".join(answer.complaints)[:1000] or None, user_properties=tuple(answer.properties)
            )
        channel = connection.channel
        reasons = tuple(answer.reasons)
        frame = encode(Suback(answer.packet_id, reasons, properties), channel.version)
        if len(frame) > channel.max_packet_bytes:  # [MQTT-3.9.2-1]
            frame = encode(Suback(answer.packet_id, reasons), channel.version)
        self._state.after_commit(channel, frame, lambda: self._start(client, channel, answer.retained, answer.replays))

    def _start(
        self,
        client: BrokerClient,
        channel: Channel,
        retained: list[tuple[Subscribed, RetainedDelivery]],
        replays: list[ReplayDelivery],
    ) -> None:
        """Send what is retained as of now, and history: what comes later reaches the subscription by itself."""
        for replay in replays:
            record = replay.subscribed.record
            if replay.subscribed.client.session.subscriptions.get(record.filter.raw) is record:
                self._delivery.start_replay(replay)
        if client.groups:
            self._delivery.pump(client)
        for subscribed, delivery in retained:
            self._retained.start(subscribed, delivery, channel)

    def _check(self, connection: ClientConnection, client: BrokerClient, topic_filter: TopicFilter) -> None:
        """PeerError if a filter may not be subscribed to."""
        mqtt = self._policy.mqtt
        if len(topic_filter.levels) > mqtt.max_topic_levels:
            raise PeerError(TOPIC_FILTER_INVALID, f"more than {mqtt.max_topic_levels} levels")
        if topic_filter.wildcard and not mqtt.wildcards_available:
            raise PeerError(WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, "wildcards are switched off")
        if topic_filter.group and not mqtt.shared_available:
            raise PeerError(SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, "shared subscriptions are switched off")
        most = self._policy.limits.max_subscriptions
        known = topic_filter.raw in client.session.subscriptions
        if most and not known and len(client.session.subscriptions) >= most:
            raise PeerError(QUOTA_EXCEEDED, f"a session may have {most} subscriptions")
        if most and not known and client.filter_levels + len(topic_filter.levels) > most * _MEAN_LEVELS:
            raise PeerError(QUOTA_EXCEEDED, f"the filters of a session may have {most * _MEAN_LEVELS} levels together")
        most = self._policy.limits.max_shared_subscriptions
        if topic_filter.group and most and not known and len(client.groups) >= most:
            raise PeerError(QUOTA_EXCEEDED, f"a session may have {most} shared subscriptions")
        access = connection.access
        if access is not None and not access.may_subscribe(mount_filter(connection, topic_filter)):
            raise PeerError(NOT_AUTHORIZED, "not allowed")

    def _check_replay(self, client: BrokerClient, topic_filter: TopicFilter, more: int) -> None:
        """PeerError if history cannot be given to a filter, beside `more` replays of the same packet."""
        if not self._subscriptions.has_history():
            raise PeerError(IMPLEMENTATION_SPECIFIC_ERROR, "this node keeps no history to replay")
        most = self._policy.limits.max_replays
        running = 0 if client.replays is None else len(client.replays)
        if not topic_filter.group and 0 < most <= running + more:
            raise PeerError(QUOTA_EXCEEDED, f"a session may have {most} replays")

    def _subscribe_one(
        self,
        connection: ClientConnection,
        client: BrokerClient,
        subscription: Subscription,
        identifier: int,
        since_us: int | None,
        share: ShareRequest,
    ) -> tuple[tuple[Subscribed, RetainedDelivery] | None, bool]:
        """Make the subscription; what it gets of retained messages if it asks for them, and whether it is new."""
        self._subscriptions.drop_if_over(client, subscription.filter.raw)
        before = client.session.subscriptions.get(subscription.filter.raw)
        if since_us is None:
            since_us = self._clock.wall_us() if before is None else before.since_us
        record = self._record(connection, subscription, identifier, since_us, share.window)
        if self._exchange.settings.log_decides:
            # A group that begins in the past begins at a time, and has no heads.
            begins_us = since_us if share.replay and before is None else 0 if before is None else before.since_us
            heads = dict(self._exchange.delivered) if before is None else before.since_heads
            record = replace(record, since_us=begins_us, since_heads={} if begins_us else heads)
        subscribed, is_new = self._subscriptions.add(client, record, share)
        handling = subscription.retain_handling
        wanted = handling == _RETAINED_ALWAYS or (handling == _RETAINED_IF_NEW and is_new)
        if not wanted or record.filter.group:
            return None, is_new
        return (subscribed, self._retained.begin(subscribed)), is_new

    def _record(
        self,
        connection: ClientConnection,
        subscription: Subscription,
        identifier: int,
        since_us: int,
        share_window: int = 0,
    ) -> SubscriptionRecord:
        return SubscriptionRecord(
            mount_filter(connection, subscription.filter),
            min(subscription.qos, self._policy.mqtt.max_qos),
            subscription.no_local or (connection.bridge and not subscription.filter.group),  # [MQTT-3.8.3-4]
            subscription.retain_as_published or connection.bridge,
            subscription.retain_handling,
            identifier,
            since_us,
            len(connection.channel.mount) if subscription.filter.levels[0] in (ONE, REST) else 0,
            share_window,
        )

    def unsubscribe(self, connection: ClientConnection, client: BrokerClient, packet: Unsubscribe) -> None:
        """Remove each filter, and answer for all of them [MQTT-3.10.4-4]."""
        _check_answer_fits(connection.channel, len(packet.filters))
        found = [self._subscriptions.drop(client, topic_filter.raw) for topic_filter in packet.filters]
        reasons = tuple(SUCCESS if was else NO_SUBSCRIPTION_EXISTED for was in found)
        version = connection.channel.version
        frame = encode(Unsuback(packet.packet_id, reasons if version == V5 else ()), version)
        self._state.after_commit(connection.channel, frame)


def _check_answer_fits(channel: Channel, filters: int) -> None:
    """PeerError if a SUBACK or UNSUBACK for so many filters is larger than the client takes [MQTT-3.1.2-24]."""
    rest = _ANSWER_BYTES + filters
    size = 1 + len(encode_varint(rest)) + rest
    if size > channel.max_packet_bytes:
        raise PeerError(
            PACKET_TOO_LARGE,
            f"the answer for {filters} filters has {size} bytes or more, and the client's Maximum Packet Size is "
            f"{channel.max_packet_bytes}; name fewer filters at once",
        )


def mount_filter(connection: ClientConnection, topic_filter: TopicFilter) -> TopicFilter:
    """The filter as the node sees it: with the listener's mount point in front of the inner filter."""
    mount = connection.channel.mount
    if not mount:
        return topic_filter
    levels = tuple((mount + topic_filter.inner()).split(b"/"))
    return TopicFilter(topic_filter.raw, levels, topic_filter.group, topic_filter.since)
