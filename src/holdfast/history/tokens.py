"""Tokens: who may read the history.

    file   NAME:sha256:HEX       a line for each; `#` begins a comment        `holdfast token add` writes it

1. A token is 32 random bytes, so a fast hash is enough: there is nothing to guess.
2. The token itself is nowhere but with its owner: it is printed once, and never logged.
3. How long a check takes says nothing about how much of a token was right, nor whose it was.
4. The file is read again when it has changed. One that cannot be read any more lets nobody in.
"""

import hashlib
import hmac
import os
import re
import secrets
import threading
from pathlib import Path
from typing import Final

import structlog

from holdfast.model.errors import SettingsError

_log = structlog.get_logger()

_PREFIX: Final = "hft_"
_TOKEN_BYTES: Final = 32
_LINE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99}):sha256:([0-9a-f]{64})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Tokens:
    """What a server asks. Any thread."""

    def __init__(self, path: Path | None) -> None:
        """Without a file everybody may read. SettingsError if there is one, and it is wrong."""
        self._path: Final = path
        self._lock: Final = threading.Lock()
        self._stamp = None if path is None else _stamp(path)
        self._hashes = {} if path is None else read_tokens(path)

    def name_of(self, authorization: str) -> str | None:
        """Whose token is in a header `Bearer TOKEN`; None if it is nobody's."""
        if self._path is None:
            return "anybody"
        scheme, _blank, token = authorization.partition(" ")
        shown = _hash(token.strip()) if scheme.lower() == "bearer" else ""
        found: str | None = None
        for name, kept in self._current(self._path).items():
            if hmac.compare_digest(shown, kept):
                found = name
        return found

    def _current(self, path: Path) -> dict[str, str]:
        with self._lock:
            stamp = _stamp(path)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._hashes = read_tokens(path)
                except SettingsError as error:
                    self._hashes = {}
                    _log.error("the token file is wrong, and nobody may read", why=str(error))
                else:
                    _log.info("the token file was read again", tokens=len(self._hashes))
            return self._hashes


def read_tokens(path: Path) -> dict[str, str]:
    """Hashes by name; SettingsError with the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the token file {path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise SettingsError(
                f"{path}:{number} is no token; a line is made by: holdfast token add NAME --file {path}"
            )
        found[match[1]] = match[2]
    return found


def add_token(path: Path, name: str) -> str:
    """A new token for a name, in place of the one that it may have; the token, which nobody can find out later."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is no name for a token; use up to 100 letters, digits, '_', '-' and '.'")
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    _write(path, {**(read_tokens(path) if path.exists() else {}), name: _hash(token)})
    return token


def remove_token(path: Path, name: str) -> bool:
    """Whether there was one."""
    found = read_tokens(path)
    if found.pop(name, None) is None:
        return False
    _write(path, found)
    return True


def _write(path: Path, hashes: dict[str, str]) -> None:
    made = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}:sha256:{kept}\n" for name, kept in hashes.items())
        made.replace(path)
    except OSError as error:
        raise SettingsError(f"the token file {path} cannot be written: {error.strerror}") from error


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
