"""Every kind of simulation, by its name."""

from typing import Final

from tests.simulation.clock_simulation import ClockSimulation
from tests.simulation.cluster_simulation import Simulation
from tests.simulation.group_simulation import GroupSimulation
from tests.simulation.half_open_simulation import HalfOpenSimulation
from tests.simulation.number_simulation import NumberSimulation
from tests.simulation.retained_simulation import RetainedSimulation
from tests.simulation.seeded_cluster import SeededCluster
from tests.simulation.subscription_simulation import SubscriptionSimulation
from tests.simulation.takeover_simulation import TakeoverSimulation
from tests.simulation.will_simulation import WillSimulation

SIMULATIONS: Final[dict[str, type[SeededCluster]]] = {
    "messages": Simulation,
    "half open": HalfOpenSimulation,
    "numbers": NumberSimulation,
    "wills": WillSimulation,
    "subscriptions": SubscriptionSimulation,
    "retained": RetainedSimulation,
    "takeovers": TakeoverSimulation,
    "clocks": ClockSimulation,
    "groups": GroupSimulation,
}
