"""The password file, in Mosquitto's form: one user per line.

    # comments and empty lines are kept when a tool rewrites the file
    alice:$argon2id$v=19$m=65536,t=3,p=4$…
    bob:$7$101$…

Rules:
1. A user stands in one line; names are compared as they are, blanks around them left out. No name holds a colon.
2. No message shows anything behind the colon, nor a line that has none: it may be a password.
3. A check of an unknown user does the work of a check of most known ones, so its duration does not tell who exists.
"""

from collections import Counter
from pathlib import Path
from typing import Final

from holdfast.broker.access.hashes import LANES, MEMORY_KIB, PASSES, PasswordHash, make_hash, parse_hash
from holdfast.broker.access.text_file import WrongLines, editing, read_lines, replace_lines, shown
from holdfast.model.errors import SettingsError
from holdfast.model.protocol import MAX_U16

_WHAT: Final = "the password file"
#: Stands for users of an empty file: as costly as what a tool would write. The zeros are the digest of nothing.
_DEFAULT_COST: Final = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${'A' * 22}${'A' * 43}"


class PasswordFile:
    """What a password file said when it was read."""

    def __init__(self, path: Path, hashes: dict[str, PasswordHash]) -> None:
        self._path: Final = path
        self._hashes: Final = hashes
        self._decoy: Final = _typical(hashes).decoy()

    @classmethod
    def load(cls, path: Path) -> "PasswordFile":
        """Read the file, or raise SettingsError that names each wrong line and what would be right."""
        return cls(path, _parse(path, read_lines(path, _WHAT)))

    def verify(self, user: str, password: bytes) -> bool:
        """Whether this is the user's password. Slow by intent: call it in a thread.

        Raises TransientError if there is no memory to find out.
        """
        known = self._hashes.get(user)
        if known is None:
            self._decoy.verify(password)
            return False
        return known.verify(password)

    def __contains__(self, user: str) -> bool:
        return user in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def __repr__(self) -> str:
        return f"PasswordFile({str(self._path)!r}, {len(self._hashes)} users)"


def check_user_name(user: str) -> None:
    """Raise SettingsError unless `user` can stand in a password file."""
    if not user:
        raise SettingsError("the user name is empty; give it at least one character")
    if user != user.strip() or user.startswith("#") or ":" in user or not user.isprintable():
        raise SettingsError(
            f"user name {shown(user)} cannot stand in a password file: it must not contain a colon or a control "
            "character, begin with #, or have blanks around it"
        )
    if len(user.encode()) > MAX_U16:
        raise SettingsError(f"the user name has {len(user.encode())} bytes; MQTT carries {MAX_U16} at most")


def set_password(path: Path, user: str, password: bytes) -> bool:
    """Give `user` a password, in a new file if there is none; True if the user is new.

    Survives: a crash leaves the old file or the new one.
    """
    check_user_name(user)
    if not password:
        raise SettingsError(f"the password of user {shown(user)} is empty; give it at least one character")
    if len(password) > MAX_U16:
        raise SettingsError(f"the password has {len(password)} bytes; MQTT carries {MAX_U16} at most")
    entry = f"{user}:{make_hash(password)}"
    with editing(path, _WHAT):
        lines = read_lines(path, _WHAT, missing_ok=True)
        _parse(path, lines)
        place = _line_of(lines, user)
        if place is not None:
            lines[place] = entry
        elif lines[-1].strip():
            lines += [entry, ""]
        else:
            lines[-1:] = [entry, ""]
        replace_lines(path, lines, _WHAT)
    return place is None


def remove_user(path: Path, user: str) -> bool:
    """Take `user` out of the file; False if there was no such user.

    Survives: a crash leaves the old file or the new one.
    """
    with editing(path, _WHAT):
        lines = read_lines(path, _WHAT)
        _parse(path, lines)
        place = _line_of(lines, user)
        if place is not None:
            del lines[place]
            replace_lines(path, lines, _WHAT)
    return place is not None


def list_users(path: Path) -> list[str]:
    """The users, in the order of the file."""
    return list(_parse(path, read_lines(path, _WHAT)))


def _parse(path: Path, lines: list[str]) -> dict[str, PasswordHash]:
    hashes: dict[str, PasswordHash] = {}
    numbers: dict[str, int] = {}
    wrong = WrongLines()
    for number, line in enumerate(lines, 1):
        if not _says_nothing(line):
            with wrong.gathered():
                user, stored = _parse_line(path, number, line, numbers)
                hashes[user] = stored
    wrong.refuse()
    return hashes


def _parse_line(path: Path, number: int, line: str, numbers: dict[str, int]) -> tuple[str, PasswordHash]:
    """A user and the hash; `numbers` are the lines of those before."""
    where = f"{path}:{number}"
    name, colon, text = line.partition(":")
    user = name.strip()
    if not colon:
        raise SettingsError(f"{where}: the line has no colon; a user's line is <user>:<hash>, a comment begins with #")
    if not user:
        raise SettingsError(f"{where}: no user before the colon; a user's line is <user>:<hash>")
    if user in numbers:
        raise SettingsError(
            f"{where}: user {shown(user)} already stands in line {numbers[user]}; keep one of the two lines"
        )
    numbers[user] = number
    try:
        return user, parse_hash(text.strip())
    except ValueError as error:
        raise SettingsError(
            f"{where}: user {shown(user)}: {error}; delete the line, then: holdfast user add <user> --file {path}"
        ) from None


def _says_nothing(line: str) -> bool:
    return line.startswith("#") or not line.strip()


def _line_of(lines: list[str], user: str) -> int | None:
    for i, line in enumerate(lines):
        if not _says_nothing(line) and line.partition(":")[0].strip() == user:
            return i
    return None


def _typical(hashes: dict[str, PasswordHash]) -> PasswordHash:
    """A hash that costs what most hashes of the file cost."""
    if not hashes:
        return parse_hash(_DEFAULT_COST)
    cost, _count = Counter(known.cost() for known in hashes.values()).most_common(1)[0]
    return next(known for known in hashes.values() if known.cost() == cost)
