"""Files and folders that only their owner may read: all that messages are stored in.

The folder decides: no other user reaches a file through a folder of mode 0700. The command line (`cli/main.py`) sets
its umask as well, so that every file is private; a program that embeds a broker has its own umask.

A trusted folder is another matter: others may read it, but programs are run from it and files are removed in it.
"""

import errno
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

_log = structlog.get_logger()

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
#: Links on the way to a folder, before it is taken for a circle.
_MAX_LINKS: Final = 40


def make_private_folder(folder: Path, known_by: str = "") -> None:
    """Make the folder and its parents. Take away the access of other users to a folder that exists already.

    Its mode is changed only if it is empty or holds the file `known_by`: any other folder may have another purpose.
    """
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    mode = folder.stat().st_mode & 0o777
    if not mode & _OTHERS:
        return
    before = f"{mode:04o}"
    try:
        if any(folder.iterdir()) and not (known_by and (folder / known_by).exists()):
            _log.warning("folder is open to other users", folder=str(folder), mode=before, advice=f"chmod 700 {folder}")
            return
        folder.chmod(FOLDER_MODE)
    except OSError as error:
        _log.warning("folder is open to other users", folder=str(folder), mode=before, why=error.strerror)
        return
    _log.warning("folder was open to other users, and is not any more", folder=str(folder), mode=before)


def give_to_owner(descriptor: int, folder: Path) -> None:
    """Make an open file private to the owner of its folder, who may be another user than the one of this process."""
    owner = folder.stat()
    try:
        if owner.st_uid != os.geteuid():
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.fchmod(descriptor, FILE_MODE)
    except PermissionError:
        os.fchmod(descriptor, 0o644)  # the owner must be able to read it, and the folder keeps other users out


def make_trusted_folder(folder: Path) -> None:
    """Make the folder, with mode 0700, and what is missing above it. Programs may be run from it.

    PermissionError: another user may change it, or put another folder in its place; or it is a link.
    Ensures: it and all above it belong to this user or to root, and nobody else may write there. Above it may lie a
    folder like /tmp, in which each user may rename and remove only what belongs to them.
    """
    path, links = Path(folder.absolute().anchor), 0
    names = list(reversed(folder.absolute().parts[1:]))
    while names:
        name = names.pop()
        if name == os.pardir:
            path = path.parent
            continue
        path = path / name
        status = _made(path)
        _check_owner(path, status)
        if not stat.S_ISLNK(status.st_mode):
            _check_mode(path, status, is_above=bool(names))
            continue
        links += 1
        if not names or links > _MAX_LINKS:
            raise PermissionError(errno.EPERM, f"{path} is a link; right would be the folder that it leads to")
        target = path.readlink()
        path = Path(target.anchor) if target.is_absolute() else path.parent
        names += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _made(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except FileNotFoundError:
        with suppress(FileExistsError):
            path.mkdir(FOLDER_MODE)
        return path.lstat()


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(
            errno.EPERM,
            f"{path} belongs to user {user_name(status.st_uid)}, who may change it; right would be a folder of user "
            f"{user_name(os.geteuid())} or root",
        )


def _check_mode(path: Path, status: os.stat_result, *, is_above: bool) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is not a folder")
    # A group with the number of the user is that user's own, as most systems make one.
    own_group = is_above and status.st_gid == status.st_uid
    others = stat.S_IWOTH if own_group else stat.S_IWGRP | stat.S_IWOTH
    if status.st_mode & others and not (is_above and status.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(status.st_mode)
        raise PermissionError(
            errno.EPERM, f"other users may write to {path} (mode {mode:04o}); right would be: chmod go-w {path}"
        )


def user_name(number: int) -> str:
    """As the machine knows a user, or the number."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
