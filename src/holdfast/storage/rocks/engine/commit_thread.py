"""The thread that syncs. It turns written batches into receipts.

    loop      write 7   write 8 ........ write 9
    commit              └ read 8, sync ──────┘ receipt 8   └ read 9, sync ┘ receipt 9

1. A batch gets its receipt from the first sync that started after its write had returned: the last written number
   is read immediately before the call. Batch 9 above has to wait for the second sync.
2. Nothing is synced that was synced, and nothing unless it was asked for.
3. Receipts are given in order, each number once, and only after the journal has noted them.
   The owner may sync by itself while the thread is idle, and tells it so (`synced_elsewhere`).
4. After a failed sync no receipt is ever given again. What is on disk is unknown then: the kernel may have
   dropped the pages, and a second sync that succeeds proves nothing.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

#: So long after a sync, and not for each one, the journal is told to settle; see `synced_mark`.
_SETTLE_AFTER_S: Final = 1.0


class WrittenMark(NamedTuple):
    """A batch that was written, and RocksDB's sequence number after it."""

    batch: int = 0
    sequence: int = 0


class SyncedStore(Protocol):
    """What the thread needs of the engine. All of it is called on the commit thread."""

    def last_written(self) -> WrittenMark: ...

    def sync(self) -> bool:
        """False: not possible now, and nothing is lost; ask again later. An exception: it failed for good."""

    def note_synced(self, written: WrittenMark) -> None: ...

    def settle(self) -> None: ...


class CommitThread:
    """Requires: one owner that calls `start` once and `stop` last."""

    def __init__(self, journal: SyncedStore, synced: int = 0) -> None:
        self._journal: Final = journal
        self._callbacks: Final[list[Callable[[int], None]]] = []
        self._poisoned_callbacks: Final[list[Callable[[Exception], None]]] = []
        #: A lock as a bell: held while there is nothing to do. Python's Semaphore costs ten times as much.
        self._wake: Final = threading.Lock()
        self._wake.acquire()
        self._asked = False
        self._working = False
        self._stopping = False
        self._settle_at_s: float | None = None
        self._changed: Final = threading.Condition()
        #: The last batch that has a receipt, and why there will be no more.
        self.synced = synced
        self.poison: Exception | None = None
        # Not `_thread`: compiled, C would take it for a keyword.
        self._worker: Final = threading.Thread(target=self._run, name="holdfast-commit", daemon=True)

    def on_synced(self, callback: Callable[[int], None]) -> None:
        self._callbacks.append(callback)

    def on_poisoned(self, callback: Callable[[Exception], None]) -> None:
        self._poisoned_callbacks.append(callback)

    def start(self) -> None:
        self._worker.start()

    def request(self) -> None:
        """Any thread. Cheap when a request is already waiting."""
        if not self._asked:
            self._asked = True
            self._ring()

    def _ring(self) -> None:
        # Two threads may ring at once; a bell that has rung cannot ring again.
        with suppress(RuntimeError):
            self._wake.release()

    def wait_for(self, batch: int, timeout_s: float | None = None) -> bool:
        """Whether the batch has its receipt. Returns early when it cannot get one any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.synced >= batch or self.poison is not None or self._stopping, timeout_s)
        return self.synced >= batch

    def stop(self) -> None:
        """Ensures: the thread has ended, and no callback runs any more."""
        self._stopping = True
        self._ring()
        if self._worker.is_alive() and threading.current_thread() is not self._worker:
            self._worker.join()
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._stopping:
                left_s = -1.0 if self._settle_at_s is None else max(0.0, self._settle_at_s - time.monotonic())
                # Rung without being asked: there is something to settle later, or the end.
                if self._wake.acquire(timeout=left_s) and self._asked:
                    self._working = True
                    # Before the number is read: a request that comes later asks for another round.
                    self._asked = False
                    self._commit()
                    self._working = False
                if self._settle_at_s is not None and time.monotonic() >= self._settle_at_s:
                    self._settle_at_s = None
                    self._journal.settle()
        except Exception as error:
            self.fail(error)

    def _commit(self) -> None:
        written = self._journal.last_written()
        if self.poison is not None or written.batch <= self.synced or not self._journal.sync():
            return
        if self.poison is not None or written.batch <= self.synced:
            # The owner has synced it meanwhile, or has failed to: a second sync that succeeds proves nothing.
            return
        self._journal.note_synced(written)
        if self._settle_at_s is None:
            self._settle_at_s = time.monotonic() + _SETTLE_AFTER_S
        self.synced = written.batch
        for callback in self._callbacks:
            callback(written.batch)
        with self._changed:
            self._changed.notify_all()

    def is_idle(self) -> bool:
        """Whether no sync is asked for or under way."""
        return not self._asked and not self._working

    def synced_elsewhere(self, batch: int) -> None:
        """The owner has synced and noted everything up to a batch by itself. No callback is called.

        Requires: it was idle when that began.
        """
        self.synced = batch
        with self._changed:
            self._changed.notify_all()
        if self._settle_at_s is None:
            self._settle_at_s = time.monotonic() + _SETTLE_AFTER_S
            # It waits without a limit of time until it is told.
            self._ring()

    def fail(self, error: Exception) -> None:
        """Poisons, once. Also for a write that failed in a way that leaves the disk unknown."""
        if self.poison is not None:
            return
        self.poison = error
        with self._changed:
            self._changed.notify_all()
        for callback in self._poisoned_callbacks:
            callback(error)
