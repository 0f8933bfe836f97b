"""After a crash: commit files say what was promised, and the queues' own files are brought there.

For each queue that a commit file speaks of, in this order:

1. Its own files are opened. If they are whole, the changes that its state does not have yet are done. After a killed
   process that is all, because the kernel had every byte.
2. If they are not, the queue goes back to its base, which was synced before the commit file was begun, and all changes
   since are done again. After a power loss any part of what was not synced may be missing, and none of it is needed.
3. If that cannot be done either, the queue is set aside. The others are not concerned.

Then everything is synced, and the commit files go. Doing it again, after a crash in the middle, gives the same.
"""

import os
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.changes import REMOVED, Change
from holdfast.storage.journal.commit_file import CommitLog, commit_files, read_commit_file
from holdfast.storage.journal.files import make_folders, remove_folder, sync_folders
from holdfast.storage.journal.folders import Folders, queue_id
from holdfast.storage.journal.message_file import file_name
from holdfast.storage.journal.opening import message_files, open_queue
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.quarantine import set_aside, set_aside_commits
from holdfast.storage.journal.queue import JournalQueue
from holdfast.storage.journal.queue_state import QueueState, decode_state
from holdfast.storage.journal.state_file import StateFile, load_owner, load_state_file

_log = structlog.get_logger()


class Recovered:
    """What a start has found."""

    def __init__(self) -> None:
        self.turns = 0
        self.queues = 0
        #: Clients whose queues had to be set aside.
        self.lost: Final[list[str]] = []
        #: The last commit that anything speaks of.
        self.commit = 0


class Recovery:
    """Requires: the lock of the root."""

    def __init__(self, folders: Folders, options: JournalOptions, now_us: int) -> None:
        self._folders: Final = folders
        self._root: Final = folders.root
        self._shape: Final = (options.max_file_messages, options.backups)
        self._options: Final = options
        self._now_us: Final = now_us
        self._found: Final = Recovered()
        #: Whether the power was gone, and nothing had been synced on purpose.
        self._unsynced = False
        self._dirty: Final[set[Path]] = set()
        self._drained: Final[list[Path]] = []

    def run(self) -> Recovered:
        """Ensures: no commit file is left, and all queues that they spoke of are synced."""
        files = commit_files(self._root)
        logs = [self._read(path) for path in files]
        changes: dict[str, list[tuple[int, Change]]] = {}
        for log in logs:
            for turn in log.turns:
                self._found.turns += 1
                self._found.commit = max(self._found.commit, turn.commit)
                for change in turn.changes:
                    changes.setdefault(change.client_id, []).append((turn.commit, change))
        self._unsynced = any(not log.synced and not log.same_boot for log in logs)
        for client_id, own in changes.items():
            self._recover(client_id, own)
        if self._unsynced:
            self._look_at_all()
        sync_folders(self._dirty, self._root)
        for path in [*self._drained, *files]:
            path.unlink(missing_ok=True)
        return self._found

    def _read(self, path: Path) -> CommitLog:
        log = read_commit_file(path)
        if log.damage:
            set_aside_commits(self._root, path, log.damage, self._now_us)
        return log

    def _recover(self, client_id: str, changes: list[tuple[int, Change]]) -> None:
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
        """Take a queue back to a state that was synced."""
        self._dirty.update(make_folders(folder))
        for number in message_files(folder):
            path = folder / file_name(number)
            if number == base.write_file and base.write_byte:
                if path.stat().st_size > base.write_byte:
                    os.truncate(path, base.write_byte)
            elif number >= base.write_file:
                path.unlink()
        state_file = StateFile(folder, queue_id(client_id), client_id, self._options.backups)
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
            fresh = StateFile(folder, queue_id(client_id), client_id, self._options.backups)
            fresh.create(after._replace(commit=self._found.commit + 1))

    def _look_at_all(self) -> None:
        """A queue may be torn without anything speaking of it."""
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


def _changed(queue: JournalQueue, changes: list[tuple[int, Change]]) -> JournalQueue:
    for commit, change in changes:
        if commit > queue.commit:
            queue.apply(change)
            queue.commit = commit
    return queue
