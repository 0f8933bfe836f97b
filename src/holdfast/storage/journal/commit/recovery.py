"""Recovery after a crash: the changes in commit files are applied to the files of the queues.

For each queue that a commit file has changes of, in this order:

1. Its files are opened. If they are complete, the changes that its state lacks are applied. After a killed process that
   is enough, because the kernel had every byte.
2. If not, the queue goes back to its base, which was synced before the commit file was begun, and all changes since are
   applied again. After a power loss any unsynced bytes may be missing, and none of them are needed.
3. If that fails too, the queue is set aside. Other queues are not affected.

Then all is synced, and the commit files are deleted. After a crash in the middle, the same recovery runs again.
"""

import os
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.folders import make_folders, remove_folder, sync_folders
from holdfast.model.errors import PermanentError
from holdfast.storage.journal.commit.commit_file import commit_files, read_commit_file
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.quarantine import set_aside, set_aside_commits
from holdfast.storage.journal.queue.change import REMOVED, QueueChange
from holdfast.storage.journal.queue.loader import message_files, open_queue
from holdfast.storage.journal.queue.message_file import file_name
from holdfast.storage.journal.queue.queue import JournalQueue
from holdfast.storage.journal.queue.state_file import QueueState, StateFile, decode_state, load_owner, load_state_file
from holdfast.storage.journal.queue_folders import QueueFolders

_log = structlog.get_logger()


class RecoveredJournal:
    """The result of a recovery."""

    def __init__(self) -> None:
        self.commits = 0
        self.queues = 0
        #: Clients whose queues had to be set aside.
        self.lost: Final[list[str]] = []
        #: The last commit number found.
        self.commit = 0


class JournalRecovery:
    """Requires: the lock of the root."""

    def __init__(self, folders: QueueFolders, options: JournalOptions, now_us: int) -> None:
        self._folders: Final = folders
        self._root: Final = folders.root
        self._shape: Final = (options.max_file_messages, options.backups)
        self._options: Final = options
        self._now_us: Final = now_us
        self._found: Final = RecoveredJournal()
        #: Whether there was a power loss, and appends had not waited for syncs.
        self._unsynced = False
        self._dirty: Final[set[Path]] = set()
        self._drained: Final[list[Path]] = []

    def run(self) -> RecoveredJournal:
        """Ensures: no commit file is left, and all queues in them are synced."""
        files = commit_files(self._root)
        changes: dict[str, list[tuple[int, QueueChange]]] = {}
        for path in files:
            log = read_commit_file(path)
            if log.damage:
                set_aside_commits(self._root, path, log.damage, self._now_us)
            self._unsynced = self._unsynced or not (log.synced or log.same_boot)
            for commit in log.commits:
                self._found.commits += 1
                self._found.commit = max(self._found.commit, commit.number)
                for change in commit.changes:
                    changes.setdefault(change.client_id, []).append((commit.number, change))
        for client_id, own in changes.items():
            self._recover(client_id, own)
        if self._unsynced:
            self._look_at_all()
        sync_folders(self._dirty, self._root)
        for path in [*self._drained, *files]:
            path.unlink(missing_ok=True)
        return self._found

    def _recover(self, client_id: str, changes: list[tuple[int, QueueChange]]) -> None:
        self._found.queues += 1
        folder = self._folders.find(client_id)
        removed = max((commit for commit, change in changes if change.kind == REMOVED), default=0)
        if removed:
            changes = [(commit, change) for commit, change in changes if commit > removed]
            if self._own_commit(folder) < removed:
                self._dirty.add(remove_folder(folder, self._folders.queues))
        if not changes:
            return
        base = decode_state(changes[0][1].base)
        attempts = [partial(self._own, folder, client_id, base)]
        if base is not None:
            attempts.append(partial(self._from_base, folder, client_id, base))
        if self._unsynced:
            attempts.append(partial(self._own, folder, client_id, None, lenient=True))
        wrong: Exception | None = None
        for attempt in attempts:
            try:
                self._finish(_changed(attempt(), changes))
                return
            except (PermanentError, FileNotFoundError) as error:
                wrong = wrong or error
        self._lose(client_id, folder, str(wrong))

    def _own_commit(self, folder: Path) -> int:
        try:
            return next(load_state_file(folder).states).commit
        except (PermanentError, FileNotFoundError, StopIteration):
            return 0

    def _own(self, folder: Path, client_id: str, base: QueueState | None, *, lenient: bool = False) -> JournalQueue:
        queue = open_queue(folder, client_id, *self._shape, self._now_us, lenient=lenient)
        if base is not None and queue.commit < base.commit:
            queue.close()
            raise PermanentError(f"its state is of commit {queue.commit}, and commit {base.commit} was synced")
        return queue

    def _from_base(self, folder: Path, client_id: str, base: QueueState) -> JournalQueue:
        """Take a queue back to its base, which was synced."""
        self._dirty.update(make_folders(folder))
        for number in message_files(folder):
            path = folder / file_name(number)
            if number == base.write_file and base.write_byte:
                if path.stat().st_size > base.write_byte:
                    os.truncate(path, base.write_byte)
            elif number >= base.write_file:
                path.unlink()
        state_file = StateFile(folder, client_id, self._options.backups)
        state_file.create(base)
        return open_queue(folder, client_id, *self._shape, self._now_us)

    def _finish(self, queue: JournalQueue) -> None:
        queue.save(self._now_us)
        queue.close()
        self._dirty.add(queue.folder)
        self._drained.extend(queue.drained)

    def _lose(self, client_id: str, folder: Path, why: str) -> None:
        after = set_aside(self._root, folder, client_id, why, self._now_us)
        self._found.lost.append(client_id)
        if after.serial:
            self._dirty.update([folder, *make_folders(folder)])
            fresh = StateFile(folder, client_id, self._options.backups)
            fresh.create(after._replace(commit=self._found.commit + 1))

    def _look_at_all(self) -> None:
        """Check all queues: one may be torn without being in a commit file."""
        _log.warning("queues are looked at, because nothing had been synced when the machine stopped")
        for _name, folder in self._folders.each():
            try:
                client_id = load_owner(folder)
            except (PermanentError, FileNotFoundError):
                continue
            try:
                self._finish(self._own(folder, client_id, None, lenient=True))
            except PermanentError as error:
                self._lose(client_id, folder, str(error))


def _changed(queue: JournalQueue, changes: list[tuple[int, QueueChange]]) -> JournalQueue:
    for commit, change in changes:
        if commit > queue.commit:
            queue.apply(change)
            queue.commit = commit
    return queue
