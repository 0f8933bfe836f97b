"""All queues of a journal, for one thread: changes are gathered, committed together, and applied to their queues.

    append, acknowledge, release …   planned, and written to the queue's message file       not yet promised
    flush                            all of them as one commit in the commit file, synced   durable
                                     a state line for each queue                            visible to readers

1. A commit file holds, for each queue, its state before its first change in the file, and all changes since. It is
   deleted when the files of all these queues are synced (`Checkpoint`). So a commit costs one sync for a thousand
   queues, and a checkpoint one for the files of each queue.
2. Files that a queue does not need any more are deleted together with the commit file that may refer to them.
3. A queue that cannot be read is set aside, and the others go on. A sync that fails ends all writing.
4. At most `max_open_queues` are open; the least recently used one is closed first.
"""

from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueSize
from holdfast.files.folders import make_folders, remove_folder
from holdfast.files.replacement import is_temporary
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, PoisonedError, TransientError
from holdfast.model.time import SECOND_US
from holdfast.storage.journal.append_plan import AppendPlan
from holdfast.storage.journal.commit.commit_file import Checkpoint, CommitFile
from holdfast.storage.journal.options import FSYNC, JournalOptions
from holdfast.storage.journal.quarantine import set_aside
from holdfast.storage.journal.queue.change import REMOVED, QueueChange
from holdfast.storage.journal.queue.loader import open_queue
from holdfast.storage.journal.queue.queue import JournalQueue
from holdfast.storage.journal.queue.serials import Serials
from holdfast.storage.journal.queue.state_file import QueueState, encode_state
from holdfast.storage.journal.queue_folders import LAYOUT_NAME, QueueFolders

_log = structlog.get_logger()


