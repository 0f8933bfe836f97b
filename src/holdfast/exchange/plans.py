"""Plans: who gets the messages of one topic, worked out once per topic and kept in the route cache.

Overlapping subscriptions of one client become one target with the highest QoS and all identifiers
[MQTT-3.3.4-2]. Clients that may not receive the topic are no targets, so that nothing is checked per message.
"""

from collections.abc import Callable
from typing import Final, Protocol

from holdfast.durable.log import NO_END
from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.topics.filters import TopicFilter
from holdfast.topics.names import SEPARATOR
from holdfast.topics.route_cache import RouteCache

#: Where the broker speaks of itself.
_SYS_PREFIX: Final = b"$SYS/"
#: Where bridges say whether they are connected, as Mosquitto's do by their wills; the name between is one level.
_BRIDGES_PREFIX: Final = b"$SYS/broker/connection/"
_BRIDGES_SUFFIX: Final = b"/state"
_BRIDGES_LEVELS: Final = 5

# Bytes of objects, as measured on interpreted modules, where they are larger by a third than compiled.
_PLAN_BYTES: Final = 224
_TARGET_BYTES: Final = 160  # with the reference to it
_IDENTIFIERS_BYTES: Final = 40
_IDENTIFIER_BYTES: Final = 40
_REFERENCE_BYTES: Final = 8


class DeliveryTarget:
    """One client and how it gets the messages of a topic."""

    def __init__(self, client: BrokerClient, qos: int, identifiers: tuple[int, ...], *, keep_retain: bool) -> None:
        self.client: Final = client
        self.qos: Final = qos
        self.identifiers: Final = identifiers
        #: Retain as published: the flag is forwarded as it came.
        self.keep_retain: Final = keep_retain
        #: What no local leaves of it for what the client published itself: all of it, or less, or nothing.
        self.all_local = True
        self.less_local: DeliveryTarget | None = None
        #: Whether frames made for all clients fit: no identifiers.
        self.plain: Final = not identifiers

    def cost_bytes(self) -> int:
        """What it takes in memory, about."""
        cost = _TARGET_BYTES
        if self.identifiers:
            cost += _IDENTIFIERS_BYTES + _IDENTIFIER_BYTES * len(self.identifiers)
        if self.less_local is not None:
            cost += self.less_local.cost_bytes()
        return cost

    def own(self) -> "DeliveryTarget | None":
        """How the client gets what it published itself; None if it does not [MQTT-3.8.3-3]."""
        # Not an attribute that may be the target itself: such a cycle would keep the client, its session and every
        # message it is owed until the garbage collector comes, long after the client has left.
        return self if self.all_local else self.less_local


class DeliveryPlan:
    """The targets and groups of a topic."""

    def __init__(
        self,
        targets: list[DeliveryTarget],
        groups: list[Group],
        levels: int,
        denied: list[BrokerClient],
        *,
        reserved: bool,
    ) -> None:
        self.targets: Final = targets
        self.groups: Final = groups
        #: Who subscribed, is connected, and may not receive the topic.
        self.denied: Final = denied
        #: How many levels the topic has.
        self.levels: Final = levels
        #: A topic of the broker's own: clients may read it and not publish to it.
        self.reserved: Final = reserved
        #: Whether one of the subscriptions has an end; then, the first of these positions, and all the subscriptions.
        self.ending = False
        self.ends_us = NO_END
        self.found: list[Subscribed] = []
        #: Whether QoS 1 messages go to who is live before their commit.
        self.early = False
        #: Whether one of the targets has an external queue.
        self.external = False
        self.empty: Final = not targets and not groups

    def cost_bytes(self) -> int:
        """What it takes in memory, about: the route cache counts it. Groups belong to others, who share them."""
        cost = _PLAN_BYTES + _REFERENCE_BYTES * (len(self.groups) + len(self.denied))
        for target in self.targets:
            cost += target.cost_bytes()
        return cost


class FilterWatch(Protocol):
    """Who has to know the filters of this node."""

    def subscribed(self, topic_filter: TopicFilter) -> None:
        """A client has one subscription more, with this filter."""

    def unsubscribed(self, topic_filter: TopicFilter) -> None:
        """A client has one subscription less."""


