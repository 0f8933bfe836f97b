"""The verdict on a CONNECT: who is this client, and may it come in?

    where from                      what it brings        verdict
    verified client certificate     anything              allowed, as the certificate's subject
    elsewhere                       no user name          anonymous if the listener allows that, else refused
    elsewhere, password file        name and password     allowed as that user if the password is right, else refused
    elsewhere, no password file     a user name           as without one: a name that was not checked is not believed

Rules:
1. A user name in a verdict is verified; access rules may rely on it.
2. A refusal does not tell an unknown user from a wrong password, neither by its text nor by its duration.
3. At most `max_hashings` passwords are checked at a time: each takes 64 MiB, and a client that goes away meanwhile
   gives its place free only when the check is done. A bounded number waits, addresses and user names in turn.
4. A login that was checked lately is not checked again, and one that fails too often is held back (`logins.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.broker.access.check_queue import CheckQueue
from holdfast.broker.access.logins import Logins, network_of
from holdfast.broker.access.passwords import PasswordFile
from holdfast.broker.access.rules import Rules
from holdfast.broker.access.text_file import WrongLines, shown
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Policy
from holdfast.exchange.access import ClientAccess
from holdfast.model.clock import Clock, ManualClock
from holdfast.model.errors import TransientError
from holdfast.model.reasons import BAD_USER_NAME_OR_PASSWORD, CONNECTION_RATE_EXCEEDED, NOT_AUTHORIZED, SERVER_BUSY

#: 128 MiB at the most with the hashes that Holdfast writes; each of them keeps up to four cores busy.
MAX_HASHINGS: Final = 2
#: Ten seconds of work for two cores: a client that comes later would wait longer than clients do.
MAX_WAITING: Final = 128
#: Of these from one address: a right password among wrong ones from the same address waits for no more than that.
MAX_OF_ADDRESS: Final = 32


@dataclass(frozen=True, slots=True)
class Allowed:
    """The client may come in, as `user`; None is a client without a user name."""

    user: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The client may not come in. `detail` holds no secret and is fit to be sent and logged."""

    reason: int
    detail: str


Verdict = Allowed | Refused

_AS_NOBODY: Final = Allowed(None)


@dataclass(frozen=True, slots=True, repr=False)
class PasswordCheck:
    """A check that is still to be made, against the password file as it was then. Shows nothing of the password."""

    passwords: PasswordFile
    user: str
    password: bytes


