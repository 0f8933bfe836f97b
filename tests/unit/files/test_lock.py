"""A lock keeps out other holders, and the end of its holder gives it back."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.files.lock import FileLock


def test_a_held_lock_is_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path) as first, FileLock(path) as second:
        assert first.acquire(wait_s=0)
        assert not second.acquire(wait_s=0)
        assert not second.acquire(shared=True, wait_s=0.02)
        first.release()
        assert second.acquire()


def test_shared_holders_do_not_keep_out_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path) as first, FileLock(path) as second, FileLock(path) as third:
        assert first.acquire(shared=True, wait_s=0)
        assert second.acquire(shared=True, wait_s=0)
        assert not third.acquire(wait_s=0)


def test_a_new_file_is_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path) as lock:
        lock.acquire()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_can_be_locked(tmp_path: Path) -> None:
    with FileLock(tmp_path, create=False) as first, FileLock(tmp_path, create=False) as second:
        assert first.acquire(wait_s=0)
        assert not second.acquire(wait_s=0)


def test_without_create_the_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "lock", create=False)
    assert not list(tmp_path.iterdir())


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = f"""
import os
from pathlib import Path
from holdfast.files.lock import FileLock
FileLock(Path({str(path)!r})).acquire()
os._exit(7)
"""
    source = Path(holdfast.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, check=False)
    assert done.returncode == 7
    with FileLock(path) as lock:
        assert lock.acquire(wait_s=0)
