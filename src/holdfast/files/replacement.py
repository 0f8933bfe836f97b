"""Files that are replaced as a whole: a reader finds the old content or the new one, never a part.

The new content goes to a temporary file in the same folder, is synced, and is renamed over the old file; then the
folder is synced. A failure removes the temporary file and leaves the old one. A killed process may leave a temporary
file: its name begins with a dot and ends with `.part`, so no reader of the folder takes it for anything else.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from holdfast.model.errors import PermanentError

#: The ends of temporary names; `.new` is that of earlier versions.
_TEMPORARY: Final = (".part", ".new")


@contextmanager
def open_replacement(path: Path, *, mode: int | None = None, sync: bool = True) -> Iterator[BinaryIO]:
    """Write the new content of `path` in the block. OSError if the file cannot be made.

    `mode`: exactly this one; None leaves it to the umask. Ensures: if the block fails, the old file is unchanged.
    Survives: with `sync` a power loss, else a killed process; in both cases with the old file or the new one.
    """
    # The name is random: threads, processes and hosts may replace the same file at the same time.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
            if sync:
                file.flush()
                os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_path(path.parent)


def is_temporary(path: Path) -> bool:
    """Whether a killed process may have left this file while it replaced another."""
    return path.suffix in _TEMPORARY


def replace_file(path: Path, data: bytes | bytearray, *, mode: int | None = None, sync: bool = True) -> None:
    """`open_replacement` for content that is in memory."""
    with open_replacement(path, mode=mode, sync=sync) as file:
        file.write(data)


def replace_json(path: Path, content: object, *, mode: int | None = None, indent: int | None = None) -> None:
    """Survives: a power loss, with the old file or the new one. OSError if it cannot be written."""
    replace_file(path, json.dumps(content, ensure_ascii=False, indent=indent).encode(), mode=mode)


def read_json(path: Path, version: int) -> dict[str, Any]:
    """The object in a file of JSON whose "version" is known.

    PermanentError: it has another version. OSError: it cannot be read. ValueError: it is not such a file.
    """
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict) or "version" not in content:
        raise ValueError("it has no version")
    if content["version"] != version:
        raise PermanentError(f"{path} has version {content['version']!r}, and this Holdfast knows {version}")
    return content


def sync_path(path: Path, *, missing_ok: bool = False) -> None:
    """Wait until a file, or the list of names of a folder, is on disk. Survives: a power loss."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if missing_ok:
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
