"""A broker on a disk whose client queues are in any backend, and a store whose answers a test holds back."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from holdfast.broker.policy import Policy, Sessions
from holdfast.broker.stores import Stores
from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueSize, QueueStore
from holdfast.model.clock import ManualClock
from tests.conformance.queue_backends import Opener
from tests.disk_world import DiskWorld

BACKEND: Final = "journal"


class DelayedStore:
    """Passes every call on. A closed gate keeps a call from the store, or its answer from the broker.

    The backend is opened by the first call, on the loop of the broker that asks.
    """

    def __init__(self, opener: Opener, clock: ManualClock) -> None:
        self._opener = opener
        self._clock = clock
        self._store: QueueStore | None = None
        self._opening = asyncio.Lock()
        self._calls = 0
        self._quiet = asyncio.Event()
        #: Calls by name, in the order in which the store answered.
        self.answered: list[str] = []
        #: Set is open.
        self.read_calls, self.read_answers, self.append_answers = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for gate in (self.read_calls, self.read_answers, self.append_answers):
            gate.set()

    async def quiet(self) -> None:
        """Wait until the backend has answered everything that it was asked."""
        while self._calls:
            self._quiet.clear()
            await self._quiet.wait()

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self._calls += 1
        try:
            yield
            self.answered.append(name)
        finally:
            self._calls -= 1
            self._quiet.set()

    async def _opened(self) -> QueueStore:
        async with self._opening:
            if self._store is None:
                self._store = await self._opener(self._clock)
            return self._store

    async def append(self, packs: list[AppendBatch]) -> list[Appended | Exception]:
        with self._call("append"):
            answers = await (await self._opened()).append(packs)
        await self.append_answers.wait()
        return answers

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        await self.read_calls.wait()
        with self._call("read"):
            entries = await (await self._opened()).read(client_id, after, limit)
        await self.read_answers.wait()
        return entries

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        with self._call("acknowledge"):
            await (await self._opened()).acknowledge(done)

    async def release(self, client_id: str, serials: list[int]) -> None:
        with self._call("release"):
            await (await self._opened()).release(client_id, serials)

    async def size(self, client_id: str) -> QueueSize:
        with self._call("size"):
            return await (await self._opened()).size(client_id)

    async def last(self, client_id: str) -> tuple[int, int]:
        with self._call("last"):
            return await (await self._opened()).last(client_id)

    async def drop(self, client_ids: list[str]) -> None:
        with self._call("drop"):
            await (await self._opened()).drop(client_ids)

    async def clients(self) -> AsyncIterator[str]:
        async for client_id in (await self._opened()).clients():
            yield client_id

    async def sweep(self, now_us: int) -> int:
        with self._call("sweep"):
            return await (await self._opened()).sweep(now_us)

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class DelayedWorld(DiskWorld):
    """Another one on the same folder and the same backend is a restart after a crash."""

    def __init__(self, folder: Path, opener: Opener) -> None:
        self._opener = opener
        super().__init__(folder, Policy(sessions=Sessions(queue=BACKEND)))

    def make_stores(self, policy: Policy) -> Stores:
        stores = super().make_stores(policy)
        self.held = DelayedStore(self._opener, self.clock)
        return replace(stores, queue_backends={BACKEND: self.held})

    def settle(self) -> None:
        """Wait for what was asked of the backend; an answer may lead to the next question."""
        for _round in range(3):
            super().settle()
            self._loop.run_until_complete(self.held.quiet())
        super().settle()

    def size(self, client_id: str) -> int:
        return self._loop.run_until_complete(self.held.size(client_id)).messages

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self.broker.__aexit__(kind, error, trace))
        self._loop.run_until_complete(self.held.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.disk.close()
