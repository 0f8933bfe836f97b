"""Where the Unix sockets of a data folder lie, and what `holdfast.lock` says of the process that has the folder.

    <data folder>/control.sock                      as a rule
    <run folder>/control-<hash>.sock                if that path is too long for a socket, or nothing is on disk

The run folder is `$XDG_RUNTIME_DIR/holdfast`, or `/tmp/holdfast-<uid>`.

1. Another user must not be able to put a socket where a command looks for one: the run folder is this user's alone.
2. The lock file is rewritten in place and never replaced, because the lock is on the file and not on its name.
3. Whoever reads the lock file may come at any moment: what is no complete line of JSON says nothing.
"""

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from holdfast.files.private import FOLDER_MODE

LOCK_NAME: Final = "holdfast.lock"
#: The socket by which a broker is asked and directed, and that of the history process.
CONTROL: Final = "control"
HISTORY: Final = "history"
#: A path of a socket has at most 107 bytes on Linux and 103 on other systems.
MAX_PATH_BYTES: Final = 100
_HASH_DIGITS: Final = 16
_MAX_LOCK_BYTES: Final = 4096


def socket_path(folder: Path, name: str = CONTROL, *, on_disk: bool = True) -> Path:
    """Where a socket of a data folder lies. Nothing is made; `on_disk` is False if the folder is not there."""
    if on_disk:
        path = _absolute(folder) / f"{name}.sock"
        if len(os.fsencode(path)) <= MAX_PATH_BYTES:
            return path
    digits = hashlib.sha256(os.fsencode(_absolute(folder))).hexdigest()[:_HASH_DIGITS]
    return run_folder() / f"{name}-{digits}.sock"


def prepare_socket_path(folder: Path, name: str = CONTROL, *, on_disk: bool = True) -> Path:
    """The same, and make the run folder if the socket lies there.

    OSError says what is wrong: another user has the run folder, it cannot be made, or even that path is too long.
    """
    path = socket_path(folder, name, on_disk=on_disk)
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise OSError(f"{path} is longer than the {MAX_PATH_BYTES} bytes of a socket's path; set XDG_RUNTIME_DIR")
    if path.parent == run_folder():
        _make_run_folder(path.parent)
    return path


def find_socket(folder: Path, name: str = CONTROL, *, on_disk: bool = True) -> Path:
    """Where a command finds the socket of a running process: where the lock file says, else where it would lie."""
    noted = read_holder(folder).get(name) if on_disk else None
    if isinstance(noted, str) and noted:
        return Path(noted)
    return socket_path(folder, name, on_disk=on_disk)


def run_folder() -> Path:
    """The folder of sockets that have no place in their data folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "holdfast"
    return Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}"


def _make_run_folder(folder: Path) -> None:
    """Ensures: it is a folder of this user that no other user can look into. OSError if it cannot be."""
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{folder} is no folder of this user; remove it, or set XDG_RUNTIME_DIR to a folder of your own")
    if stat.S_IMODE(found.st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)


def _absolute(folder: Path) -> Path:
    """One path for one folder, however it was written."""
    return Path(os.path.realpath(folder))


# ---- the lock file


def write_holder(descriptor: int, holder: dict[str, Any]) -> None:
    """Say in the lock file, which is open, who holds the folder. On a full disk it stays empty, or as it was."""
    line = json.dumps(holder, ensure_ascii=False).encode() + b"\n"
    try:
        # Longer text is cut off behind the line, so that a reader finds a complete one at any moment.
        os.pwrite(descriptor, line, 0)
        os.ftruncate(descriptor, len(line))
    except OSError:
        pass


def parse_holder(content: bytes) -> dict[str, Any]:
    """What a lock file says; empty if it says nothing, or something that cannot be read."""
    try:
        found = json.loads(content.split(b"\n", 1)[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_holder(folder: Path) -> dict[str, Any]:
    """What the lock file of a folder says of the process that has it, or had it last."""
    try:
        with open(folder / LOCK_NAME, "rb") as file:
            return parse_holder(file.read(_MAX_LOCK_BYTES))
    except OSError:
        return {}


def note_socket(folder: Path, name: str, path: Path | None) -> None:
    """Add the path of a socket to what the lock file says, or take it out. Requires: this process holds the lock."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        holder = parse_holder(os.pread(descriptor, _MAX_LOCK_BYTES, 0))
        holder.pop(name, None)
        if path is not None:
            holder[name] = str(path)
        write_holder(descriptor, holder)
    finally:
        os.close(descriptor)
