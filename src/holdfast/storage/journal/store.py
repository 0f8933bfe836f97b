"""The queue store of journal files: the contract `QueueStore`, on one thread that does all file work.

    loop      append, append, acknowledge …      read            append, append
    journal   └ all that is waiting: one commit, one sync ┘ └ the same again ┘

1. The thread commits all waiting requests together; requests that arrive during a sync wait for the next one.
2. What is read is committed: reads are done after the commit of their round.
3. `append`, `release` and `drop` wait for the sync; `acknowledge` only for the write. An acknowledgement that a power
   loss takes back means that a message comes again, which its QoS allows.
4. A second thread syncs the queues' own files when a commit file has become long or old. No request waits for it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import structlog

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueSize
from holdfast.files.folders import make_folders
from holdfast.files.private import make_private_folder
from holdfast.files.replacement import sync_path
from holdfast.files.socket_path import LOCK_NAME
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError, TransientError
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.journal.commit.commit_file import Checkpoint
from holdfast.storage.journal.commit.recovery import JournalRecovery, RecoveredJournal
from holdfast.storage.journal.journal import Journal
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.queue.state_file import load_owner, load_state_file
from holdfast.storage.journal.queue_folders import QueueFolders

_log = structlog.get_logger()

#: The most requests of a round, so that the last does not delay the first too long.
_ROUND: Final = 4096
#: Queues per page of a scan of all queues, and per sweep.
_PAGE: Final = 256
#: Seconds between two checks for periodic work, without requests.
_LOOK_S: Final = 1.0


class _Request:
    """A request to the thread: `stage` runs before the commit, `finish` after it and gives the result."""

    def __init__(
        self,
        stage: Callable[[], Any] | None = None,
        finish: Callable[[], Any] | None = None,
        *,
        sync: bool = False,
    ) -> None:
        self.stage: Final = stage
        self.finish: Final = finish
        self.sync: Final = sync
        self.loop: Final = asyncio.get_running_loop()
        self.future: Final[asyncio.Future[Any]] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None

    def answer(self) -> None:
        """Runs on the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class JournalStore:
    """Matches `QueueStore`. Requires: `open` before anything else, `close` last."""

    def __init__(self, journal: Journal, lock: FolderLock, recovered: RecoveredJournal) -> None:
        self._journal: Final = journal
        self._lock: Final = lock
        self.recovered: Final = recovered
        #: Queues that the next sweeps look at.
        self._unswept: Iterator[tuple[str, Path]] = iter(())
        self._requests: Final[deque[_Request]] = deque()
        self._wake: Final = threading.Condition()
        self._closing = False
        self._synced: Final[deque[tuple[Checkpoint, Exception | None]]] = deque()
        self._is_syncing = False
        self._pool: Final = ThreadPoolExecutor(1, "holdfast-journal-sync")
        self._thread: Final = threading.Thread(target=self._run, name="holdfast-journal", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, root: Path, clock: Clock, options: JournalOptions | None = None) -> "JournalStore":
        """Lock the folder, recover, start. SettingsError: another process has it, or the options do not fit."""
        return await asyncio.to_thread(cls._open, root, clock, options or JournalOptions())

    @classmethod
    def _open(cls, root: Path, clock: Clock, options: JournalOptions) -> "JournalStore":
        try:
            for above in make_folders(root):
                sync_path(above)
            make_private_folder(root, LOCK_NAME)
            lock = FolderLock.acquire(root)
            try:
                folders = QueueFolders.load(root, options.fragments)
                recovered = JournalRecovery(folders, options, clock.wall_us()).run()
                if recovered.commits:
                    _log.info(
                        "queues recovered", commits=recovered.commits, queues=recovered.queues, lost=recovered.lost
                    )
                return cls(Journal(folders, clock, options), lock, recovered)
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            raise PermanentError(f"the queues in {root} cannot be opened: {error}") from error

    # ---- the contract

    async def append(self, batches: list[AppendBatch]) -> list[Appended | Exception]:
        request = _Request(lambda: [_outcome(self._journal.append, batch) for batch in batches], sync=True)
        answer: list[Appended | Exception] = await self._ask(request)
        return answer

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        found: list[QueueEntry] = await self._ask(_Request(finish=lambda: self._journal.read(client_id, after, limit)))
        return found

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        def stage() -> None:
            outcomes = [_outcome(self._journal.acknowledge, client_id, serials) for client_id, serials in done]
            for outcome in outcomes:
                if isinstance(outcome, Exception) and not isinstance(outcome, PermanentError):
                    raise outcome

        await self._ask(_Request(stage))

    async def release(self, client_id: str, serials: list[int]) -> None:
        await self._ask(_Request(lambda: self._journal.release(client_id, serials), sync=True))

    async def size(self, client_id: str) -> QueueSize:
        found: QueueSize = await self._ask(_Request(finish=lambda: self._journal.size(client_id)))
        return found

    async def last(self, client_id: str) -> tuple[int, int]:
        state = await self._ask(_Request(finish=lambda: self._journal.state(client_id)))
        return state.serial, state.number

    async def drop(self, client_ids: list[str]) -> None:
        await self._ask(_Request(lambda: self._journal.remove(client_ids), sync=True))

    async def clients(self) -> AsyncIterator[str]:
        walk = self._walk()
        while page := await asyncio.to_thread(lambda: list(islice(walk, _PAGE))):
            for client_id in page:
                yield client_id

    def _walk(self) -> Iterator[str]:
        for _name, folder in self._journal.folders.each():
            try:
                yield load_owner(folder)
            except FileNotFoundError:
                continue
            except PermanentError as error:
                _log.error("a queue is damaged, and will be set aside when its client comes", why=str(error))

    async def sweep(self, now_us: int) -> int:
        """A part of all queues at a time. Of a queue that is not open, only the last state is read: it has the next
        expiry. Files of idle queues are closed.
        """
        went: int = await self._ask(_Request(lambda: self._sweep(now_us)))
        return went

    def _sweep(self, now_us: int) -> int:
        self._journal.close_idle()
        part = list(islice(self._unswept, _PAGE))
        if not part:
            self._unswept = self._journal.folders.each()
            part = list(islice(self._unswept, _PAGE))
        went = 0
        for _name, folder in part:
            # A damaged queue is set aside when it is used.
            with suppress(PermanentError, FileNotFoundError):
                loaded = load_state_file(folder)
                if 0 < next(loaded.states).expires_us <= now_us:
                    went += self._journal.expire(loaded.client_id)
        return went

    async def close(self) -> None:
        """Ensures: the files of the queues hold all changes, and its threads have ended."""
        if self._closing:
            return
        self._closing = True
        with self._wake:
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._finish)

    # ---- the thread

    async def _ask(self, request: _Request) -> Any:
        if self._closing:
            raise MisuseError("the queues are closed")
        self._requests.append(request)
        with self._wake:
            self._wake.notify()
        return await request.future

    def _run(self) -> None:
        while not self._closing or self._requests:
            with self._wake:
                if not self._requests and not self._synced and not self._closing:
                    self._wake.wait(_LOOK_S)
            requests = [self._requests.popleft() for _ in range(min(len(self._requests), _ROUND))]
            if requests:
                self._round(requests)
            self._upkeep()

    def _round(self, requests: list[_Request]) -> None:
        for request in requests:
            if request.stage is not None:
                self._try(request, request.stage)
        self._commit(requests)
        for request in requests:
            if request.finish is not None and request.error is None:
                self._try(request, request.finish)
        loops = {request.loop for request in requests}
        for loop in loops:
            own = [request for request in requests if request.loop is loop]
            with suppress(RuntimeError):  # the loop is closed, so nothing waits for the answer
                loop.call_soon_threadsafe(_answer_all, own)

    def _try(self, request: _Request, step: Callable[[], Any]) -> None:
        outcome = _outcome(step)
        if isinstance(outcome, Exception):
            request.error = outcome
        else:
            request.result = outcome

    def _commit(self, requests: list[_Request]) -> None:
        staged = [request for request in requests if request.stage is not None]
        if not staged:
            return
        outcome = _outcome(lambda: self._journal.flush(sync=any(request.sync for request in staged)))
        if isinstance(outcome, Exception):
            for request in staged:
                request.error = request.error or outcome

    def _end_checkpoints(self) -> None:
        while self._synced:
            checkpoint, error = self._synced.popleft()
            self._is_syncing = False
            if error is not None:
                self._journal.fail(error)
            else:
                _outcome(self._journal.end_checkpoint, checkpoint)

    def _upkeep(self) -> None:
        """Periodic work: syncs and checkpoints that are due."""
        self._end_checkpoints()
        outcome = _outcome(self._journal.sync_if_due)
        if not isinstance(outcome, Exception) and self._journal.is_checkpoint_due() and not self._is_syncing:
            begun = self._journal.begin_checkpoint()
            if begun is not None:
                self._is_syncing = True
                self._pool.submit(self._sync, begun)

    def _sync(self, checkpoint: Checkpoint) -> None:
        error: Exception | None = None
        try:
            checkpoint.sync()
        except OSError as wrong:
            error = wrong
        self._synced.append((checkpoint, error))
        with self._wake:
            self._wake.notify()

    def _finish(self) -> None:
        self._pool.shutdown()
        self._end_checkpoints()
        try:
            self._journal.close()
        finally:
            self._lock.release()


def _answer_all(requests: list[_Request]) -> None:
    for request in requests:
        request.answer()


def _outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, or its error, translated to an error family."""
    try:
        return call(*arguments)
    except OSError as error:
        return TransientError(f"the queue's files cannot be used: {error.strerror}")
    except HoldfastError as error:
        return error
    except Exception as error:
        return MisuseError(f"{type(error).__name__}: {error}")
