"""A cluster keeps its promises whatever happens in which order, for many seeds.

HOLDFAST_SIMULATION_SEEDS and HOLDFAST_SIMULATION_FIRST choose the seeds; `seed_run.py` is for very many of them. A
failure prints its seed and the story of the run; `SIMULATIONS[kind](seed).run()` tells it again.
"""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from tests.simulation.simulations import SIMULATIONS

SEEDS = int(os.environ.get("HOLDFAST_SIMULATION_SEEDS", "200"))
FIRST = int(os.environ.get("HOLDFAST_SIMULATION_FIRST", "0"))
#: Seeds of one test: a few seconds.
PART = 50
#: Seeds that are not worth waiting for the slow tests.
QUICK_SEEDS = 20

#: Seeds that once found a defect of the product, by simulation.
KEPT_SEEDS = [
    ("wills", 102),
    ("wills", 159),
    ("wills", 295),
    ("clocks", 185),
    ("clocks", 100642),
    ("clocks", 101281),
    ("clocks", 101368),
    ("groups", 1462),
    ("groups", 1708),
    ("groups", 3191),
    ("groups", 100905),
    ("groups", 100947),
    ("takeovers", 11992),
    ("takeovers", 101026),
]


@pytest.fixture(autouse=True)
def _no_log_lines() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_cluster_keeps_its_promises(name: str) -> None:
    for seed in range(QUICK_SEEDS):
        SIMULATIONS[name](seed).run()


@pytest.mark.slow
@pytest.mark.seeds
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PART))
@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_cluster_keeps_its_promises_for_many_seeds(name: str, first: int) -> None:
    for seed in range(first, min(first + PART, FIRST + SEEDS)):
        SIMULATIONS[name](seed).run()


@pytest.mark.parametrize(("name", "seed"), KEPT_SEEDS)
def test_what_once_broke_a_promise_does_so_no_more(name: str, seed: int) -> None:
    SIMULATIONS[name](seed).run()
