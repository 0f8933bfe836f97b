"""The queues of a TBMQ, brought by several tasks that each have a share of the clients."""

import asyncio
from dataclasses import replace

import pytest
from redis import Redis
from typer.testing import CliRunner

from bench.queues.redis_server import RedisServer
from holdfast.cli.main import app
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline.migrate.task import MigrateJob, MigrateSums, copy_share, list_clients, tbmq_base, tbmq_obstacles
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from holdfast.storage.tbmq import OwedPacket
from tests.servers.entries import Steps, append, entries, payloads
from tests.servers.test_tbmq_import import put


@pytest.fixture
def tbmq(redis: RedisServer) -> str:
    """The address of a TBMQ with ten queues."""
    with Redis(port=redis.port, db=5) as raw:
        raw.flushdb()
        for number in range(10):
            put(raw, f"client {number}", 1, 1, "eA==")
            put(raw, f"client {number}", 2, 2, "eQ==")
    return f"tbmq+{redis.url.replace('/0', '/5')}"


def copied(job: MigrateJob, shares: int) -> MigrateSums:
    total = MigrateSums()
    for share in range(shares):
        total.add(asyncio.run(copy_share(job, share, shares)))
    return total


def test_shares_are_all_queues_of_a_tbmq(
    tbmq: str, redis_options: RedisOptions, redis_store: RedisQueues, steps: Steps
) -> None:
    """In a second run with the same base nothing is brought twice; a queue that is used is left alone."""
    steps(append(redis_store, "client 3", entries(1)))
    job = MigrateJob(tbmq, f"{redis_options.urls[0]}#{redis_options.prefix}", SystemClock())
    listed = asyncio.run(list_clients(job))
    job = MigrateJob(job.source, job.target, job.clock, base=asyncio.run(tbmq_base(job)))

    asyncio.run(copy_share(job, 0, 2))
    done = copied(job, 3)

    assert (done.queues, done.listed) == (listed.queues, listed.listed) == (10, done.listed)
    assert (done.copied, done.messages, done.failed) == (9, 18, 1)
    assert done.reasons == ["'client 3': the queue holds 1 other messages already"]
    assert [steps(payloads(redis_store, f"client {number}")) for number in (0, 3, 9)] == [
        [b"x", b"y"],
        [b"1"],
        [b"x", b"y"],
    ]


def test_a_dry_run_says_what_there_is_and_asks_for_no_data_folder(tbmq: str, redis_options: RedisOptions) -> None:
    target = f"{redis_options.urls[0]}#{redis_options.prefix}"
    shown = CliRunner().invoke(app, ["spark", "migrate", "--from", tbmq, "--to", target, "--dry-run"])
    assert (shown.exit_code, "10 queues; nothing was copied" in shown.stdout) == (0, True), shown.output


def test_a_task_leaves_alone_what_no_session_would_read(
    tbmq: str, redis_options: RedisOptions, redis_store: RedisQueues, steps: Steps
) -> None:
    """… and tells the driver which sessions to make for the others, with the packets that are owed."""
    target = f"{redis_options.urls[0]}#{redis_options.prefix}"
    job = MigrateJob(tbmq, target, SystemClock(), "client [0-2]", obstacles={"client 1": "it has a session"})
    job = replace(job, base=asyncio.run(tbmq_base(job)))

    done = copied(job, 1)

    assert (done.copied, done.failed, done.reasons) == (2, 1, ["'client 1': it has a session"])
    owed = [OwedPacket(1, 1, False), OwedPacket(2, 2, False)]
    assert sorted(done.sessions) == [("client 0", owed), ("client 2", owed)]
    assert asyncio.run(tbmq_obstacles(job, lambda client_id: "why" if client_id == "client 2" else "")) == {
        "client 2": "why"
    }
