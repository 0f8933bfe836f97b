"""A Unix socket that no other user can connect to, not even in its first moment.

It is bound, gets mode 0600, and only then may listen. A socket file that a killed process has left is replaced; one
that another process serves is left alone, unless it is to be taken over, and so is a file that is no socket.
"""

import errno
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.files.private import FILE_MODE


class PrivateSocket:
    """A Unix socket that is bound and does not listen yet, so that it takes no connection before its mode is 0600."""

    def __init__(self, path: Path, *, take_over: bool = False) -> None:
        """OSError if the path is not free. What a killed process left there is removed first.

        `take_over` if no other process may serve it any more: one that does is about to end, and loses the path.
        """
        self._path: Final = path
        self._take_over: Final = take_over
        self.socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self._bind()
            path.chmod(FILE_MODE)
            self._inode: Final = path.stat().st_ino
        except BaseException:
            self.socket.close()
            raise

    def _bind(self) -> None:
        try:
            self.socket.bind(str(self._path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _remove_stale(self._path, served_too=self._take_over)
            self.socket.bind(str(self._path))

    def remove(self) -> None:
        """Take the path away, unless it leads to another socket by now."""
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def _remove_stale(path: Path, *, served_too: bool) -> None:
    """Remove a socket that no process serves any more, or serves on."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise OSError(f"{path} is in the way and is no socket; move it elsewhere")
    if served_too:
        path.unlink(missing_ok=True)
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.setblocking(False)
        try:
            trial.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass
    raise OSError(f"another process serves {path}")
