"""A world in which clients have their queues outside the log: in memory, in a store that tests can break."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast.broker.policy import Policy, Sessions
from holdfast.broker.stores import Stores
from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueLimits, QueueSize
from holdfast.model.clock import ManualClock
from holdfast.model.errors import TransientError
from tests.disk_world import DiskWorld
from tests.memory_queue_store import MemoryQueueStore
from tests.slow_world import SlowWorld

BACKEND: Final = "journal"


class BreakableStore:
    """A store that is away when a test says so, and counts what it is asked."""

    def __init__(self, store: MemoryQueueStore) -> None:
        self.store = store
        self.away = False
        #: Appends arrive, and their answer is lost.
        self.deaf = False
        #: What was appended before gets no serial, though it is there.
        self.forgetful = False
        #: Clients whose queue answers with an error of its own; those of `once` with one alone.
        self.errors: dict[str, Exception] = {}
        self.once: dict[str, Exception] = {}
        #: Queues are removed when it is open.
        self.gate: asyncio.Event | None = None
        #: Appends that are answered before the store goes away; None for all.
        self.fails_after: int | None = None
        self.appends: list[list[AppendBatch]] = []
        self.reads = 0

    def _check(self, client_id: str = "") -> None:
        if self.away:
            raise TransientError("the store is away")
        if client_id in self.errors:
            raise self.errors[client_id]

    async def append(self, packs: list[AppendBatch]) -> list[Appended | Exception]:
        self._check()
        if self.fails_after is not None:
            if not self.fails_after:
                raise TransientError("the store is away")
            self.fails_after -= 1
        self.appends.append(packs)
        errors = {**self.errors, **self.once}
        self.once = {}
        answers = [errors.get(pack.client_id) or await self._append(pack) for pack in packs]
        if self.deaf:
            raise TransientError("no answer came")
        return answers

    async def _append(self, pack: AppendBatch) -> Appended | Exception:
        last = (await self.store.last(pack.client_id))[1]
        (answer,) = await self.store.append([pack])
        if self.forgetful and isinstance(answer, Appended):
            placed = zip(pack.entries, answer.serials, strict=True)
            serials = [serial if entry.number > last else 0 for entry, serial in placed]
            return Appended(serials, answer.dropped, answer.refused)
        return answer

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        self._check(client_id)
        self.reads += 1
        return await self.store.read(client_id, after, limit)

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        self._check()
        await self.store.acknowledge(done)

    async def release(self, client_id: str, serials: list[int]) -> None:
        self._check()
        await self.store.release(client_id, serials)

    def entries_of(self, client_id: str) -> list[QueueEntry]:
        """What a queue holds, for a test between two runs."""
        return asyncio.run(self.store.read(client_id, 0, 1000))

    def append_now(self, client_id: str, entries: list[QueueEntry]) -> None:
        asyncio.run(self.store.append([AppendBatch(client_id, entries, QueueLimits(1000, 1 << 20))]))

    async def size(self, client_id: str) -> QueueSize:
        return await self.store.size(client_id)

    async def last(self, client_id: str) -> tuple[int, int]:
        return await self.store.last(client_id)

    async def drop(self, client_ids: list[str]) -> None:
        self._check()
        if self.gate is not None:
            await self.gate.wait()
        await self.store.drop(client_ids)

    def clients(self) -> AsyncIterator[str]:
        return self.store.clients()

    async def sweep(self, now_us: int) -> int:
        return await self.store.sweep(now_us)

    async def close(self) -> None:
        await self.store.close()


class QueueWorld(SlowWorld):
    """Everybody's queue is outside, unless the policy says something else."""

    def __init__(self, policy: Policy | None = None, stores: Stores | None = None) -> None:
        super().__init__(policy or Policy(sessions=Sessions(queue=BACKEND)), stores=stores)
        store = self.stores.queue_backends[BACKEND]
        assert isinstance(store, BreakableStore)
        self.store = store

    def make_stores(self, policy: Policy) -> Stores:
        store = BreakableStore(MemoryQueueStore(self.clock))
        return replace(super().make_stores(policy), queue_backends={BACKEND: store})

    def size(self, client_id: str) -> int:
        """How many messages a queue holds."""
        self.advance(0.1)  # what was acknowledged is told
        return self._loop.run_until_complete(self.store.size(client_id)).messages

    def queues(self) -> list[str]:
        self.settle()

        async def look() -> list[str]:
            return [client_id async for client_id in self.store.clients()]

        return self._loop.run_until_complete(look())


class DiskQueueWorld(DiskWorld):
    """The same on a disk: another one on the same folder, with the same store, is a restart of the broker."""

    def __init__(self, folder: Path, store: BreakableStore, policy: Policy | None = None) -> None:
        self.store = store
        super().__init__(folder, policy or Policy(sessions=Sessions(queue=BACKEND)))

    def make_stores(self, policy: Policy) -> Stores:
        return replace(super().make_stores(policy), queue_backends={BACKEND: self.store})

    def size(self, client_id: str) -> int:
        self.advance(0.1)
        return self._loop.run_until_complete(self.store.size(client_id)).messages


def new_store() -> BreakableStore:
    return BreakableStore(MemoryQueueStore(ManualClock(1_700_000_000_000_000)))
