"""Tokens: who may read the history.

    file   NAME:sha256:HEX       a line for each; `#` begins a comment        `holdfast token add` writes it

1. A token is 32 random bytes, so a fast hash is enough.
2. The token itself is stored nowhere: it is printed once, and never logged.
3. A check takes the same time for every token, right or wrong.
4. The file is read again when it has changed. If it cannot be read any more, every token is refused.
"""

import hashlib
import hmac
import re
import secrets
import threading
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import SettingsError

_log = structlog.get_logger()

_PREFIX: Final = "hft_"
_TOKEN_BYTES: Final = 32
_LINE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99}):sha256:([0-9a-f]{64})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Tokens:
    """The tokens of a file, as servers check them. May be used from any thread."""

    def __init__(self, path: Path | None) -> None:
        """Without a file every client may read. SettingsError if the file is wrong."""
        self._path: Final = path
        self._lock: Final = threading.Lock()
        self._stamp = None if path is None else _stamp(path)
        self._hashes = {} if path is None else read_tokens(path)

    def name_of(self, authorization: str) -> str | None:
        """The name of the token in a header `Bearer TOKEN`; None if it is unknown."""
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
                    _log.error("token file is wrong, all reads are refused", why=str(error))
                else:
                    _log.info("the token file was read again", tokens=len(self._hashes))
            return self._hashes


def read_tokens(path: Path) -> dict[str, str]:
    """Hashes by name; SettingsError names the wrong line."""
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
    """Make a token for a name, in place of an older one. Returns the token, which is stored nowhere."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is no name for a token; use up to 100 letters, digits, '_', '-' and '.'")
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    _write(path, {**(read_tokens(path) if path.exists() else {}), name: _hash(token)})
    return token


def remove_token(path: Path, name: str) -> bool:
    """Whether the name had a token."""
    found = read_tokens(path)
    if found.pop(name, None) is None:
        return False
    _write(path, found)
    return True


def _write(path: Path, hashes: dict[str, str]) -> None:
    lines = [f"{name}:sha256:{kept}\n" for name, kept in hashes.items()]
    try:
        replace_file(path, "".join(lines).encode(), mode=FILE_MODE)
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
