"""Routing: which clients get the messages of a topic. Plans are made once per topic, and kept in the route cache."""

from collections.abc import Callable
from typing import Final

from holdfast.exchange.client import BrokerClient, Subscribed
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.plans import DeliveryPlan, make_plan
from holdfast.topics.filters import TopicFilter
from holdfast.topics.route_cache import RouteCache


class RoutingTable:
    """All subscriptions of the node, and the plans made of them."""

    def __init__(self, state: LoopState, goes_early: Callable[[bytes], bool] | None) -> None:
        self._state: Final = state
        self._goes_early: Final = goes_early
        self.routes: Final[RouteCache[str, Subscribed]] = RouteCache()

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

    def subscribe(self, subscribed: Subscribed) -> None:
        """Add or replace a subscription."""
        record = subscribed.record
        client = subscribed.client
        client.subscribed[record.filter.raw] = subscribed
        client.held_batch = self._state.batch.number  # what is in the open batch reaches it with its commit
        self.routes.subscribe(record.filter, _matcher_key(client, record.filter), subscribed)

    def unsubscribe(self, client: BrokerClient, topic_filter: TopicFilter) -> Subscribed | None:
        """Remove a subscription; None if there was none."""
        subscribed = client.subscribed.pop(topic_filter.raw, None)
        if subscribed is not None:
            self.routes.unsubscribe(topic_filter, _matcher_key(client, topic_filter))
        return subscribed


def _matcher_key(client: BrokerClient, topic_filter: TopicFilter) -> str:
    """A client may hold the same inner filter alone and in several groups: each has its own key."""
    if topic_filter.group:
        return f"{topic_filter.group}/{client.session.client_id}"
    return f"/{client.session.client_id}"
