"""The guides of queues on servers: what a reader may paste does what the text around it says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.queues import postgres_server
from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import PACKAGE, PROGRAM, RedisServer
from tests.docs.shell import blocks_of, run_shell
from tests.services import need

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guide"
#: Seconds that a whole page may take; machines that test are busy.
DEADLINE_S = 110.0
pytestmark = pytest.mark.slow


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    need(PROGRAM, PACKAGE)
    server = RedisServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    if postgres_server.missing():
        need("initdb", postgres_server.PACKAGE)
    server = PostgresServer(fsync="off")
    try:
        yield server.start()
    finally:
        server.close()


def test_the_guide_of_redis_can_be_followed(tmp_path: Path, redis: RedisServer) -> None:
    blocks = blocks_of(GUIDES / "redis-queues.md", "## Set it up")
    assert len(blocks) == 2
    ran = run_shell("".join(blocks).replace("6379", str(redis.port)), tmp_path, DEADLINE_S)

    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    assert ran.out.splitlines() == ["orders/1 two chairs", "1", "orders/2 one table"], told


def test_the_guide_of_postgres_can_be_followed(tmp_path: Path, postgres: PostgresServer) -> None:
    blocks = blocks_of(GUIDES / "postgres-queues.md", "## Set it up")
    assert len(blocks) == 2
    text = "".join(blocks).replace("127.0.0.1:5432/holdfast", f"127.0.0.1:{postgres.port}/postgres")
    psql = postgres_server.program("psql")
    ran = run_shell(text, tmp_path, DEADLINE_S, {"psql": f'exec "{psql}" "$@"'})

    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    assert ran.out.splitlines() == ["orders/1 two chairs", "warehouse|orders/2|one table", "orders/2 one table"], told
