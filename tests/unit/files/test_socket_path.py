"""Where the sockets of a data folder lie, and what the lock file says of them."""

import os
from pathlib import Path

import pytest

from holdfast.files.lock import FileLock
from holdfast.files.socket_path import (
    LOCK_NAME,
    MAX_PATH_BYTES,
    find_socket,
    note_socket,
    prepare_socket_path,
    read_holder,
    socket_path,
    write_holder,
)


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a short path, whatever pytest calls its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"/tmp/hf-{os.getpid()}")
    return Path("/tmp")


def test_a_socket_lies_in_its_data_folder(short: Path) -> None:
    assert socket_path(short / "data") == Path("/tmp/data/control.sock")
    assert socket_path(short / "x" / ".." / "data", "history") == Path("/tmp/data/history.sock")


@pytest.mark.parametrize("long", [MAX_PATH_BYTES, 200])
def test_a_path_that_is_too_long_leads_to_the_run_folder(short: Path, long: int) -> None:
    one, other = (socket_path(short / (letter * long)) for letter in "ab")
    assert one.parent == other.parent == Path(f"/tmp/hf-{os.getpid()}/holdfast")
    assert one != other
    assert one.name.startswith("control-")
    assert one == socket_path(short / "x" / ".." / ("a" * long))


def test_the_longest_path_that_fits_stays_in_the_folder(short: Path) -> None:
    name = "d" * (MAX_PATH_BYTES - len("/tmp//control.sock"))
    assert socket_path(short / name) == short / name / "control.sock"
    assert socket_path(short / f"{name}d").parent != short / f"{name}d"


def test_without_a_data_folder_it_lies_in_the_run_folder(short: Path) -> None:
    assert socket_path(short / "data", on_disk=False).parent == Path(f"/tmp/hf-{os.getpid()}/holdfast")


def test_without_a_runtime_folder_the_run_folder_is_one_for_each_user(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert socket_path(short, on_disk=False).parent.name == f"holdfast-{os.getuid()}"


def test_the_run_folder_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("holdfast.files.socket_path.MAX_PATH_BYTES", 1000)
    path = prepare_socket_path(tmp_path, on_disk=False)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.parent.chmod(0o755)
    prepare_socket_path(tmp_path, on_disk=False)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_run_folder_that_is_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("holdfast.files.socket_path.MAX_PATH_BYTES", 1000)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "holdfast").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="no folder of this user"):
        prepare_socket_path(tmp_path, on_disk=False)


def test_a_run_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("holdfast.files.socket_path.MAX_PATH_BYTES", 1000)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    with pytest.raises(OSError, match="no folder of this user"):
        prepare_socket_path(tmp_path, on_disk=False)


def test_a_run_folder_that_is_too_deep_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("r" * 100)))
    with pytest.raises(OSError, match="set XDG_RUNTIME_DIR"):
        prepare_socket_path(tmp_path, on_disk=False)


def test_a_command_finds_the_socket_where_the_lock_file_says(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_bytes(b'{"pid": 1}\n')
    note_socket(tmp_path, "control", Path("/run/elsewhere.sock"))
    assert find_socket(tmp_path) == Path("/run/elsewhere.sock")
    assert read_holder(tmp_path)["pid"] == 1
    note_socket(tmp_path, "control", None)
    assert find_socket(tmp_path) == socket_path(tmp_path)
    assert read_holder(tmp_path) == {"pid": 1}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b'{"pid": 1', b'{"control": 5}\n'])
def test_a_lock_file_that_says_nothing_is_understood(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)
    assert find_socket(tmp_path) == socket_path(tmp_path)


def test_a_lock_file_is_rewritten_in_place_under_its_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / LOCK_NAME)
    assert lock.acquire(wait_s=0)
    write_holder(lock.descriptor, {"pid": 1, "host": "a name that is long"})
    before = (tmp_path / LOCK_NAME).stat().st_ino
    note_socket(tmp_path, "control", Path("/c"))
    write_holder(lock.descriptor, {"pid": 2})
    assert (tmp_path / LOCK_NAME).read_bytes() == b'{"pid": 2}\n'
    assert (tmp_path / LOCK_NAME).stat().st_ino == before
    rival = FileLock(tmp_path / LOCK_NAME)
    assert not rival.acquire(wait_s=0)
    rival.release()
    lock.release()
