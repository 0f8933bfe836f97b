"""Homes of queues by their address, and everything that one holds."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from holdfast.durable.queues.queue_store import QueueStore
from holdfast.node.system_clock import SystemClock
from holdfast.storage.queue_addresses import open_backend
from holdfast.storage.queue_copy import BackendSource, fingerprint

Result = TypeVar("Result")
#: Every queue: where it is, and its messages with their places.
Queues = dict[str, tuple[tuple[int, int], list[bytes]]]


def on(address: str, act: Callable[[QueueStore], Awaitable[Result]]) -> Result:
    """Open a home, which is made if there is none, and act on it."""

    async def work() -> Result:
        store = await open_backend(address, SystemClock(), create=True)
        try:
            return await act(store)
        finally:
            await store.close()

    step: Coroutine[Any, Any, Result] = work()
    return asyncio.run(step)


async def held(store: QueueStore) -> Queues:
    names = [client_id async for client_id in store.clients()]
    source = BackendSource(store)
    return {name: (await store.last(name), [fingerprint(one) async for one in source.entries(name)]) for name in names}