class Journal:
    """Requires: the caller holds the lock of the root, and recovery is done."""

    def __init__(self, folders: QueueFolders, clock: Clock, options: JournalOptions) -> None:
        self.folders: Final = folders
        self.root: Final = folders.root
        self.options: Final = options
        self._clock: Final = clock
        self._open: Final[OrderedDict[str, JournalQueue]] = OrderedDict()
        self._used_us: Final[dict[str, int]] = {}
        self._open_commit: Final[list[QueueChange]] = []
        self._staged: Final[dict[str, JournalQueue]] = {}
        self._based: Final[set[str]] = set()
        self._next_commit = clock.wall_us()
        self._current: Checkpoint | None = None
        self._ending: Final[list[Checkpoint]] = []
        self._failure: Exception | None = None
        self._synced_us = clock.monotonic_us()
        #: How often the commit file was synced, which is the cost of appending.
        self.syncs = 0

    # ---- queues

    def _queue(self, client_id: str) -> JournalQueue:
        """The queue of a client, opened or new. PermanentError: it cannot be read, and was set aside."""
        queue = self._open.get(client_id)
        if queue is None:
            queue = self._load(client_id)
            self._open[client_id] = queue
        self._open.move_to_end(client_id)
        self._used_us[client_id] = self._clock.monotonic_us()
        return queue

    def _load(self, client_id: str) -> JournalQueue:
        folder = self.folders.find(client_id)
        shape = (self.options.max_file_messages, self.options.backups)
        try:
            queue = open_queue(folder, client_id, *shape, self._clock.wall_us())
        except FileNotFoundError:
            if folder.is_dir() and not all(map(is_temporary, folder.iterdir())):
                raise self._set_aside(client_id, folder, "its queue.log is not there") from None
            return JournalQueue(folder, client_id, *shape)
        except PermanentError as error:
            raise self._set_aside(client_id, folder, str(error)) from error
        self._next_commit = max(self._next_commit, queue.commit + 1)
        if queue.is_unsaved or queue.drained:
            self._dirty(queue)
            queue.save(self._clock.wall_us())
        return queue

    def _set_aside(self, client_id: str, folder: Path, why: str) -> PermanentError:
        """Ensures: the client has a new queue, whose serials are above those of the old one."""
        self._forget(client_id)
        after = set_aside(self.root, folder, client_id, why, self._clock.wall_us())
        self._forget_folder(client_id, folder)
        if self._failure is None:
            # The changes of the old queue in commit files do not apply to the new one.
            self._open_commit.append(QueueChange(client_id, kind=REMOVED))
            self._write_commit()
            if after.serial:
                fresh = JournalQueue(self.folders.find(client_id), client_id, 1, self.options.backups)
                self._checkpoint().dirty.update([fresh.folder, *make_folders(fresh.folder)])
                fresh.state_file.create(after._replace(commit=self._next_commit))
                self._next_commit += 1
        return PermanentError(f"the queue of {client_id!r} cannot be read and was set aside: {why}")

    def _forget_folder(self, client_id: str, folder: Path) -> None:
        """Forget a folder that was removed: no pending work may touch a new folder in its place."""
        self._based.discard(client_id)
        if self._current is not None:
            self._current.touched.discard(client_id)
            self._current.drained.pop(folder, None)
        for checkpoint in self._ending:
            checkpoint.drained.pop(folder, None)

    def _forget(self, client_id: str) -> None:
        queue = self._open.pop(client_id, None)
        self._used_us.pop(client_id, None)
        self._staged.pop(client_id, None)
        if queue is not None:
            queue.close()

    def _checkpoint(self) -> Checkpoint:
        if self._current is None:
            synced = self.options.durability == FSYNC
            file = CommitFile(self.root, self._next_commit, synced=synced)
            self._current = Checkpoint(self.root, file, self._clock.monotonic_us())
        return self._current

    def _dirty(self, queue: JournalQueue) -> None:
        """Note that its files must be synced before the commit file is deleted, and unneeded ones deleted then."""
        checkpoint = self._checkpoint()
        checkpoint.dirty.add(queue.folder)
        if queue.drained:
            checkpoint.drained.setdefault(queue.folder, []).extend(queue.drained)
            queue.drained.clear()

    # ---- changes

    def _writable(self) -> None:
        if self._failure is not None:
            raise PoisonedError(f"queues are not written any more: {self._failure}")

    def _stage(self, queue: JournalQueue, change: QueueChange) -> None:
        self._writable()
        checkpoint = self._checkpoint()
        if queue.client_id not in checkpoint.touched:
            change.base = encode_state(queue.state())
        try:
            if queue.is_new:
                if not (self.root / LAYOUT_NAME).exists():
                    self.folders.save()
                checkpoint.dirty.update(queue.create())
            queue.apply(change)
        except OSError as error:
            raise TransientError(f"the queue of {queue.client_id!r} cannot be written: {error.strerror}") from error
        if change.base:
            checkpoint.touched.add(queue.client_id)
            self._based.add(queue.client_id)
        self._open_commit.append(change)
        self._staged[queue.client_id] = queue

    def append(self, batch: AppendBatch) -> Appended:
        """Requires: `flush` before the result is reported."""
        self._writable()
        queue = self._queue(batch.client_id)
        change, appended = AppendPlan(queue, batch, self._clock.wall_us(), self.options.max_queue_messages).make()
        if change is not None:
            expires = change.gone != "-" and queue.earliest_us
            self._stage(queue, change)
            if expires:
                queue.find_earliest_expiry()
        return appended

    def acknowledge(self, client_id: str, serials: list[int]) -> None:
        queue = self._queue(client_id)
        known = [serial for serial in serials if queue.file_of(serial) is not None]
        if known:
            gone = str(Serials(sorted(known)))
            self._stage(queue, QueueChange(client_id, full=queue.full, number=queue.number, gone=gone))

    def release(self, client_id: str, serials: list[int]) -> None:
        queue = self._queue(client_id)
        known = [serial for serial in serials if queue.file_of(serial) is not None and serial not in queue.released]
        if known:
            released = str(Serials(sorted(known)))
            self._stage(queue, QueueChange(client_id, full=queue.full, number=queue.number, released=released))

    def remove(self, client_ids: list[str]) -> None:
        """Survives: as `flush` with a sync."""
        self._writable()
        there: list[str] = []
        for client_id in client_ids:
            if client_id in self._staged or self.folders.find(client_id).exists():
                there.append(client_id)
                self._open_commit.append(QueueChange(client_id, kind=REMOVED))
            self._forget(client_id)
        self.flush(sync=True)
        for client_id in there:
            folder = self.folders.find(client_id)
            self._forget_folder(client_id, folder)
            self._checkpoint().dirty.add(remove_folder(folder, self.folders.queues))

    def expire(self, client_id: str) -> int:
        """Remove expired messages from a queue; returns how many."""
        queue = self._queue(client_id)
        expired = queue.expired(self._clock.wall_us())
        if expired:
            self._stage(queue, QueueChange(client_id, full=queue.full, number=queue.number, gone=str(Serials(expired))))
            queue.find_earliest_expiry()
        return len(expired)

    # ---- committing

    def flush(self, *, sync: bool) -> None:
        """Commit what was staged. Survives: with `sync` and the durability `fsync` a power loss, else a killed process.

        TransientError: nothing was committed. PoisonedError: it is unknown, and nothing is written any more.
        """
        self._writable()
        if self._open_commit:
            self._write_commit()
        if sync and self.options.durability == FSYNC:
            self.sync()
        self._save_states()
        self._based.clear()

    def _write_commit(self) -> None:
        checkpoint = self._checkpoint()
        checkpoint.file.advance(self._next_commit)
        try:
            commit = checkpoint.file.write(self._open_commit)
        except OSError as error:
            self._revert(checkpoint)
            raise TransientError(f"queues cannot be written: {error.strerror}") from error
        self._next_commit = commit + 1
        self._open_commit.clear()
        for queue in self._staged.values():
            queue.commit = commit
            queue.is_unsaved = True

    def _revert(self, checkpoint: Checkpoint) -> None:
        """Go back to the states on disk, and cut off what was written behind them."""
        checkpoint.touched.difference_update(self._based)
        self._based.clear()
        self._open_commit.clear()
        for client_id, queue in list(self._staged.items()):
            with suppress(OSError):
                queue.truncate_to_saved_state()
            self._forget(client_id)

    def sync(self) -> None:
        if self._current is None or self._current.file.is_synced:
            return
        try:
            self._current.file.sync()
            self.syncs += 1
        except OSError as error:
            self.fail(error)
            raise PoisonedError(f"queues are not written any more, a sync failed: {error.strerror}") from error

    def sync_if_due(self) -> None:
        """With the durability `os` no append waits for a sync; it follows after `sync_interval_s`."""
        now_us = self._clock.monotonic_us()
        if now_us - self._synced_us >= self.options.sync_interval_s * SECOND_US:
            self._synced_us = now_us
            self.sync()

    def fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        _log.error("queues are not written any more", why=str(error))

    def _save_states(self) -> None:
        now_us = self._clock.wall_us()
        for client_id, queue in list(self._staged.items()):
            try:
                queue.save(now_us)
            except OSError as error:
                # The commit file has the change. The queue stays open, and its state is written with the next commit.
                self._log_unsaved(client_id, error)
                continue
            self._dirty(queue)
            del self._staged[client_id]
        self._close_excess()

    def _close_excess(self) -> None:
        messages = sum(queue.messages for queue in self._open.values()) if len(self._open) > 1 else 0
        for client_id in list(self._open):
            few = len(self._open) <= self.options.max_open_queues and messages <= self.options.max_open_messages
            if few or len(self._open) == 1:
                break
            if client_id not in self._staged:
                messages -= self._open[client_id].messages
                self._save_and_close(client_id)

    def close_idle(self) -> None:
        """Close the files of queues that were not used for a while; an empty queue gives up its files."""
        before_us = self._clock.monotonic_us() - int(self.options.idle_s * SECOND_US)
        for client_id, queue in list(self._open.items()):
            if self._used_us[client_id] > before_us or client_id in self._staged:
                continue
            if queue.files and not queue.messages:
                queue.give_up_files()
            self._save_and_close(client_id)

    def _save_and_close(self, client_id: str) -> None:
        """Write the state of a queue and close it. It stays open if the state cannot be written."""
        queue = self._open[client_id]
        if queue.is_unsaved and not queue.is_new and self._failure is None:
            try:
                queue.save(self._clock.wall_us())
                self._dirty(queue)
            except OSError as error:
                self._log_unsaved(client_id, error)
                return
        self._forget(client_id)

    def _log_unsaved(self, client_id: str, error: OSError) -> None:
        _log.warning("the state of a queue is written later", client=client_id, why=error.strerror)

    # ---- checkpoints

    @property
    def commit_bytes(self) -> int:
        return self._current.file.size_bytes if self._current is not None else 0

    def is_checkpoint_due(self) -> bool:
        if self._current is None or self._failure is not None:
            return False
        age_us = self._clock.monotonic_us() - self._current.begun_us
        is_old = age_us >= self.options.checkpoint_s * SECOND_US
        return is_old or self.commit_bytes >= self.options.commit_bytes

    def begin_checkpoint(self) -> Checkpoint | None:
        """Begin a new commit file, and return the old one for its checkpoint. None: not now, because a state is not
        written yet or another checkpoint runs.

        Checkpoints end one after the other: a base refers to files that only its own commit file keeps.
        """
        if self._current is None or self._staged or self._open_commit or self._ending:
            return None
        checkpoint, self._current = self._current, None
        self._ending.append(checkpoint)
        return checkpoint

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Requires: it is synced."""
        for paths in checkpoint.drained.values():
            for path in paths:
                path.unlink(missing_ok=True)
        checkpoint.file.close()
        checkpoint.file.path.unlink(missing_ok=True)
        self._ending.remove(checkpoint)

    # ---- reading

    def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        queue = self._queue(client_id)
        try:
            return queue.read(after, limit, self._clock.wall_us())
        except PermanentError as error:
            raise self._set_aside(client_id, queue.folder, str(error)) from error

    def size(self, client_id: str) -> QueueSize:
        return self._queue(client_id).size(self._clock.wall_us())

    def state(self, client_id: str) -> QueueState:
        return self._queue(client_id).state()

    def close(self) -> None:
        """Ensures: the files of the queues hold all changes, unless writing has failed."""
        if self._failure is None:
            self.flush(sync=True)
        for client_id in list(self._open):
            if client_id not in self._staged:
                self._save_and_close(client_id)
        checkpoint = self.begin_checkpoint() if self._failure is None else None
        if checkpoint is not None:
            checkpoint.sync()
            self.end_checkpoint(checkpoint)
        for client_id in list(self._open):
            self._forget(client_id)
