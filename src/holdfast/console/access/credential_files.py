"""The user file and the token file of the console, read again when they change.

    user file    NAME:ROLE:$argon2id$…       a line for each; `#` begins a comment

1. A file that is wrong when the console starts is a SettingsError. One that becomes wrong later changes nothing: the
   old content stays, the line is named in the log and by the alarm `credentials_wrong`.
2. A password is checked with as much work for an unknown name as for a known one.
3. No message shows anything behind the second colon of a line.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.files.stamp import file_stamp
from holdfast.model.errors import SettingsError
from holdfast.model.roles import ROLES

_log = structlog.get_logger()

#: argon2id with the costs of RFC 9106 for machines with little memory: 64 MiB for each check.
_hasher: Final = PasswordHasher()
_LINE: Final = re.compile(r"([^:\s#][^:]{0,99}):([a-z]+):(\$argon2id\$\S+)")
#: Stands for users that are unknown: the digest of nothing, with the costs of a new one.
_DECOY: Final = f"$argon2id$v=19$m=65536,t=3,p=4${'A' * 22}${'A' * 43}"

Content = TypeVar("Content")


@dataclass(frozen=True, repr=False)
class ConsoleUser:
    name: str
    role: str
    hash: str

    @property
    def proof(self) -> str:
        """Changes with the password and the role. Who has logged in before is out then."""
        return hashlib.sha256(f"{self.role}:{self.hash}".encode()).hexdigest()[:32]


class WatchedFile(Generic[Content]):
    """The content of a file, as it was when it was right the last time."""

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        """SettingsError if the file is wrong now."""
        self._path: Final = path
        self._read: Final = read
        self._stamp = file_stamp(path)
        self._content = read(path)
        #: What is wrong with the file as it is now; empty if nothing is.
        self.problem = ""

    def current(self) -> Content:
        """The content, read again if the file has changed."""
        stamp = file_stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._content = self._read(self._path)
            except SettingsError as error:
                self.problem = str(error)
                _log.error("not reloaded, the old one stays", what=str(self._path), why=str(error))
            else:
                self.problem = ""
                _log.info("reloaded", what=str(self._path))
        return self._content


def read_users(path: Path) -> dict[str, ConsoleUser]:
    """Users by name; SettingsError names the wrong line."""
    found: dict[str, ConsoleUser] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or match[2] not in ROLES:
            raise SettingsError(
                f"{path}:{number} is no console user; a line is made by: "
                f"holdfast console user add NAME --role {ROLES[0]} --file {path}"
            )
        found[match[1]] = ConsoleUser(match[1], match[2], match[3])
    return found


def verify_password(users: Mapping[str, ConsoleUser], name: str, password: str) -> ConsoleUser | None:
    """The user, if this is the password. Slow by intent: call it in a thread."""
    user = users.get(name)
    try:
        _hasher.verify(_DECOY if user is None else user.hash, password.encode())
    except (VerificationError, InvalidHashError):
        return None
    return user


def set_user(path: Path, name: str, role: str, password: str) -> bool:
    """Add a user, or give one a new role and password; whether the user is new. SettingsError if that cannot be."""
    if not re.fullmatch(r"[^:\s#][^:]{0,99}", name) or not name.isprintable() or name != name.strip():
        raise SettingsError(f"{name!r} is no user name; use up to 100 characters without colons and blanks around")
    if role not in ROLES:
        raise SettingsError(f"{role!r} is no role; the roles are {', '.join(ROLES)}")
    if len(password) < 8:
        raise SettingsError("the password is too short; it needs at least 8 characters")
    users = read_users(path) if path.exists() else {}
    is_new = name not in users
    _write_users(path, {**users, name: ConsoleUser(name, role, _hasher.hash(password))})
    return is_new


def remove_user(path: Path, name: str) -> bool:
    """Whether there was such a user."""
    users = read_users(path)
    if users.pop(name, None) is None:
        return False
    _write_users(path, users)
    return True


def _write_users(path: Path, users: Mapping[str, ConsoleUser]) -> None:
    kept = [line for line in (_lines(path) if path.exists() else []) if line.startswith("#")]
    lines = kept + [f"{user.name}:{user.role}:{user.hash}" for user in users.values()]
    try:
        replace_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=FILE_MODE)
    except OSError as error:
        raise SettingsError(f"the user file {path} cannot be written: {error.strerror}") from error


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the user file {path} cannot be read: {error}") from error
