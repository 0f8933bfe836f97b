"""The backends that can be measured here: those whose server is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

from bench.queues import postgres_server, redis_server
from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisCluster, RedisServer
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.node.system_clock import SystemClock
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.postgres.options import PostgresOptions
from holdfast.storage.postgres.queues import PostgresQueues
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues


def available() -> list[str]:
    """Names of the backends, in the order of the table."""
    names = ["journal"]
    if not redis_server.missing():
        names += ["redis", "cluster"]
    if not postgres_server.missing():
        names.append("postgres")
    return names


class Servers:
    """Servers with their default durability: PostgreSQL syncs, Redis appends to its file and syncs every second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis: RedisServer | None = None
        self.cluster: RedisCluster | None = None
        self.postgres: PostgresServer | None = None


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """All that are there, until the end."""
    found = Servers(folder)
    with ExitStack() as running:
        if not redis_server.missing():
            found.redis = running.enter_context(closing(RedisServer(folder, appendonly="yes"))).start()
            found.cluster = running.enter_context(
                closing(RedisCluster(folder, replicas=False, appendonly="yes"))
            ).start()
        if not postgres_server.missing():
            found.postgres = running.enter_context(closing(PostgresServer())).start()
        yield found


@asynccontextmanager
async def backend(name: str, running: Servers, run: str) -> AsyncIterator[QueueStore]:
    """An empty store; `run` tells it from others in the same place."""
    clock = SystemClock()
    store: QueueStore
    if name == "journal":
        store = await JournalStore.open(running.folder / f"journal-{run}", clock, JournalOptions())
    elif name == "redis":
        assert running.redis is not None
        store = RedisQueues(RedisOptions((running.redis.url,), prefix=f"{run}:"), clock)
    elif name == "cluster":
        assert running.cluster is not None
        store = RedisQueues(RedisOptions(running.cluster.urls, cluster=True, prefix=f"{run}:"), clock)
    else:
        assert running.postgres is not None
        schema = f"t_{run.replace('-', '_')}"
        store = PostgresQueues(PostgresOptions(running.postgres.url, schema=schema, timeout_s=60), clock)
    try:
        yield store
    finally:
        await store.close()
