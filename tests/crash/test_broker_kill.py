"""The broker killed at random instants under load, with clients that keep to the standard (M6, Q1 to Q4, Q8 to Q10).

HOLDFAST_CRASH_RUNS=1000 digs deeper. A failure names its seed; `python -m tests.crash.broker_run --seed …` runs the
same dice by hand, though not the same instants.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench.queues.postgres_server import PACKAGE as POSTGRES_PACKAGE
from bench.queues.postgres_server import missing as no_postgres
from bench.queues.redis_server import PACKAGE as REDIS_PACKAGE
from bench.queues.redis_server import PROGRAM as REDIS_PROGRAM
from tests.crash.broker_process import BrokerProcess
from tests.crash.broker_run import Run, crash, mixed_clients, queue_server, restless_clients
from tests.services import need

#: Deaths over all tests of this module.
RUNS = int(os.environ.get("HOLDFAST_CRASH_RUNS", "18"))
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "1"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 15 * RUNS)]


def check(run: Run) -> None:
    """Every promise was kept, and the run was worth it."""
    shown = f"seed {SEED}, {run.summary()}"
    assert run.verdict() == [], shown
    assert run.broker.complaints() == [], shown
    assert run.ledger.acknowledged > 10, shown


@pytest.mark.parametrize(
    ("clients", "start_kills"),
    [(mixed_clients, 0.0), (restless_clients, 0.0), (mixed_clients, 0.3)],
    ids=["mixed clients", "restless clients", "starts are killed as well"],
)
def test_what_was_acknowledged_arrives_in_order_and_qos_2_once(
    tmp_path: Path, clients: Callable[[Run], Awaitable[None]], start_kills: float
) -> None:
    """M6, Q1, Q2, Q3, Q4, Q8, Q10, and Session Present."""
    check(asyncio.run(crash(tmp_path, SEED, RUNS // 3, clients=clients, start_kills=start_kills)))


def test_a_clean_stop_loses_nothing_either(tmp_path: Path) -> None:
    """M6 with SIGTERM: sessions go on where they were."""
    check(asyncio.run(crash(tmp_path, SEED, max(3, RUNS // 10), end=BrokerProcess.stop)))


def test_connections_that_come_and_go_lose_and_double_nothing(tmp_path: Path) -> None:
    """Q8, Q10, L15: the broker lives, its clients are taken over, and groups share what members leave."""
    check(asyncio.run(crash(tmp_path, SEED, 0, clients=restless_clients)))


@pytest.mark.parametrize("queue", ["journal", "redis", "postgres"])
def test_queues_outside_the_log_lose_and_double_nothing(tmp_path: Path, queue: str) -> None:
    """T12, T13, Q1, Q2: the same promises, with messages in journal files, Redis or PostgreSQL."""
    if queue == "redis":
        need(REDIS_PROGRAM, REDIS_PACKAGE)
    if queue == "postgres" and no_postgres():
        need("initdb", POSTGRES_PACKAGE)
    with queue_server(queue) as (server, assignments):
        run = asyncio.run(
            crash(
                tmp_path,
                SEED,
                max(3, RUNS // 6),
                start_kills=0.2,
                server=server,
                server_kills=0.2,
                assignments=assignments,
            )
        )
    check(run)
