"""A journal looked at from outside: while a broker has it, and without changing anything.

States are written after the commit that they are of, so that what is seen here was promised. Files may go while they
are looked at; then the queue is looked at again. What a killed broker left in a commit file is not seen.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from holdfast.durable.queue_store import Appended, Entry, Pack, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.journal.folders import Folders
from holdfast.storage.journal.opening import open_queue
from holdfast.storage.journal.queue import JournalQueue
from holdfast.storage.journal.state_file import Backups, load_owner

Found = TypeVar("Found")

#: How often a queue is looked at again that changed meanwhile.
_TRIES: Final = 20
_PAGE: Final = 256


class JournalView:
    """Matches `QueueStore`; whatever would change something is refused."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._folders: Final = Folders.load(root)
        self._clock: Final = clock

    async def read(self, client_id: str, after: int, limit: int) -> list[Entry]:
        return await self._look(client_id, lambda queue: queue.read(after, limit, self._clock.wall_us())) or []

    async def size(self, client_id: str) -> QueueSize:
        return await self._look(client_id, self._size) or QueueSize(0, 0)

    def _size(self, queue: JournalQueue) -> QueueSize:
        return queue.size(self._clock.wall_us())

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
                queue = open_queue(folder, client_id, 1, Backups(), self._clock.wall_us(), writable=False)
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

    async def append(self, packs: list[Pack]) -> list[Appended | Exception]:
        return [_refusal() for _pack in packs]

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        _refuse(done)

    async def release(self, client_id: str, serials: list[int]) -> None:
        _refuse((client_id, serials))

    async def drop(self, client_ids: list[str]) -> None:
        _refuse(client_ids)

    async def sweep(self, now_us: int) -> int:
        _refuse(now_us)

    async def close(self) -> None:
        """Nothing is held."""


def _refusal() -> SettingsError:
    return SettingsError("the queues are only looked at: a broker has them, and has to be stopped first")


def _refuse(_asked: object) -> NoReturn:
    raise _refusal()