class Authenticator:
    """Password file and access file as of their last successful reading; either may be missing."""

    def __init__(
        self,
        password_file: Path | None = None,
        access_file: Path | None = None,
        *,
        policy: Policy | None = None,
        clock: Clock | None = None,
        max_hashings: int = MAX_HASHINGS,
        max_waiting: int = MAX_WAITING,
        max_of_address: int = MAX_OF_ADDRESS,
    ) -> None:
        """Read the files, or raise SettingsError. Without a clock, time stands still for what is remembered."""
        self._checks: Final = CheckQueue(max_hashings, max_waiting, max_of_address)
        self._logins: Final = Logins(policy or Policy(), clock or ManualClock())
        self._password_path: Final = password_file
        self._access_path: Final = access_file
        self._passwords: PasswordFile | None = None
        self._rules: Rules | None = None
        self.reload()

    def reload(self) -> None:
        """Read both files again. Raises SettingsError, and then both stay as they were.

        Verdicts and rights given out before stay as they are: ask `may_stay` and `access_for` again.
        """
        passwords, rules = None, None
        wrong = WrongLines()
        with wrong.gathered():
            passwords = None if self._password_path is None else PasswordFile.load(self._password_path)
        with wrong.gathered():
            rules = None if self._access_path is None else Rules.load(self._access_path)
        wrong.refuse()
        self._passwords, self._rules = passwords, rules
        self._logins.forget()

    def access_for(self, client_id: str, user: str | None) -> ClientAccess | None:
        """The rights of a client that was allowed in as `user`; None if all is allowed: there is no access file."""
        return None if self._rules is None else self._rules.for_client(client_id, user)

    async def authenticate(
        self,
        origin: Origin,
        client_id: str,
        user_name: str | None,
        password: bytes | None,
        gone: Callable[[], bool] = lambda: False,
    ) -> Verdict:
        """The verdict on a client; waits only if a password must be checked, and not for one that is `gone` by then."""
        check = self.decide_quickly(origin, user_name, password)
        if not isinstance(check, PasswordCheck):
            return check
        network = network_of(origin.address)
        verdict = self._without_check(check, client_id, network, waited=False)
        if verdict is not None:
            return verdict
        if not await self._checks.enter(network, check.user):
            return Refused(SERVER_BUSY, "too many passwords wait to be checked; try again")
        # Again: others that were served before may have settled it.
        verdict = self._without_check(check, client_id, network, waited=True)
        if verdict is None and gone():
            verdict = Refused(SERVER_BUSY, "the client went away before its password was checked")
        if verdict is not None:
            self._checks.leave()
            return verdict
        try:
            right = await self._run(check)
        except TransientError as error:
            return Refused(SERVER_BUSY, str(error))
        if check.passwords is self._passwords:  # else another password file is in force by now
            self._logins.checked(network, check.user, check.password, right=right)
        return _judge(check, client_id, right=right)

    def _without_check(self, check: PasswordCheck, client_id: str, network: str, *, waited: bool) -> Verdict | None:
        """The verdict, if the password need not or may not be checked now."""
        right = self._logins.remembered(check.user, check.password)
        if right is not None:
            return _judge(check, client_id, right=right)
        pause_s = self._logins.pause_s(network, check.user, waited=waited)
        if pause_s:
            detail = f"user {shown(check.user)}: too many failed logins from this address; try again in {pause_s} s"
            return Refused(CONNECTION_RATE_EXCEEDED, detail)
        return None

    def decide_quickly(
        self, origin: Origin, user_name: str | None, password: bytes | None
    ) -> "Verdict | PasswordCheck":
        """The verdict, or the check that it needs, which is slow."""
        if origin.tls_subject is not None:
            if not origin.tls_subject:
                return Refused(NOT_AUTHORIZED, "the client certificate has an empty common name; it must name the user")
            return Allowed(origin.tls_subject)
        if user_name is not None and self._passwords is not None:
            if password is None:
                return Refused(BAD_USER_NAME_OR_PASSWORD, f"user {shown(user_name)} came without a password")
            return PasswordCheck(self._passwords, user_name, password)
        if origin.allow_anonymous:
            return _AS_NOBODY
        if user_name is None:
            return Refused(NOT_AUTHORIZED, f"listener {shown(origin.listener)} takes no client without a user name")
        return Refused(NOT_AUTHORIZED, "this broker has no password file to check the user name with")

    def may_stay(self, origin: Origin, user: str | None) -> bool:
        """Whether a client that was allowed in as `user` belongs to those who may, after a reload."""
        if origin.tls_subject is not None:
            return True
        if user is None:
            return origin.allow_anonymous
        return self._passwords is not None and user in self._passwords

    async def _run(self, check: PasswordCheck) -> bool:
        # Shielded: a cancelled check runs on in its thread, and its place must not be given away before it ends.
        running = asyncio.get_running_loop().run_in_executor(None, check.passwords.verify, check.user, check.password)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[bool]) -> None:
        self._checks.leave()
        if not running.cancelled():
            running.exception()  # Looked at here: the client may have gone meanwhile.


def _judge(check: PasswordCheck, client_id: str, *, right: bool) -> Verdict:
    if right:
        return Allowed(check.user)
    return Refused(
        BAD_USER_NAME_OR_PASSWORD,
        f"client {shown(client_id)}: user {shown(check.user)} is unknown or its password is wrong",
    )
