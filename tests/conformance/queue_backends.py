"""The homes of client queues that one suite runs over. A home that is not installed here is not in the list.

A home is a function that gets the test's folder and fixtures, and gives what opens the same queues again and again.
"""

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.clock import Clock
from tests.memory_queue_store import MemoryQueueStore

Opener = Callable[[Clock], Awaitable[QueueStore]]
Backend = Callable[[pytest.FixtureRequest, Path], Opener]

#: Tests share a server: each has names of its own there.
_NAMES = count(1)


def memory(_request: pytest.FixtureRequest, _folder: Path) -> Opener:
    stores: list[MemoryQueueStore] = []

    async def open_again(clock: Clock) -> QueueStore:
        if not stores:
            stores.append(MemoryQueueStore(clock))
        return stores[0]

    return open_again


def journal(_request: pytest.FixtureRequest, folder: Path) -> Opener:
    from holdfast.storage.journal.options import JournalOptions
    from holdfast.storage.journal.store import JournalStore

    options = JournalOptions(durability="os")  # what a closed file has is there: nothing is synced for tests alone
    root = folder / f"queues-{next(_NAMES)}"

    async def open_again(clock: Clock) -> QueueStore:
        return await JournalStore.open(root, clock, options)

    return open_again


def redis(request: pytest.FixtureRequest, _folder: Path) -> Opener:
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues

    options = RedisOptions((request.getfixturevalue("redis").url,), prefix=f"suite-{next(_NAMES)}:")

    async def open_again(clock: Clock) -> QueueStore:
        return RedisQueues(options, clock)

    return open_again


def redis_cluster(request: pytest.FixtureRequest, _folder: Path) -> Opener:
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues

    urls = request.getfixturevalue("redis_cluster").urls
    options = RedisOptions(urls, cluster=True, prefix=f"suite-{next(_NAMES)}:")

    async def open_again(clock: Clock) -> QueueStore:
        return RedisQueues(options, clock)

    return open_again


def postgres(request: pytest.FixtureRequest, _folder: Path) -> Opener:
    from holdfast.storage.postgres.options import PostgresOptions
    from holdfast.storage.postgres.queues import PostgresQueues

    options = PostgresOptions(request.getfixturevalue("postgres").url, schema=f"suite_{next(_NAMES)}")

    async def open_again(clock: Clock) -> QueueStore:
        return PostgresQueues(options, clock)

    return open_again


_ALL: dict[str, tuple[str, Backend]] = {
    "memory": ("tests.memory_queue_store", memory),
    "journal": ("holdfast.storage.journal", journal),
    "redis": ("holdfast.storage.redis", redis),
    "redis cluster": ("holdfast.storage.redis", redis_cluster),
    "postgres": ("holdfast.storage.postgres", postgres),
}
BACKENDS: dict[str, Backend] = {name: home for name, (module, home) in _ALL.items() if find_spec(module) is not None}
