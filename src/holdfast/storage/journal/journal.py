"""All queues of a journal, for one thread: changes are gathered, committed together, and applied to their queues.

    append, acknowledge, release …   worked out, and written to the queue's message file     nobody was told
    flush                            all of them as one turn into the commit file, synced    safe
                                     a state line for each queue                             seen by whoever looks

1. A commit file holds, for each queue, the state before its first change there and all changes since. It goes when the
   files of all these queues are synced (`Checkpoint`). So a thousand queues cost one sync for a turn, and each queue's
   files one for each checkpoint.
2. Files that a queue does not need any more go with the commit file that might speak of them.
3. A queue that cannot be read is set aside, and the others go on. A sync that fails ends all writing.
4. At most `max_open_queues` are open; the one that was not used for longest is closed first.
"""

from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from holdfast.durable.queue_store import Appended, Entry, Pack, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, PoisonedError, TransientError
from holdfast.storage.journal.appending import plan
from holdfast.storage.journal.changes import REMOVED, Change
from holdfast.storage.journal.checkpoint import Checkpoint
from holdfast.storage.journal.commit_file import CommitFile
from holdfast.storage.journal.files import make_folders, remove_folder
from holdfast.storage.journal.folders import LAYOUT_NAME, Folders
from holdfast.storage.journal.opening import open_queue
from holdfast.storage.journal.options import FSYNC, JournalOptions
from holdfast.storage.journal.quarantine import set_aside
from holdfast.storage.journal.queue import JournalQueue
from holdfast.storage.journal.queue_state import QueueState, encode_state
from holdfast.storage.journal.serials import Serials

_log = structlog.get_logger()

_SECOND_US: Final = 1_000_000


