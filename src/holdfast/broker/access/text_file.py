"""Small text files that operators write: read whole, replaced whole.

A reader sees the old file or the new one, never a part (`files.replacement`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.files.lock import FileLock
from holdfast.files.replacement import open_replacement
from holdfast.model.errors import SettingsError

#: What a new file may be read by: its owner. It holds hashes.
NEW_FILE_MODE: Final = 0o600
#: How much of a client's name goes into a message: enough to recognise it, however long it is.
_SHOWN_NAME_CHARS: Final = 64
#: Wrong lines that one message names: with more of them, it is probably another file.
_SHOWN_LINES: Final = 20


class WrongLines:
    """What is wrong with a file, line by line, so that it can be mended in one go."""

    def __init__(self) -> None:
        self._texts: Final[list[str]] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Read a line; SettingsError is kept for later."""
        try:
            yield
        except SettingsError as error:
            self._texts.append(str(error))

    def refuse(self) -> None:
        """SettingsError with all that was kept, unless there is nothing."""
        if self._texts:
            more = len(self._texts) - _SHOWN_LINES
            rest = [f"and {more} more lines are wrong"] if more > 0 else []
            raise SettingsError("\n".join(self._texts[:_SHOWN_LINES] + rest))


def read_lines(path: Path, what: str, *, missing_ok: bool = False) -> list[str]:
    """The lines of a UTF-8 file, each as it stands, without its line feed; `what` names the file in errors."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        if missing_ok:
            return [""]
        raise SettingsError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise SettingsError(f"{what} {path} cannot be read: {error.strerror}") from None
    lines: list[str] = []
    wrong = WrongLines()
    # Split by hand: only a line feed ends a line, whereas `splitlines` knows nine other characters.
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        with wrong.gathered():
            try:
                lines.append(line.decode())
            except UnicodeDecodeError:
                raise SettingsError(f"{path}:{number}: this line is not UTF-8; save {what} in UTF-8") from None
    wrong.refuse()
    return lines


def replace_lines(path: Path, lines: list[str], what: str) -> None:
    """Put `lines` in place of what the file holds, or create it.

    Ensures: owner and mode stay as they were; a new file is readable by its owner alone. A symbolic link stays one.
    Survives: a crash at any moment leaves the old file or the new one.
    """
    target = path.resolve()
    try:
        with open_replacement(target, mode=NEW_FILE_MODE) as file:
            _keep_owner_and_mode(file.fileno(), target)
            file.write("\n".join(lines).encode())
    except OSError as error:
        raise SettingsError(f"{what} {path} cannot be written: {error.strerror}") from None


@contextmanager
def editing(path: Path, what: str) -> Iterator[None]:
    """Keep out others who edit a file of the same folder, from before it is read until it is replaced."""
    folder = path.resolve().parent
    try:
        # The folder is locked, not the file: the file is another one after each edit.
        lock = FileLock(folder, create=False)
    except OSError as error:
        raise SettingsError(f"{what} {path} cannot be written: {folder}: {error.strerror}") from None
    with lock:
        try:
            lock.acquire()
        except OSError as error:
            raise SettingsError(
                f"{what} {path} cannot be written: {folder} cannot be locked: {error.strerror}"
            ) from None
        yield


def shown(name: str) -> str:
    """A name from outside, quoted and cut to a length that fits a log line."""
    return repr(name) if len(name) <= _SHOWN_NAME_CHARS else f"{name[:_SHOWN_NAME_CHARS]!r}…"


def _keep_owner_and_mode(file: int, target: Path) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        # Fails unless allowed: a file that its broker can no longer read would be worse than no edit.
        os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, old.st_mode & 0o7777)
