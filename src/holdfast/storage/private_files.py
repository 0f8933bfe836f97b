"""Folders and files for their owner alone: everything that messages are stored in.

The folder decides: no other user reaches a file through a folder of mode 0700. The command line (`cli/main.py`) sets
its umask as well, so that every file is private; a program that embeds a broker has an umask of its own.
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
    """Make the folder, with those above it. One that is there, and that other users have access to, is tightened.

    Only if it is empty or has the file `known_by` in it: a folder that is anything else besides is not ours to change.
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


def give_to_owner(path: Path, folder: Path) -> None:
    """A file is for the owner of its folder, who may be another user than the one of this process."""
    owner = folder.stat()
    try:
        if owner.st_uid != os.geteuid():
            os.chown(path, owner.st_uid, owner.st_gid)
        path.chmod(FILE_MODE)
    except PermissionError:
        path.chmod(0o644)  # its owner has to read it, and the folder keeps others out
