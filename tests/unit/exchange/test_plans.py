"""Plans: what they cost, which the route cache counts."""

import tracemalloc

import pytest

from holdfast.exchange.plans import DeliveryPlan, make_plan
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Suback, Subscribe, Subscription
from holdfast.wire.properties import NO_PROPERTIES, Properties
from tests.world import World

pytestmark = pytest.mark.compiled

TOPIC = b"plant/temp"
CLIENTS = 200


def plan_of(world: World) -> DeliveryPlan:
    return make_plan(world.broker.exchange.routes.route(TOPIC).targets, TOPIC)


@pytest.mark.parametrize("properties", [NO_PROPERTIES, Properties(subscription_identifiers=(100_000,))])
def test_the_cost_of_a_wide_plan_is_about_what_it_takes(properties: Properties) -> None:
    """The constants are those of interpreted objects; compiled ones are smaller, so the estimate errs upward."""
    with World() as world:
        for number in range(CLIENTS):
            peer = world.connect(f"client-{number}")
            peer.send(Subscribe(1, (Subscription(parse_filter(b"plant/#"), 1),), properties))
            peer.take(Suback)
        plan_of(world)  # whatever is made once for all is there
        tracemalloc.start()
        try:
            plan = plan_of(world)
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert len(plan.targets) == CLIENTS
    assert taken * 0.9 < plan.cost_bytes() < taken * 2


def test_two_ways_to_reach_one_client_cost_two_targets() -> None:
    with World() as world:
        empty = plan_of(world).cost_bytes()
        peer = world.connect("client")
        peer.subscribe("plant/#")
        one = plan_of(world).cost_bytes()
        peer.subscribe("#", no_local=True)
        both = plan_of(world)
    assert both.targets[0].own() is not both.targets[0]
    assert both.cost_bytes() - empty == 2 * (one - empty)


def test_the_route_cache_counts_the_plans_of_the_exchange() -> None:
    with World() as world:
        world.connect("client").subscribe("plant/#")
        world.broker.exchange.routing.plan_for(TOPIC)
        plan = world.broker.exchange.routing.plan_for(TOPIC)  # kept when it is asked for again
        route = world.broker.exchange.routes.route(TOPIC)
        assert route.plan is plan
        assert route.plan_bytes == plan.cost_bytes()
        world.broker.exchange.routes.check_invariants()
