"""The queues of a TBMQ, brought by several tasks that each have a share of the clients."""

import asyncio
from pathlib import Path

import pytest
from redis import Redis
from typer.testing import CliRunner

from bench.queues.redis_server import RedisServer
from holdfast.cli.main import app
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline import migrate
from holdfast.pipeline.migrate_task import Migration, Sums, copy_share, list_clients, tbmq_base
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
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


def copied(work: Migration, shares: int) -> Sums:
    total = Sums()
    for share in range(shares):
        total.add(asyncio.run(copy_share(work, share, shares)))
    return total


def test_shares_are_all_queues_of_a_tbmq(
    tbmq: str, redis_options: RedisOptions, redis_store: RedisQueues, steps: Steps
) -> None:
    """In a second run with the same base nothing is brought twice; a queue that is used is left alone."""
    steps(append(redis_store, "client 3", entries(1)))
    work = Migration(tbmq, f"{redis_options.urls[0]}#{redis_options.prefix}", SystemClock())
    listed = asyncio.run(list_clients(work))
    work = Migration(work.source, work.target, work.clock, base=asyncio.run(tbmq_base(work)))

    asyncio.run(copy_share(work, 0, 2))
    done = copied(work, 3)

    assert (done.queues, done.listed) == (listed.queues, listed.listed) == (10, done.listed)
    assert (done.copied, done.messages, done.failed) == (9, 18, 1)
    assert done.reasons == ["'client 3': the queue holds 1 other messages already"]
    assert [steps(payloads(redis_store, f"client {number}")) for number in (0, 3, 9)] == [
        [b"x", b"y"],
        [b"1"],
        [b"x", b"y"],
    ]


def test_the_base_is_kept_until_everything_was_brought(
    tbmq: str, redis_options: RedisOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark would do is done here, once with a queue that is left out."""
    bases: list[int] = []

    def run(work: Migration, *_given: object) -> Sums:
        bases.append(work.base)
        return Sums(10, copied=10, messages=20, failed=int(len(bases) == 1))

    monkeypatch.setattr(migrate, "run_migrate", run)
    target = f"{redis_options.urls[0]}#{redis_options.prefix}"
    resume = tmp_path / "resume.json"
    given = ["spark", "migrate", "--from", tbmq, "--to", target, "--resume", str(resume)]

    assert CliRunner().invoke(app, given).exit_code == 1
    assert resume.exists()
    again = CliRunner().invoke(app, given)

    assert (again.exit_code, resume.exists()) == (0, False)
    assert bases[0] == bases[1] > 0
    assert "10 queues, 20 messages, 0 had expired" in again.stdout
    shown = CliRunner().invoke(app, [*given, "--dry-run"])
    assert "10 queues; nothing was copied" in shown.stdout
