"""The token file: who may read the history, and who may use the console.

    NAME:sha256:HEX                                       a line for each; `#` begins a comment
    NAME:sha256:HEX role=viewer expires=1798761600 filter=plant/%23

`holdfast token add` writes it. The words behind the hash are optional, in any order: `role` (without it, `reader`),
`expires` (seconds since 1970), `filter` (percent-encoded, may be repeated: only these topics).

1. A token is 32 random bytes, so a fast hash is enough.
2. The token itself is stored nowhere: it is printed once, and never logged.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import SettingsError
from holdfast.model.roles import READER, ROLES

_PREFIX: Final = "hft_"
_TOKEN_BYTES: Final = 32
#: Tokens in a text, for who leaves them out: a regular expression of Java, too.
TOKEN_PATTERN: Final = rf"{_PREFIX}[A-Za-z0-9_-]+"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LINE: Final = re.compile(rf"({_NAME.pattern}):sha256:([0-9a-f]{{64}})((?: [a-z]+=\S+)*)")


@dataclass(frozen=True)
class TokenEntry:
    """A line of the file."""

    name: str
    #: SHA-256 of the token, in hexadecimal.
    digest: str
    role: str = READER
    #: None: it does not end.
    expires_s: int | None = None
    #: Empty: all topics.
    filters: tuple[str, ...] = ()

    def has_expired(self, now_s: float) -> bool:
        return self.expires_s is not None and now_s >= self.expires_s

    def line(self) -> str:
        """As it stands in the file."""
        words = [] if self.role == READER else [f"role={self.role}"]
        words += [] if self.expires_s is None else [f"expires={self.expires_s}"]
        words += [f"filter={quote(text, safe='/')}" for text in self.filters]
        return " ".join((f"{self.name}:sha256:{self.digest}", *words))


def read_token_file(path: Path) -> dict[str, TokenEntry]:
    """Entries by name; SettingsError names the wrong line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the token file {path} cannot be read: {error}") from error
    found: dict[str, TokenEntry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        entry = _parse(line.strip())
        if entry is None:
            raise SettingsError(
                f"{path}:{number} is no token; a line is made by: holdfast token add NAME --file {path}"
            )
        found[entry.name] = entry
    return found


def find_token(entries: Mapping[str, TokenEntry], token: str) -> TokenEntry | None:
    """The entry of a token. Takes the same time for every token, right or wrong."""
    shown = _hash(token)
    found: TokenEntry | None = None
    for entry in entries.values():
        if hmac.compare_digest(shown, entry.digest):
            found = entry
    return found


def add_token(
    path: Path, name: str, *, role: str = READER, expires_s: int | None = None, filters: Iterable[str] = ()
) -> str:
    """Make a token for a name, in place of an older one. Returns the token, which is stored nowhere."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is no name for a token; use up to 100 letters, digits, '_', '-' and '.'")
    if role not in ROLES:
        raise SettingsError(f"{role!r} is no role; the roles are {', '.join(ROLES)}")
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    entry = TokenEntry(name, _hash(token), role, expires_s, tuple(filters))
    _write(path, {**(read_token_file(path) if path.exists() else {}), name: entry})
    return token


def remove_token(path: Path, name: str) -> bool:
    """Whether the name had a token."""
    found = read_token_file(path)
    if found.pop(name, None) is None:
        return False
    _write(path, found)
    return True


def _parse(line: str) -> TokenEntry | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    role, expires_s, filters = READER, None, []
    for word in match[3].split():
        key, _sign, value = word.partition("=")
        if key == "role" and value in ROLES:
            role = value
        elif key == "expires" and value.isascii() and value.isdigit():
            expires_s = int(value)
        elif key == "filter":
            filters.append(unquote(value))
        else:
            return None
    return TokenEntry(match[1], match[2], role, expires_s, tuple(filters))


def _write(path: Path, entries: Mapping[str, TokenEntry]) -> None:
    try:
        replace_file(path, "".join(f"{entry.line()}\n" for entry in entries.values()).encode(), mode=FILE_MODE)
    except OSError as error:
        raise SettingsError(f"the token file {path} cannot be written: {error.strerror}") from error


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