class Journal:
    """Requires: the caller holds the lock of the root, and recovery is done."""

    def __init__(self, folders: Folders, clock: Clock, options: JournalOptions) -> None:
        self.folders: Final = folders
        self.root: Final = folders.root
        self.options: Final = options
        self._clock: Final = clock
        self._open: Final[OrderedDict[str, JournalQueue]] = OrderedDict()
        self._used_us: Final[dict[str, int]] = {}
        self._turn: Final[list[Change]] = []
        self._staged: Final[dict[str, JournalQueue]] = {}
        self._based: Final[set[str]] = set()
        self._next_commit = clock.wall_us()
        self._current: Checkpoint | None = None
        self._ending: Final[list[Checkpoint]] = []
        self._failure: Exception | None = None
        self._synced_us = clock.monotonic_us()
        #: How often the commit file was synced: what makes appending slow.
        self.syncs = 0

    # ---- queues

    def _queue(self, client_id: str) -> JournalQueue:
        """Open, or new and not on disk yet. PermanentError: it cannot be read, and was set aside."""
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
            if folder.is_dir() and any(path.suffix != ".new" for path in folder.iterdir()):
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
        """Ensures: the client has a queue again that can be used, and that goes on above the old one's serials."""
        self._forget(client_id)
        after = set_aside(self.root, folder, client_id, why, self._clock.wall_us())
        self._gone(client_id, folder)
        if self._failure is None:
            # Whatever the commit files say of the old queue does not hold for the new one.
            self._turn.append(Change(client_id, kind=REMOVED))
            self._write_turn()
            self._succeed(client_id, after)
        return PermanentError(f"the queue of {client_id!r} cannot be read and was set aside: {why}")

    def _succeed(self, client_id: str, after: QueueState) -> None:
        if after.serial:
            fresh = JournalQueue(self.folders.find(client_id), client_id, 1, self.options.backups)
            self._checkpoint().dirty.update([fresh.folder, *make_folders(fresh.folder)])
            fresh.state_file.create(after._replace(commit=self._next_commit))
            self._next_commit += 1

    def _gone(self, client_id: str, folder: Path) -> None:
        """A folder is not there any more: nothing that is still to be done may touch the next one in its place."""
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
        """Its files are to be synced before the commit file goes, and those that it does not need go then."""
        checkpoint = self._checkpoint()
        checkpoint.dirty.add(queue.folder)
        if queue.drained:
            checkpoint.drained.setdefault(queue.folder, []).extend(queue.drained)
            queue.drained.clear()

    # ---- changes

    def _writable(self) -> None:
        if self._failure is not None:
            raise PoisonedError(f"queues are not written any more: {self._failure}")

    def _stage(self, queue: JournalQueue, change: Change) -> None:
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
        self._turn.append(change)
        self._staged[queue.client_id] = queue

    def append(self, pack: Pack) -> Appended:
        """Requires: `flush` before anybody is told."""
        self._writable()
        queue = self._queue(pack.client_id)
        planned = plan(queue, pack, self._clock.wall_us(), self.options.max_queue_messages)
        if not planned.is_empty:
            expires = planned.change.gone != "-" and queue.earliest_us
            self._stage(queue, planned.change)
            if expires:
                queue.set_earliest()
        return planned.appended

    def acknowledge(self, client_id: str, serials: list[int]) -> None:
        queue = self._queue(client_id)
        known = [serial for serial in serials if queue.file_of(serial) is not None]
        if known:
            gone = str(Serials(sorted(known)))
            self._stage(queue, Change(client_id, full=queue.full, number=queue.number, gone=gone))

    def release(self, client_id: str, serials: list[int]) -> None:
        queue = self._queue(client_id)
        known = [serial for serial in serials if queue.file_of(serial) is not None and serial not in queue.released]
        if known:
            released = str(Serials(sorted(known)))
            self._stage(queue, Change(client_id, full=queue.full, number=queue.number, released=released))

    def remove(self, client_ids: list[str]) -> None:
        """Survives: as `flush` with a sync."""
        self._writable()
        there: list[str] = []
        for client_id in client_ids:
            if client_id in self._staged or self.folders.find(client_id).exists():
                there.append(client_id)
                self._turn.append(Change(client_id, kind=REMOVED))
            self._forget(client_id)
        self.flush(sync=True)
        for client_id in there:
            folder = self.folders.find(client_id)
            self._gone(client_id, folder)
            self._checkpoint().dirty.add(remove_folder(folder, self.folders.queues))

    def expire(self, client_id: str) -> int:
        """Remove what has expired from a queue; how many messages that were."""
        queue = self._queue(client_id)
        expired = queue.expired(self._clock.wall_us())
        if expired:
            self._stage(queue, Change(client_id, full=queue.full, number=queue.number, gone=str(Serials(expired))))
            queue.set_earliest()
        return len(expired)

    # ---- committing

    def flush(self, *, sync: bool) -> None:
        """Commit what was staged. Survives: with `sync` and the durability `fsync` a power loss, else a killed process.

        TransientError: nothing of it happened. PoisonedError: nobody knows, and nothing is written any more.
        """
        self._writable()
        if self._turn:
            self._write_turn()
        if sync and self.options.durability == FSYNC:
            self.sync()
        self._save_states()
        self._based.clear()

    def _write_turn(self) -> None:
        checkpoint = self._checkpoint()
        checkpoint.file.advance(self._next_commit)
        try:
            commit = checkpoint.file.write(self._turn)
        except OSError as error:
            self._revert(checkpoint)
            raise TransientError(f"queues cannot be written: {error.strerror}") from error
        self._next_commit = commit + 1
        self._turn.clear()
        for queue in self._staged.values():
            queue.commit = commit
            queue.is_unsaved = True

    def _revert(self, checkpoint: Checkpoint) -> None:
        """Back to the states on disk: what was written behind them goes."""
        checkpoint.touched.difference_update(self._based)
        self._based.clear()
        self._turn.clear()
        for client_id, queue in list(self._staged.items()):
            with suppress(OSError):
                queue.cut_back()
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
        """With the durability `os` nobody waits for a sync; it comes after a while all the same."""
        now_us = self._clock.monotonic_us()
        if now_us - self._synced_us >= self.options.sync_interval_s * _SECOND_US:
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
                # The commit file has it. It stays open, and is tried again with the next turn.
                self._later(client_id, error)
                continue
            self._dirty(queue)
            del self._staged[client_id]
        self._close_some()

    def _close_some(self) -> None:
        messages = sum(queue.messages for queue in self._open.values()) if len(self._open) > 1 else 0
        for client_id in list(self._open):
            few = len(self._open) <= self.options.max_open_queues and messages <= self.options.max_open_messages
            if few or len(self._open) == 1:
                break
            if client_id not in self._staged:
                messages -= self._open[client_id].messages
                self._put_away(client_id)

    def close_idle(self) -> None:
        """Queues that nobody used for a while close their files; an empty one lets go of them."""
        before_us = self._clock.monotonic_us() - int(self.options.idle_s * _SECOND_US)
        for client_id, queue in list(self._open.items()):
            if self._used_us[client_id] > before_us or client_id in self._staged:
                continue
            if queue.files and not queue.messages:
                queue.let_files_go()
            self._put_away(client_id)

    def _put_away(self, client_id: str) -> None:
        """Close a queue, with the state that it has now. One whose state cannot be written stays open."""
        queue = self._open[client_id]
        if queue.is_unsaved and not queue.is_new and self._failure is None:
            try:
                queue.save(self._clock.wall_us())
                self._dirty(queue)
            except OSError as error:
                self._later(client_id, error)
                return
        self._forget(client_id)

    def _later(self, client_id: str, error: OSError) -> None:
        _log.warning("the state of a queue is written later", client=client_id, why=error.strerror)

    # ---- checkpoints

    @property
    def commit_bytes(self) -> int:
        return self._current.file.size_bytes if self._current is not None else 0

    def is_checkpoint_due(self) -> bool:
        if self._current is None or self._failure is not None:
            return False
        age_us = self._clock.monotonic_us() - self._current.begun_us
        is_old = age_us >= self.options.checkpoint_s * _SECOND_US
        return is_old or self.commit_bytes >= self.options.commit_bytes

    def begin_checkpoint(self) -> Checkpoint | None:
        """Changes go to another file from now on. None: not now; a state has to be written first, or another one ends.

        They end one after the other: a base speaks of files that only its own commit file keeps from being deleted.
        """
        if self._current is None or self._staged or self._turn or self._ending:
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

    # ---- looking

    def read(self, client_id: str, after: int, limit: int) -> list[Entry]:
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
        """Ensures: the queues' own files hold everything, unless writing has failed."""
        if self._failure is None:
            self.flush(sync=True)
        for client_id in list(self._open):
            if client_id not in self._staged:
                self._put_away(client_id)
        checkpoint = self.begin_checkpoint() if self._failure is None else None
        if checkpoint is not None:
            checkpoint.sync()
            self.end_checkpoint(checkpoint)
        for client_id in list(self._open):
            self._forget(client_id)
