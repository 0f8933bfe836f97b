"""Servers that the tests of a process share, and stores on them that begin empty.

Nothing of Holdfast is imported before a fixture runs: this file is read before it is known which Holdfast is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from bench.queues.postgres_server import PACKAGE as POSTGRES_PACKAGE
from bench.queues.postgres_server import PostgresServer, program
from bench.queues.redis_server import PACKAGE as REDIS_PACKAGE
from bench.queues.redis_server import PROGRAM, RedisCluster, RedisServer
from tests.services import need

if TYPE_CHECKING:
    from holdfast.durable.queues.queue_store import QueueStore
    from holdfast.storage.postgres.options import PostgresOptions
    from holdfast.storage.postgres.queues import PostgresQueues
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues
    from tests.servers.entries import Steps

#: Every store has names of its own, so that none sees what another one left.
_NAMES = count(1)


@pytest.fixture
def steps() -> Iterator[Steps]:
    from tests.servers.entries import Steps

    runner = Steps()
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    need(PROGRAM, REDIS_PACKAGE)
    server = RedisServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    need(PROGRAM, REDIS_PACKAGE)
    cluster = RedisCluster()
    try:
        yield cluster.start()
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if program("initdb") is None:
        need("initdb", POSTGRES_PACKAGE)
    server = PostgresServer(fsync="off")
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def redis_options(redis: RedisServer) -> RedisOptions:
    from holdfast.storage.redis.options import RedisOptions

    redis.ask("FLUSHDB")
    return RedisOptions((redis.url,), prefix=f"store[{next(_NAMES)}]:")


@pytest.fixture
def cluster_options(redis_cluster: RedisCluster) -> RedisOptions:
    from holdfast.storage.redis.options import RedisOptions

    return RedisOptions(redis_cluster.urls, cluster=True, prefix=f"store[{next(_NAMES)}]:")


@pytest.fixture
def postgres_options(postgres: PostgresServer) -> PostgresOptions:
    from holdfast.storage.postgres.options import PostgresOptions

    return PostgresOptions(postgres.url, schema=f"store_{next(_NAMES)}")


#: Those that take more than a moment to start.
HOMES = ["redis", pytest.param("cluster", marks=pytest.mark.slow), pytest.param("postgres", marks=pytest.mark.slow)]


@pytest.fixture(params=HOMES)
def open_store(request: pytest.FixtureRequest, steps: Steps) -> Iterator[Callable[[], QueueStore]]:
    """Opens the same store, again and again."""
    from holdfast.storage.postgres.queues import PostgresQueues
    from holdfast.storage.redis.queues import RedisQueues

    opened: list[QueueStore] = []

    def open_it() -> QueueStore:
        if request.param == "postgres":
            store: QueueStore = PostgresQueues(request.getfixturevalue("postgres_options"), steps.clock)
        else:
            store = RedisQueues(request.getfixturevalue(f"{request.param}_options"), steps.clock)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        steps(store.close())


@pytest.fixture
def store(open_store: Callable[[], QueueStore]) -> QueueStore:
    return open_store()


@pytest.fixture
def redis_store(redis_options: RedisOptions, steps: Steps) -> Iterator[RedisQueues]:
    from holdfast.storage.redis.queues import RedisQueues

    store = RedisQueues(redis_options, steps.clock)
    yield store
    steps(store.close())


@pytest.fixture
def postgres_store(postgres_options: PostgresOptions, steps: Steps) -> Iterator[PostgresQueues]:
    from holdfast.storage.postgres.queues import PostgresQueues

    store = PostgresQueues(postgres_options, steps.clock)
    yield store
    steps(store.close())


@pytest.fixture
def raw(redis: RedisServer) -> Iterator[Redis]:
    with Redis(port=redis.port) as connection:
        yield connection


@pytest.fixture
def own_redis(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A Redis for one test, to be treated badly."""
    need(PROGRAM, REDIS_PACKAGE)
    server = RedisServer(**getattr(request, "param", {}))
    try:
        yield server.start()
    finally:
        server.close()
