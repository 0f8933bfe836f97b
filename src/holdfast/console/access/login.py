"""Logins: secrets in, a signed cookie out, and the cookie or a token checked with each request.

    POST login ─▶ Login.by_password / by_link ─▶ cookie ─▶ Login.of_cookie      each request of a browser
    Authorization: Bearer … ───────────────────────────▶ Login.of_token         each request of a program

1. The cookie is signed with a key that ends with the process: a restart of the console logs everybody out.
2. A cookie is good for 12 hours, until its owner logs out, or until the user's line in the user file changes.
3. Each login makes a new cookie; one that a browser brings along is never taken over.
4. Each name and each address have five tries a minute, right or wrong. What comes beyond is not checked at all.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from holdfast.console.access.credential_files import ConsoleUser, WatchedFile, read_users, verify_password
from holdfast.console.access.identity import LINK, TOKEN, USER, Identity
from holdfast.console.access.one_time_links import use_link
from holdfast.console.problems import ProblemError
from holdfast.files.token_file import TokenEntry, find_token, read_token_file
from holdfast.model.clock import Clock
from holdfast.model.roles import ADMIN
from holdfast.model.time import HOUR_US, MINUTE_US, SECOND_US

COOKIE_LIFETIME_US: Final = 12 * HOUR_US
TRIES: Final = 5
TRIES_US: Final = MINUTE_US
#: Names and addresses that are counted at one time; an attacker cannot fill the memory.
_MAX_COUNTED: Final = 10_000
#: Characters of a name or an address that are kept: no user has a longer name.
_MAX_KEY: Final = 100
#: Passwords that are checked at one time: each takes 64 MiB.
_MAX_CHECKS: Final = 2
_KEY_BYTES: Final = 32


class _Cookie(msgspec.Struct, frozen=True):
    """What a cookie says of its owner."""

    id: str
    name: str
    role: str
    kind: str
    expires_us: int
    #: `ConsoleUser.proof` at the login; empty for a link.
    proof: str = ""


class LoginLimits:
    """Counts tries."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._tries: Final[dict[tuple[str, str], deque[int]]] = {}

    def take(self, name: str, address: str) -> None:
        """One try. ProblemError (429) if there were too many."""
        now_us = self._clock.monotonic_us()
        keys = _keys(name, address)
        for key in keys:
            tries = self._tries.get(key)
            while tries and now_us - tries[0] >= TRIES_US:
                tries.popleft()
            if tries and len(tries) >= TRIES:
                wait_s = -(-(TRIES_US - (now_us - tries[0])) // SECOND_US)
                detail = f"more than {TRIES} logins a minute; try again in {wait_s} s"
                raise ProblemError(429, detail, headers={"Retry-After": str(wait_s)})
        # Only now: what is refused leaves nothing behind.
        for key in keys:
            self._tries.setdefault(key, deque()).append(now_us)
        if len(self._tries) > _MAX_COUNTED:
            self._forget(now_us)

    def give_back(self, name: str, address: str) -> None:
        """The last try was made with a secret that cannot be guessed: it does not count."""
        for key in _keys(name, address):
            if tries := self._tries.get(key):
                tries.pop()

    def _forget(self, now_us: int) -> None:
        for key in [key for key, tries in self._tries.items() if not tries or now_us - tries[-1] >= TRIES_US]:
            del self._tries[key]
        while len(self._tries) > _MAX_COUNTED:
            del self._tries[next(iter(self._tries))]


def _keys(name: str, address: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """What a try is counted by."""
    return (("name", name[:_MAX_KEY]), ("address", address[:_MAX_KEY]))


class Login:
    """Everybody who may use the console."""

    def __init__(self, state_folder: Path, user_file: Path | None, token_file: Path | None, clock: Clock) -> None:
        """SettingsError if a file is wrong."""
        self._state_folder: Final = state_folder
        self._users: Final = None if user_file is None else WatchedFile(user_file, read_users)
        self._tokens: Final = None if token_file is None else WatchedFile(token_file, read_token_file)
        self._clock: Final = clock
        self._key: Final = secrets.token_bytes(_KEY_BYTES)
        self._limits: Final = LoginLimits(clock)
        self._checks: Final = asyncio.Semaphore(_MAX_CHECKS)
        #: Ids of cookies whose owners logged out, with the time until which they would be good.
        self._ended: Final[dict[str, int]] = {}

    @property
    def has_credentials(self) -> bool:
        """Whether there is another way in than a one-time link."""
        return self._users is not None or self._tokens is not None

    def problems(self) -> list[str]:
        """What is wrong with the files as they are now, whether anybody logs in by them or not."""
        if self._users is not None:
            self._users.current()
        if self._tokens is not None:
            self._tokens.current()
        files = (self._users, self._tokens)
        return [file.problem for file in files if file is not None and file.problem]

    async def by_password(self, name: str, password: str, address: str) -> tuple[Identity, str]:
        """The identity and its cookie. ProblemError: 429 for too many tries, 401 for a wrong name or password."""
        self._limits.take(name, address)
        users: dict[str, ConsoleUser] = {} if self._users is None else self._users.current()
        async with self._checks:
            user = await asyncio.to_thread(verify_password, users, name, password)
        if user is None:
            raise ProblemError(401, "the name or the password is wrong")
        return self._let_in(user.name, user.role, USER, user.proof)

    def by_link(self, token: str, address: str) -> tuple[Identity, str]:
        """The identity and its cookie. ProblemError: 429 for too many tries, 401 for a link that is not good."""
        self._limits.take("", address)
        if not use_link(self._state_folder, token, self._clock.wall_us() / SECOND_US):
            detail = "this link was used already, or has ended; make another one with: holdfast console open"
            raise ProblemError(401, detail)
        # Commands log in by links of their own, as often as they are called.
        self._limits.give_back("", address)
        return self._let_in("local", ADMIN, LINK, "")

    def of_cookie(self, cookie: str) -> Identity | None:
        """The owner of a cookie; None if it is not one of ours, or has ended."""
        found = self._open(cookie)
        if found is None or found.expires_us <= self._clock.wall_us() or found.id in self._ended:
            return None
        if found.kind == USER:
            user = None if self._users is None else self._users.current().get(found.name)
            if user is None or not hmac.compare_digest(user.proof, found.proof):
                return None
        return Identity(found.name, found.role, found.kind, found.expires_us)

    def of_token(self, token: str) -> Identity | None:
        """The owner of a token; None if it is unknown or has ended."""
        entries: dict[str, TokenEntry] = {} if self._tokens is None else self._tokens.current()
        entry = find_token(entries, token)
        if entry is None or entry.has_expired(self._clock.wall_us() / SECOND_US):
            return None
        expires_us = None if entry.expires_s is None else entry.expires_s * SECOND_US
        return Identity(entry.name, entry.role, TOKEN, expires_us, entry.filters)

    def log_out(self, cookie: str) -> None:
        """The cookie is not good any more."""
        found = self._open(cookie)
        now_us = self._clock.wall_us()
        for id_ in [id_ for id_, until_us in self._ended.items() if until_us <= now_us]:
            del self._ended[id_]
        if found is not None:
            self._ended[found.id] = found.expires_us

    def _let_in(self, name: str, role: str, kind: str, proof: str) -> tuple[Identity, str]:
        expires_us = self._clock.wall_us() + COOKIE_LIFETIME_US
        made = _Cookie(secrets.token_hex(16), name, role, kind, expires_us, proof)
        data = msgspec.json.encode(made)
        return Identity(name, role, kind, expires_us), f"{_text(data)}.{_text(self._sign(data))}"

    def _open(self, cookie: str) -> _Cookie | None:
        content, _dot, signature = cookie.partition(".")
        try:
            data = _bytes(content)
            if not hmac.compare_digest(self._sign(data), _bytes(signature)):
                return None
            return msgspec.json.decode(data, type=_Cookie)
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            return None

    def _sign(self, data: bytes) -> bytes:
        return hmac.new(self._key, data, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
