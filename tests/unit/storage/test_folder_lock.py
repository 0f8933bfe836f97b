"""One process per folder, and a name for the one that has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.files.socket_path import LOCK_NAME
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.rocks.engine.failures import FolderHeldError


def test_the_second_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    """M4."""
    lock = FolderLock.acquire(tmp_path)
    with pytest.raises(
        FolderHeldError, match=rf"{tmp_path} is in use by pid {os.getpid()} on .*, holdfast .*, started"
    ):
        FolderLock.acquire(tmp_path)
    lock.release()
    FolderLock.acquire(tmp_path).release()


def test_a_refused_process_does_not_change_what_the_file_says(tmp_path: Path) -> None:
    lock = FolderLock.acquire(tmp_path)
    before = (tmp_path / LOCK_NAME).read_bytes()
    with pytest.raises(FolderHeldError):
        FolderLock.acquire(tmp_path)
    assert (tmp_path / LOCK_NAME).read_bytes() == before
    lock.release()


def test_the_file_of_a_dead_process_is_no_obstacle(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from holdfast.storage.folder_lock import FolderLock\n"
        "lock = FolderLock.acquire(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert dead.returncode == -9
    assert (tmp_path / LOCK_NAME).exists()
    FolderLock.acquire(tmp_path).release()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'{"pid": 1}'])
def test_a_holder_that_did_not_say_who_it_is_still_holds(tmp_path: Path, content: bytes) -> None:
    lock = FolderLock.acquire(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(content)
    with pytest.raises(FolderHeldError, match="has not said who it is"):
        FolderLock.acquire(tmp_path)
    lock.release()
