"""What is remembered of logins: which passwords were right or wrong lately, and who has failed too often.

Both are in memory alone and bounded. Passwords are remembered as a hash with a key that this process has made, so that
a check which was made minutes ago need not be made again; a reload of the password file makes all of it void.

    failures of one user name from one address      pause behind each further one
    up to `login_failures`                          none
    beyond                                          1, 2, 4 … seconds, `login_backoff_s` at most
    of all user names of one address: beyond ten times as many, one second

Rules:
1. A login that was right lately is neither checked again nor held back: attacks on its address do not concern it.
2. A login that was wrong lately is refused without a check, and is no further failure: a device that repeats its
   outdated password harms no client, itself included.
3. Unknown users and wrong passwords are treated alike.
"""

import hashlib
import ipaddress
import secrets
from typing import Final, TypeVar

from holdfast.broker.policy import Policy
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

V = TypeVar("V")

#: Logins that are remembered, right and wrong ones each; and addresses and names that failed. About 100 bytes each.
MAX_REMEMBERED: Final = 10_000
#: All user names of an address together may fail this many times as often as one.
ADDRESS_FACTOR: Final = 10
#: Failures that are older than this do not count.
_FORGIVEN_US: Final = 600 * SECOND_US
#: Of an IPv6 address: a host that has one has all that begin with it.
_IPV6_PREFIX_BITS: Final = 64


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the network of 64 bits that an IPv6 address is in."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], _IPV6_PREFIX_BITS), strict=False))
    except ValueError:
        return address


class _Failures:
    """Failed logins of one address, or of one user name from it."""

    __slots__ = ("count", "latest_us", "until_us")

    def __init__(self) -> None:
        self.count = 0
        self.latest_us = 0
        self.until_us = 0


class Logins:
    """The memory of the authenticator."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy: Final = policy
        self._clock: Final = clock
        self._key: Final = secrets.token_bytes(32)
        #: Digest of user name and password → until when it is remembered. Wrong ones never push out right ones.
        self._right: Final[dict[bytes, int]] = {}
        self._wrong: Final[dict[bytes, int]] = {}
        self._failures: Final[dict[bytes, _Failures]] = {}

    def remembered(self, user: str, password: bytes) -> bool | None:
        """Whether this login was right when it was checked lately; None if it was not checked."""
        digest = self._digest(user.encode(), password)
        now_us = self._clock.monotonic_us()
        for right, known in ((True, self._right), (False, self._wrong)):
            if digest in known:
                if now_us < known[digest]:
                    return right
                del known[digest]
        return None

    def forget(self) -> None:
        """The password file has changed: check every password again."""
        self._right.clear()
        self._wrong.clear()

    def pause_s(self, network: str, user: str, *, waited: bool) -> int:
        """Seconds, rounded up, that logins of this user name from this address are held back; 0 for none.

        One that has `waited` is held back for failures of its name alone: its address has paid for it by waiting.
        """
        now_us = self._clock.monotonic_us()
        until_us = 0
        if self._policy.limits.login_failures:
            address, name = self._keys(network, user)
            for key in (name,) if waited else (address, name):
                failures = self._failures.get(key)
                if failures is not None:
                    until_us = max(until_us, failures.until_us)
        return max(0, until_us - now_us + SECOND_US - 1) // SECOND_US

    def checked(self, network: str, user: str, password: bytes, *, right: bool) -> None:
        """A password was checked."""
        now_us = self._clock.monotonic_us()
        kept_us = self._policy.limits.login_cache_s * SECOND_US
        if kept_us:
            known = self._right if right else self._wrong
            digest = self._digest(user.encode(), password)
            known.pop(digest, None)
            _bound(known)
            known[digest] = now_us + kept_us
        address, name = self._keys(network, user)
        if right:
            self._failures.pop(name, None)
            return
        allowed = self._policy.limits.login_failures
        count = self._failed(name, now_us)
        if count > allowed:
            pause_s = min(1 << min(count - allowed - 1, 20), self._policy.limits.login_backoff_s)
            self._failures[name].until_us = now_us + pause_s * SECOND_US
        if self._failed(address, now_us) > allowed * ADDRESS_FACTOR:
            self._failures[address].until_us = now_us + SECOND_US

    def _failed(self, key: bytes, now_us: int) -> int:
        """Count a failure; how many there are."""
        failures = self._failures.pop(key, None)
        if failures is None or now_us - failures.latest_us > _FORGIVEN_US:
            failures = _Failures()
        _bound(self._failures)
        self._failures[key] = failures  # at the end: the first one is the one that failed longest ago
        failures.count += 1
        failures.latest_us = now_us
        return failures.count

    def _keys(self, network: str, user: str) -> tuple[bytes, bytes]:
        """What failures are counted under: the address, and the user name from it."""
        return network.encode(), self._digest(network.encode(), user.encode())

    def _digest(self, first: bytes, second: bytes) -> bytes:
        made = hashlib.blake2b(len(first).to_bytes(4, "big"), digest_size=16, key=self._key)
        made.update(first)
        made.update(second)
        return made.digest()


def _bound(table: dict[bytes, V]) -> None:
    """Make room for one more: the oldest goes."""
    if len(table) >= MAX_REMEMBERED:
        del table[next(iter(table))]
