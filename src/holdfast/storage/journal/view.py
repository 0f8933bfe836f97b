"""A read-only view of a journal, also while a broker uses it.

A state is written after its commit, so all that is seen here is committed. If files are deleted meanwhile, the queue is
read again. Changes that a killed broker left in a commit file are not seen.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.journal.queue.loader import open_queue
from holdfast.storage.journal.queue.queue import JournalQueue
from holdfast.storage.journal.queue.state_file import StateBackups, load_owner
from holdfast.storage.journal.queue_folders import QueueFolders

Found = TypeVar("Found")

#: Attempts to read a queue that changes meanwhile.
_TRIES: Final = 20
_PAGE: Final = 256


class JournalView:
    """Matches `QueueStore`; refuses all changes."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._folders: Final = QueueFolders.load(root)
        self._clock: Final = clock

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        return await self._look(client_id, lambda queue: queue.read(after, limit, self._clock.wall_us())) or []

    async def size(self, client_id: str) -> QueueSize:
        return await self._look(client_id, lambda queue: queue.size(self._clock.wall_us())) or QueueSize(0, 0)

    async def last(self, client_id: str) -> tuple[int, int]:
        return await self._look(client_id, lambda queue: (queue.serial, queue.number)) or (0, 0)

    async def clients(self) -> AsyncIterator[str]:
        walk = self._walk()
        while page := await asyncio.to_thread(lambda: list(islice(walk, _PAGE))):
            for client_id in page:
                yield client_id

    def _walk(self) -> Iterator[str]:
        for _name, folder in self._folders.each():
            with suppress(FileNotFoundError, PermanentError):
                yield load_owner(folder)

    async def _look(self, client_id: str, look: Callable[[JournalQueue], Found]) -> Found | None:
        return await asyncio.to_thread(self._look_now, client_id, look)

    def _look_now(self, client_id: str, look: Callable[[JournalQueue], Found]) -> Found | None:
        for attempt in range(_TRIES):
            try:
                folder = self._folders.find(client_id)
                queue = open_queue(folder, client_id, 1, StateBackups(), self._clock.wall_us(), writable=False)
                try:
                    return look(queue)
                finally:
                    queue.close()
            except FileNotFoundError:
                if not folder.exists():
                    return None
            except PermanentError:
                if attempt == _TRIES - 1:
                    raise
        return None

    # ---- refused

    async def append(self, batches: list[AppendBatch]) -> list[Appended | Exception]:
        return [_refusal() for _batch in batches]

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        _refuse(done)

    async def release(self, client_id: str, serials: list[int]) -> None:
        _refuse((client_id, serials))

    async def drop(self, client_ids: list[str]) -> None:
        _refuse(client_ids)

    async def sweep(self, now_us: int) -> int:
        _refuse(now_us)

    async def close(self) -> None:
        """Nothing to close."""


def _refusal() -> SettingsError:
    return SettingsError("the queues are only looked at: a broker has them, and has to be stopped first")


def _refuse(_asked: object) -> NoReturn:
    raise _refusal()
