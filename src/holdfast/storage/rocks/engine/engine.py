"""The database of a node: one RocksDB. A batch is written under a number, and gets its receipt when it is synced.

    <data folder>/
      holdfast.lock   the process that has it   (folder_lock)
      opening.lock    opening and secondaries   (open_lock)
      synced          how far the WAL is synced (synced_mark)
      rocks/          RocksDB's own
      quarantine/     damaged files and reports (quarantine)

Rules:
1. Batch numbers increase. A batch is in the WAL when `write` returns, on disk when `on_synced` names its number or a
   later one, or when `sync_on_loop` has returned True. Several batches may share a sync.
2. A write that raises a TransientError has written nothing; the same changes may be written again.
3. After a failed sync nothing is written any more.
4. RocksDB never meets a full disk if we can help it: once an append to the WAL has failed, RocksDB refuses everything
   until it is opened again. So a reserve is kept, and below it a write is refused before RocksDB sees it. If another
   program takes the reserve too, the engine opens the database again when there is room.

`write`, families and `close` belong to one thread. `request_sync` and the numbers may be used from any.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocksdict import ColumnFamily, Rdict, WriteBatch

from holdfast.durable.changes import Changes, RangeEnd
from holdfast.durable.commit import SyncCounts
from holdfast.files.private import make_private_folder
from holdfast.files.socket_path import LOCK_NAME
from holdfast.model.errors import HoldfastError, MisuseError, PoisonedError
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.rocks.engine.column_families import META, check_format
from holdfast.storage.rocks.engine.commit_thread import CommitThread, WrittenMark
from holdfast.storage.rocks.engine.disk_space import FreeSpace
from holdfast.storage.rocks.engine.failures import (
    DiskFullError,
    Failure,
    FolderHeldError,
    StalledError,
    classify,
    is_no_room,
)
from holdfast.storage.rocks.engine.family_handles import FamilyHandles
from holdfast.storage.rocks.engine.loop_sync import LoopSyncRule
from holdfast.storage.rocks.engine.manifest import ManifestWatch
from holdfast.storage.rocks.engine.options import LASTING_FAMILIES, MAX_WAL_BYTES, WRITE_BUFFERS_BYTES, write_options
from holdfast.storage.rocks.engine.quarantine import QUARANTINE_NAME, Damage, Quarantine
from holdfast.storage.rocks.engine.range_tombstones import compact_tombstones
from holdfast.storage.rocks.engine.recovery import BATCH_KEY, OpenedDatabase, open_database
from holdfast.storage.rocks.engine.synced_mark import Synced, SyncedMark
from holdfast.storage.rocks.engine.wal_scan import wal_files

#: Refuse writes below this much free space. What is in memory and in the WAL can then still become tables.
RESERVE_BYTES: Final = MAX_WAL_BYTES + WRITE_BUFFERS_BYTES // 4
#: RocksDB gets over a flush that found no room by itself, looking every 5 s. Then we open it again.
_OWN_RECOVERY_S: Final = 15.0
#: Properties of RocksDB: its work in the background, of all families.
_FLUSHES: Final = "rocksdb.num-running-flushes"
_COMPACTIONS: Final = "rocksdb.num-running-compactions"


class Engine:
    """Survives: a killed process (what was written), a power loss (what was synced)."""

    def __init__(
        self,
        folder: Path,
        lock: FolderLock,
        mark: SyncedMark,
        opened: OpenedDatabase,
        reserve_bytes: int,
        loop_sync: LoopSyncRule,
    ) -> None:
        self.folder: Final = folder
        self.path: Final = folder / "rocks"
        #: What was found at open: reported data loss, and the words for a torn tail, which is none.
        self.damage: Final[list[Damage]] = list(opened.damage)
        self.torn_tail: Final = opened.torn_tail
        self._lock: Final = lock
        self._mark: Final = mark
        self._reserve_bytes: Final = reserve_bytes
        self._write_options: Final = write_options()
        self._descriptor: Final = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        #: Held while a sync is done, noted or settled, and while the database is closed.
        self._in_use: Final = threading.Lock()
        self._written = WrittenMark(opened.batch, opened.sequence)
        #: Bytes of all batches, and of those that a sync has covered. Each is changed by one thread at a time.
        self._written_bytes = 0
        self._synced_bytes = 0
        self._loop_sync: Final = loop_sync
        self._database: Rdict | None = None
        self._families: FamilyHandles | None = None
        self._manifest: Final = ManifestWatch(self.path)
        self._broken: str | None = None
        self._full_since_s: float | None = None
        self._free: Final = FreeSpace(self._descriptor)
        self._half_made: Final[set[str]] = set()
        self._closed = False
        self._reopened_callbacks: Final[list[Callable[[], None]]] = []
        self._take(opened)
        self._commit: Final = CommitThread(self, opened.batch)
        self._commit.start()

    @classmethod
    def open(
        cls, folder: Path, *, reserve_bytes: int = RESERVE_BYTES, loop_sync: LoopSyncRule | None = None
    ) -> "Engine":
        """Ensures: the database is open and `damage` says what it lacks; or an error says why not and what to do.

        NewerFormatError for a folder of a later Holdfast, which is not written to. Without a `loop_sync` every sync is
        one of the commit thread.
        """
        make_private_folder(folder, LOCK_NAME)
        lock = FolderLock.acquire(folder)
        mark: SyncedMark | None = None
        try:
            mark = SyncedMark(folder)
            opened = open_database(
                folder / "rocks", Quarantine(folder / QUARANTINE_NAME), mark.last, mark_is_exact=mark.is_exact
            )
            engine = cls(folder, lock, mark, opened, reserve_bytes, loop_sync or LoopSyncRule(enabled=False))
            for name in LASTING_FAMILIES:
                compact_tombstones(name, engine.family(name))
            # The names of what was made in it; RocksDB syncs only its own folder.
            os.fsync(engine._descriptor)
        except BaseException as error:
            if mark is not None:
                mark.close()
            lock.release()
            if isinstance(error, Exception) and is_no_room(error) and not isinstance(error, HoldfastError):
                raise DiskFullError(f"no room to open {folder}: {error}") from error
            raise
        try:
            if META in engine.families():
                check_format(engine.family(META), folder)
        except BaseException:
            engine.close()
            raise
        return engine

    # Families

    def families(self) -> list[str]:
        """Without RocksDB's own default one."""
        return self._opened().names()

    def family(self, name: str) -> Rdict:
        """For reading. Do not keep it over `on_reopened`; never write through it."""
        return self._opened().reader(name)

    def create_family(self, name: str) -> None:
        """Survives: a power loss, at once. Fails as `write` does."""
        self._ready()
        if name in self._half_made:
            self._half_made.discard(name)
            if name in self._opened().names():
                return
        try:
            self._opened().create(name)
        except HoldfastError:
            raise
        except Exception as error:
            if is_no_room(error):
                # RocksDB may have made it and then failed to say so; after a reopening that is known.
                self._half_made.add(name)
                self._broken = str(error)
            self._refuse(error)

    def drop_family(self, name: str) -> None:
        """Requires: no pending changes name it. Its files go when the last reader has let go of it.

        Also on a full disk: this is how room is made.
        """
        try:
            self._opened().drop(name)
        except HoldfastError:
            raise
        except Exception as error:
            self._refuse(error)

    def flush(self) -> None:
        """Turns memory into tables. Releases the GIL, so that a checkpoint after it, which does not, is short."""
        self._opened().flush()

    # Writing

    def write(self, number: int, changes: Changes) -> None:
        """Ensures: all of it is in the WAL, or none. Survives: a killed process; for more, wait for the receipt."""
        database, handles = self._ready()
        if number <= self._written.batch:
            raise MisuseError(f"batch {number} comes after batch {self._written.batch}; numbers must increase")
        batch = as_batch(changes, handles)
        batch.put(BATCH_KEY, number.to_bytes(8, "big"))
        size_bytes = batch.size_in_bytes()
        try:
            database.write(batch, self._write_options)
        except Exception as error:
            self._refuse(error)
        self._full_since_s = None
        self._written_bytes += size_bytes
        self._free.use(size_bytes)
        self._written = WrittenMark(number, database.latest_sequence_number())

    def is_open(self) -> bool:
        """Whether it can be read: not while a full disk, or an iterator, keeps it from being opened again."""
        return self._families is not None

    def make_ready(self) -> None:
        """Open the database again if it has to be. Fails as `write` does."""
        self._ready()

    def _ready(self) -> tuple[Rdict, dict[str, ColumnFamily]]:
        """The database and its families' handles, if it may be written to now."""
        if self._commit.poison is not None:
            raise PoisonedError(f"nothing is written any more: {self._commit.poison}")
        if self._broken is not None:
            self._reopen()
        families = self._opened()
        assert self._database is not None
        free_bytes = self._free.read(time.monotonic(), self._reserve_bytes)
        if free_bytes < self._reserve_bytes:
            raise DiskFullError(
                f"{free_bytes} bytes are free in {self.folder}; writing needs {self._reserve_bytes} in reserve"
            )
        return self._database, families.handles

    def _refuse(self, error: Exception) -> None:
        """Raises what a failed write means for the caller."""
        self._free.forget()
        failure = classify(error)
        if failure is Failure.STALLED:
            raise StalledError(f"RocksDB has to catch up: {error}") from error
        if failure is Failure.LOST:
            self._commit.fail(error)
            raise PoisonedError(f"RocksDB failed, nothing is written any more: {error}") from error
        now_s = time.monotonic()
        if self._full_since_s is None:
            self._full_since_s = now_s
        # A failed append leaves half a record in the WAL, and its writer refuses from then on.
        # Other files RocksDB tries again by itself.
        if ".log" in str(error) or failure is Failure.BROKEN or now_s - self._full_since_s > _OWN_RECOVERY_S:
            self._broken = str(error)
        raise DiskFullError(f"no room in {self.folder}: {error}") from error

    # Receipts

    @property
    def written(self) -> int:
        return self._written.batch

    @property
    def synced(self) -> int:
        return self._commit.synced

    @property
    def sync_counts(self) -> SyncCounts:
        return self._loop_sync.counts

    @property
    def poison(self) -> Exception | None:
        return self._commit.poison

    def on_synced(self, callback: Callable[[int], None]) -> None:
        """Called on the commit thread with the last batch that is on disk. It must not call `sync_now`."""
        self._commit.on_synced(callback)

    def on_poisoned(self, callback: Callable[[Exception], None]) -> None:
        """Called once, on any thread, when a sync has failed: receipts that are still owed will never come."""
        self._commit.on_poisoned(callback)

    def on_reopened(self, callback: Callable[[], None]) -> None:
        """Called inside `write` after a full disk: handles from `family` are void, ask for them again."""
        self._reopened_callbacks.append(callback)

    def fail(self, error: Exception) -> None:
        """Something that had to be written is lost: write nothing more, and give no receipt."""
        self._commit.fail(error)

    def request_sync(self) -> None:
        self._commit.request()

    def sync_now(self) -> None:
        """Ensures: all that was written is on disk."""
        batch = self._written.batch
        if self._commit.synced >= batch:
            return
        self._commit.request()
        while not self._commit.wait_for(batch, 0.1):
            if self._commit.poison is not None:
                raise PoisonedError(f"a sync failed: {self._commit.poison}") from self._commit.poison
            if self._broken is not None or self._closed:
                raise DiskFullError(f"batch {batch} cannot be synced now: {self._broken or 'the engine is closed'}")

    def sync_within(self, timeout_s: float) -> bool:
        """Any thread. Whether all that was written is on disk by then."""
        batch = self._written.batch
        self._commit.request()
        return self._commit.wait_for(batch, timeout_s)

    def sync_on_loop(self, changes: int) -> bool:
        """Sync here and now if `LoopSyncRule` allows it for a commit of so many changes, and nothing else is synced.

        Requires: the thread that writes. Ensures, if True: all that was written has its receipt; callbacks are not
        called. If False, nothing is promised: ask for a sync of the commit thread.
        """
        rule, database, commit = self._loop_sync, self._database, self._commit
        began_s = time.monotonic()
        unsynced_bytes = self._written_bytes - self._synced_bytes
        if not rule.allows(changes, unsynced_bytes, began_s) or not commit.is_idle():
            return False
        if database is None or self._broken is not None or commit.poison is not None or _writes_tables(database):
            return False
        # Held by the commit thread while it settles the mark.
        if not self._in_use.acquire(blocking=False):
            return False
        try:
            written = self._written
            if commit.poison is not None or not self._sync_wal(database):
                return False
            self._note(written)
            ended_s = time.monotonic()
            rule.synced_on_loop(ended_s - began_s, ended_s)
            # Before the lock is released: the commit thread may wait for it, and must find this one done.
            commit.synced_elsewhere(written.batch)
        except Exception as error:
            commit.fail(error)
            return False
        finally:
            self._in_use.release()
        return True

    # The journal of the commit thread

    def last_written(self) -> WrittenMark:
        return self._written

    def sync(self) -> bool:
        with self._in_use:
            database = self._database
            if database is None or self._broken is not None:
                return False
            began_s = time.monotonic()
            try:
                if not self._sync_wal(database):
                    return False
            except Exception as error:
                # Before the lock is released: the loop must not sync after this one.
                self._commit.fail(error)
                raise
            ended_s = time.monotonic()
            self._loop_sync.synced_on_thread(ended_s - began_s, ended_s)
        return True

    def _sync_wal(self, database: Rdict) -> bool:
        """As `sync`. Requires: `_in_use` is held."""
        # Before the call: the loop may write meanwhile.
        written_bytes = self._written_bytes
        try:
            database.flush_wal(True)
        except Exception as error:
            if classify(error) is Failure.BROKEN:
                # Not this sync but an append before it failed; the write says so, and opens the database again.
                self._broken = str(error)
                return False
            raise
        self._synced_bytes = written_bytes
        return True

    def note_synced(self, written: WrittenMark) -> None:
        with self._in_use:
            self._note(written)

    def _note(self, written: WrittenMark) -> None:
        self._mark.write(Synced(written.sequence, written.batch, *self._manifest.synced()))

    def settle(self) -> None:
        with self._in_use:
            self._mark.settle()

    # Opening and closing

    def _take(self, opened: OpenedDatabase) -> None:
        self._database = opened.database
        self._families = FamilyHandles(self.path, opened.database, opened.shared)
        opened.database.flush_wal(True)
        self._written = WrittenMark(max(opened.batch, self._written.batch), opened.database.latest_sequence_number())
        self._note(self._written)
        self._mark.settle()

    def _opened(self) -> FamilyHandles:
        if self._closed:
            raise MisuseError("the engine is closed")
        if self._families is None:
            raise StalledError(f"the database is being opened again: {self._broken}")
        return self._families

    def _let_go(self) -> None:
        families, self._families, self._database = self._families, None, None
        if families is not None:
            families.close()

    def _reopen(self) -> None:
        """After an append found no room. Reading goes on until there is room to open."""
        wal_bytes = sum(path.stat().st_size for path in wal_files(self.path))
        need_bytes = wal_bytes + self._reserve_bytes
        self._free.forget()
        if self._free.read(time.monotonic(), need_bytes) < need_bytes:
            raise DiskFullError(f"{self.folder} needs {need_bytes} free bytes to go on; {self._broken}")
        with self._in_use:
            self._let_go()
            must_reach = Synced(self._written.sequence, self._written.batch)
            quarantine = Quarantine(self.folder / QUARANTINE_NAME)
            try:
                opened = open_database(self.path, quarantine, must_reach, mark_is_exact=True)
            except DiskFullError:
                raise
            except FolderHeldError as error:
                raise StalledError("the database cannot be opened again while iterators on it are alive") from error
            except Exception as error:
                self._commit.fail(error)
                raise PoisonedError(f"the database could not be opened again: {error}") from error
            self._take(opened)
            self._broken = None
            self._full_since_s = None
            if opened.damage:
                self._commit.fail(PoisonedError("; ".join(map(str, opened.damage))))
        for callback in self._reopened_callbacks:
            callback()
        self._commit.request()
        if self._commit.poison is not None:
            raise PoisonedError(f"the full disk took what was written: {self._commit.poison}")

    def close(self) -> None:
        """Ensures: what was written is synced, unless the engine is poisoned or the disk is full."""
        if self._closed:
            return
        try:
            if self._commit.poison is None and self._broken is None:
                self.sync_now()
        finally:
            self._commit.stop()
            self._closed = True
            with self._in_use:
                self._let_go()
            with suppress(OSError):
                self._mark.settle()
            self._mark.close()
            self._manifest.close()
            os.close(self._descriptor)
            self._lock.release()


def _writes_tables(database: Rdict) -> bool:
    """Whether RocksDB flushes or compacts: a sync beside that waits for its writes, and for a new WAL to be made."""
    return bool(database.property_int_value(_FLUSHES) or database.property_int_value(_COMPACTIONS))


def as_batch(changes: Changes, handles: Mapping[str, ColumnFamily]) -> WriteBatch:
    """A new batch of RocksDB with all of the changes. One write uses it up."""
    batch = WriteBatch(raw_mode=True)
    put = batch.put
    for name, family in changes.families():
        handle = handles.get(name)
        if handle is None:
            raise MisuseError(f"changes for column family {name!r}, which does not exist")
        for key, value in family.operations:
            if value.__class__ is bytes:
                put(key, value, handle)
            elif isinstance(value, RangeEnd):
                batch.delete_range(key, value.key, handle)
            else:
                batch.delete(key, handle)
    return batch
