"""The writer of a lake: one at a time, in a folder by a lock, in a store of objects by a claim.

In a folder, who writes holds a lock of the operating system, which is gone with its process.

A store of objects has no locks that end with a process. There, who writes makes a transaction that moves a mark in the
table, `holdfast/NAME/writer`, to the next odd number, and all its transactions carry that mark; when it is done, it
moves it to the next even number. While it works, it changes a small object every few seconds.

    free: even ──claim──▶ odd ──release──▶ even
                           │ the object stands still ──another claim──▶ odd + 2

1. Delta refuses a transaction if its mark was moved since its version. So a writer that was replaced, because it stood
   still and came back, commits nothing: safety needs no clock. The object only tells whether to wait.
2. A lake that is claimed by a writer whose object moves is refused. No clocks are compared: the object is looked at
   twice.
3. What lies in the lake and in no table, when the claim is there, was left by a writer that was killed, failed, or can
   commit no more. A claim that was not released tells of it, or `_holdfast/unfinished`: a writer that fails puts it
   there before it releases its claim, and the next one that ends well removes it. In a folder, it is there from the
   beginning.
4. A store that would take two transactions of one number is refused before anything is written to the lake
   (`commit_check.py`).
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.files.lock import FileLock
from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake.archive_table import WrittenTable
from holdfast.pipeline.lake.commit_check import check_commits
from holdfast.pipeline.lake.lake import OWN_FOLDER, Lake
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore
from holdfast.pipeline.spark.log import LOGGER

_LOCK: Final = "lock"
_UNFINISHED: Final = "unfinished"
_BEAT: Final = f"{OWN_FOLDER}/writer"
_FAILED: Final = f"{OWN_FOLDER}/{_UNFINISHED}"
#: Seconds between two beats, and how long a writer may be silent: some requests in between may fail.
BEAT_S: Final = 5.0
SILENCE_S: Final = 30.0


@contextmanager
def open_writer(
    store: LakeStore, open_lake: Callable[[], Lake], who: str = "archive", wait: Callable[[float], None] = time.sleep
) -> Iterator[tuple[Lake, bool]]:
    """Be the only writer of a lake for the length of a block; the lake, and whether the last writer was killed.

    SettingsError if there is another, or if the store cannot keep two apart. PermanentError if something else has
    changed the rows.
    """
    if store.folder is not None:
        with lock_folder(store.folder, who) as was_left:
            lake = open_lake()
            lake.refuse_strangers()
            lake.evolve()
            yield lake, was_left
        return
    check_commits(store)
    lake = open_lake()
    lake.refuse_strangers()
    with claim_table(lake, who, wait) as was_left:
        lake.evolve()
        yield lake, was_left


# ---- folders


@contextmanager
def lock_folder(folder: Path, who: str = "archive") -> Iterator[bool]:
    """Be the only writer of a lake, or of another job's folder, for the length of a block; whether the last one died.

    SettingsError if there is another.
    """
    own = folder / OWN_FOLDER
    try:
        own.mkdir(parents=True, exist_ok=True)
        lock = FileLock(own / _LOCK, mode=0o644)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be made: {error.strerror}; name a folder that can be written") from error
    with lock:
        if not lock.acquire(wait_s=0):
            raise SettingsError(f"another {who} is writing to {folder}; wait for it, or stop it")
        unfinished = own / _UNFINISHED
        was_left = unfinished.exists()
        unfinished.touch()
        yield was_left
        unfinished.unlink()


# ---- stores of objects


@contextmanager
def claim_table(lake: WrittenTable, who: str, wait: Callable[[float], None] = time.sleep) -> Iterator[bool]:
    """Be the only writer by a claim for the length of a block; whether the last writer was killed, or failed."""
    was_left = _take(lake, who, wait)
    with _Beat(lake.store):
        try:
            yield was_left
        except HoldfastError:
            _release(lake, finished=False)
            raise
        _release(lake, finished=True)


def _take(lake: WrittenTable, who: str, wait: Callable[[float], None]) -> bool:
    """Move the mark to the next odd number; whether the last writer has left something."""
    number = lake.claim
    was_killed = number % 2 == 1
    if was_killed:
        _refuse_living(lake, who, wait)
    taken = number + (2 if was_killed else 1)
    try:
        lake.take_claim(taken, {"writer": who, "claimed": taken})
    except PermanentError:
        lake.refuse_strangers()
        raise SettingsError(f"another {who} has just begun to write to {lake.store}; wait for it, or stop it") from None
    with lake.store.errors(TransientError, f"the lake {lake.store} cannot be read"):
        return was_killed or lake.store.get(_FAILED) is not None


def _refuse_living(lake: WrittenTable, who: str, wait: Callable[[float], None]) -> None:
    """SettingsError if the writer that has claimed the lake goes on."""
    store = lake.store
    LOGGER.warning("%s was claimed and not released: looking for %d s whether somebody writes", store, int(SILENCE_S))
    with store.errors(TransientError, f"the lake {store} cannot be read"):
        before, version = store.get(_BEAT), lake.version
        wait(SILENCE_S)
        lake.refresh()
        if store.get(_BEAT) != before or lake.version != version:
            raise SettingsError(f"another {who} is writing to {store}; wait for it, or stop it")


def _release(lake: WrittenTable, *, finished: bool) -> None:
    """A claim that cannot be released costs the next writer half a minute."""
    store = lake.store
    try:
        with store.errors(TransientError, f"the lake {store} cannot be written"):
            if finished:
                store.remove([_FAILED])
            else:
                store.put(_FAILED, b"")
        lake.refresh()
        number = lake.claim
        lake.take_claim(number + 1, {"released": number})
    except HoldfastError as error:
        LOGGER.warning("the claim of %s was not released: %s", store, error)


class _Beat:
    """Changes an object again and again, in a thread, for the length of a block."""

    def __init__(self, store: LakeStore) -> None:
        self._store: Final = store
        self._ended: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="lake-writer", daemon=True)

    def __enter__(self) -> "_Beat":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        name = f"{uuid.uuid4().hex} {os.uname().nodename} {os.getpid()}"
        beats = 0
        while True:
            beats += 1
            with suppress(*STORE_ERRORS):  # the next one may come through
                self._store.put(_BEAT, f"{name} {beats}\n".encode())
            if self._ended.wait(BEAT_S):
                return
