"""One-time links: an empty file for each, named after the SHA-256 of its token.

    holdfast console open ─▶ links/HASH ─▶ http://127.0.0.1:18083/login#token=TOKEN ─▶ POST login {"link": TOKEN}

1. Whoever may write to the folder of the console may make a link: the owner of the data.
2. A link is good once: to use it is to remove its file, and only one process can.
3. It is good for an hour. The token stands behind `#`, so no server and no log has it.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from holdfast.files.private import FILE_MODE, FOLDER_MODE

LIFETIME_S: Final = 3600
_FOLDER: Final = "links"
_TOKEN_BYTES: Final = 32


def make_link(state_folder: Path) -> str:
    """The token of a new link. OSError if its file cannot be made."""
    folder = state_folder / _FOLDER
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    owner = state_folder.stat()
    if owner.st_uid != folder.stat().st_uid and os.geteuid() == 0:
        # Made by root: the console has to be able to remove what is in it.
        os.chown(folder, owner.st_uid, owner.st_gid)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    os.close(os.open(folder / _name(token), os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    return token


def use_link(state_folder: Path, token: str, now_s: float) -> bool:
    """Whether it is a good link. It is not any more, then. Links that have ended are removed."""
    folder = state_folder / _FOLDER
    try:
        paths = list(folder.iterdir())
    except FileNotFoundError:
        return False
    wanted = _name(token)
    is_good = False
    for path in paths:
        try:
            is_old = now_s - path.stat().st_mtime > LIFETIME_S
            if is_old or path.name == wanted:
                path.unlink()
                is_good |= not is_old and path.name == wanted
        except FileNotFoundError:
            continue  # another process has used or removed it
    return is_good


def login_address(url: str, token: str) -> str:
    """What a person opens."""
    return f"{url}/login#token={token}"


def _name(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
