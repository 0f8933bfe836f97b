"""Files and folders that only their owner may read: all that messages are stored in.

The folder decides: no other user reaches a file through a folder of mode 0700. The command line (`cli/main.py`) sets
its umask as well, so that every file is private; a program that embeds a broker has its own umask.
"""

import os
from pathlib import Path
from typing import Final

import structlog

_log = structlog.get_logger()

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


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