class RoutingTable:
    """All subscriptions of the node, and the plans made of them."""

    def __init__(self, goes_early: Callable[[bytes], bool] | None) -> None:
        self._goes_early: Final = goes_early
        self.routes: Final[RouteCache[str, Subscribed]] = RouteCache()
        #: Told of every filter that comes and goes, in a cluster.
        self.watch: FilterWatch | None = None

    def plan_for(self, topic: bytes) -> DeliveryPlan:
        """The clients and groups that get the messages of a topic; PeerError if it is no valid topic name."""
        route = self.routes.route(topic)
        plan = route.plan
        if isinstance(plan, DeliveryPlan):
            return plan
        made = make_plan(route.targets, topic)
        made.early = self._goes_early is not None and self._goes_early(topic)
        self.routes.attach(topic, route, made, made.cost_bytes())
        return made

    def subscribe(self, subscribed: Subscribed, batch: int) -> None:
        """Add or replace a subscription. What is in the open batch, of this number, reaches it with its commit."""
        record = subscribed.record
        client = subscribed.client
        client.add_subscribed(subscribed)
        client.held_batch = batch
        is_new = self.routes.subscribe(record.filter, _matcher_key(client, record.filter), subscribed)
        if is_new and self.watch is not None:
            self.watch.subscribed(record.filter)

    def unsubscribe(self, client: BrokerClient, topic_filter: TopicFilter) -> Subscribed | None:
        """Remove a subscription; None if there was none."""
        subscribed = client.end_subscribed(topic_filter.raw)
        if subscribed is not None:
            was_there = self.routes.unsubscribe(topic_filter, _matcher_key(client, topic_filter))
            if was_there and self.watch is not None:
                self.watch.unsubscribed(topic_filter)
        return subscribed


def make_plan(found: list[Subscribed], topic: bytes) -> DeliveryPlan:
    """The plan for a topic whose matching subscriptions are `found`."""
    groups: list[Group] = []
    denied: list[BrokerClient] = []
    single: dict[str, list[Subscribed]] = {}
    for subscribed in found:
        if subscribed.record.hides(topic):
            continue
        if subscribed.group is not None:
            if subscribed.group not in groups:
                groups.append(subscribed.group)
        elif may_receive(subscribed.client, topic):
            single.setdefault(subscribed.client.session.client_id, []).append(subscribed)
        elif subscribed.client not in denied:
            denied.append(subscribed.client)
    targets = [_target(overlapping) for overlapping in single.values()]
    plan = DeliveryPlan(targets, groups, topic.count(SEPARATOR) + 1, denied, reserved=is_reserved(topic))
    for target in targets:
        if target.client.external is not None:
            plan.external = True
    for subscribed in found:
        if subscribed.until_us < plan.ends_us:
            plan.ending = True
            plan.ends_us = subscribed.until_us
            plan.found = found
    return plan


def is_reserved(topic: bytes) -> bool:
    """Whether a topic is the broker's own: clients may read it and not publish to it."""
    if not topic.startswith(_SYS_PREFIX):
        return False
    of_bridge = topic.startswith(_BRIDGES_PREFIX) and topic.endswith(_BRIDGES_SUFFIX)
    return not of_bridge or topic.count(SEPARATOR) != _BRIDGES_LEVELS - 1


def plan_at(plan: DeliveryPlan, topic: bytes, position_us: int) -> DeliveryPlan:
    """The plan without what has ended at a position."""
    return make_plan([subscribed for subscribed in plan.found if position_us < subscribed.until_us], topic)


def _target(overlapping: list[Subscribed]) -> DeliveryTarget:
    if len(overlapping) == 1:
        return _single_target(overlapping[0])
    target = _merge(overlapping)
    local = [subscribed for subscribed in overlapping if not subscribed.record.no_local]
    if len(local) < len(overlapping):
        target.all_local = False
        target.less_local = _merge(local) if local else None
    return target


def _single_target(subscribed: Subscribed) -> DeliveryTarget:
    """As most are: made for every topic that is new."""
    record = subscribed.record
    identifiers = (record.identifier,) if record.identifier else ()
    target = DeliveryTarget(subscribed.client, record.qos, identifiers, keep_retain=record.retain_as_published)
    target.all_local = not record.no_local
    return target


def _merge(overlapping: list[Subscribed]) -> DeliveryTarget:
    records = [subscribed.record for subscribed in overlapping]
    return DeliveryTarget(
        overlapping[0].client,
        max(record.qos for record in records),
        tuple(record.identifier for record in records if record.identifier),
        keep_retain=any(record.retain_as_published for record in records),
    )


def may_receive(client: BrokerClient, topic: bytes) -> bool:
    """Whether the client's present connection may get the topic. Offline it is asked again when it returns."""
    channel = client.channel
    return channel is None or channel.access is None or channel.access.may_receive(topic)


def _matcher_key(client: BrokerClient, topic_filter: TopicFilter) -> str:
    """A client may hold the same inner filter alone and in several groups: each has its own key."""
    if topic_filter.group:
        return f"{topic_filter.group}/{client.session.client_id}"
    return f"/{client.session.client_id}"
