"""Password hashes in the forms that a password file may hold.

    $argon2id$v=19$m=65536,t=3,p=4$<salt>$<digest>      argon2id, as a PHC string; base64 without padding
    $7$<iterations>$<salt>$<digest>                     Mosquitto 2: PBKDF2 with SHA-512; base64
    $6$<salt>$<digest>                                  Mosquitto 1: SHA-512 of password and salt; base64

New hashes are argon2id. The other two are read, so that a Mosquitto file works as it is.
A hash never shows its contents; an error about one says what its form should be, never what it is.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final, Protocol

from argon2.exceptions import HashingError, VerificationError, VerifyMismatchError
from argon2.low_level import ARGON2_VERSION, Type, hash_secret, verify_secret

from holdfast.model.errors import TransientError

FORMS: Final = "$argon2id$v=19$m=…,t=…,p=…$salt$digest, $7$iterations$salt$digest or $6$salt$digest"

# The second recommended choice of RFC 9106: 64 MiB for each password that is being checked.
MEMORY_KIB: Final = 64 * 1024
PASSES: Final = 3
LANES: Final = 4
_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32

# What a file may ask for. More is a slip of the hand, and would stop the broker from taking clients.
MAX_MEMORY_KIB: Final = 1024 * 1024
MAX_PASSES: Final = 100
MAX_LANES: Final = 64
MAX_ITERATIONS: Final = 10_000_000
#: Least memory that argon2 works with, for each lane.
_MIN_LANE_KIB: Final = 8
_MIN_SALT_BYTES: Final = 8
_MIN_DIGEST_BYTES: Final = 16
_SHA512_BYTES: Final = 64

_PHC: Final = re.compile(r"\$argon2id\$v=(\d{1,9})\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$([^$]+)\$([^$]+)", re.ASCII)
_PBKDF2: Final = re.compile(r"\$7\$(\d{1,9})\$([^$]+)\$([^$]+)", re.ASCII)
_SHA512: Final = re.compile(r"\$6\$([^$]+)\$([^$]+)", re.ASCII)


class PasswordHash(Protocol):
    """One stored hash."""

    def verify(self, password: bytes) -> bool:
        """Whether `password` is the one; takes the same time for every wrong one."""

    def cost(self) -> str:
        """What a check costs: equal texts, equal costs."""

    def decoy(self) -> "PasswordHash":
        """A hash of the same cost that no password is known for."""


class Argon2Hash(PasswordHash):
    """argon2id. Raises TransientError if the memory for a check cannot be had."""

    def __init__(self, phc: str) -> None:
        self._phc: Final = phc.encode()

    def verify(self, password: bytes) -> bool:
        try:
            return verify_secret(self._phc, password, Type.ID)
        except VerifyMismatchError:
            return False
        except VerificationError as error:
            raise TransientError(f"a password could not be checked: {error}") from None

    def cost(self) -> str:
        return self._phc.decode().rpartition("$")[0].rpartition("$")[0]

    def decoy(self) -> "Argon2Hash":
        return Argon2Hash(
            f"{self.cost()}${_unpadded(secrets.token_bytes(_SALT_BYTES))}${_unpadded(secrets.token_bytes(_DIGEST_BYTES))}"
        )


@dataclass(frozen=True, repr=False)
class Pbkdf2Hash(PasswordHash):
    """Mosquitto 2."""

    iterations: int
    salt: bytes
    digest: bytes

    def verify(self, password: bytes) -> bool:
        made = hashlib.pbkdf2_hmac("sha512", password, self.salt, self.iterations)
        return hmac.compare_digest(made, self.digest)

    def cost(self) -> str:
        return f"$7${self.iterations}"

    def decoy(self) -> "Pbkdf2Hash":
        return Pbkdf2Hash(self.iterations, secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_SHA512_BYTES))


@dataclass(frozen=True, repr=False)
class Sha512Hash(PasswordHash):
    """Mosquitto 1: one round, so passwords of a stolen file are guessed fast."""

    salt: bytes
    digest: bytes

    def verify(self, password: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha512(password + self.salt).digest(), self.digest)

    def cost(self) -> str:
        return "$6"

    def decoy(self) -> "Sha512Hash":
        return Sha512Hash(secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_SHA512_BYTES))


def make_hash(password: bytes) -> str:
    """A new hash of `password`, to be stored."""
    salt = secrets.token_bytes(_SALT_BYTES)
    try:
        return hash_secret(password, salt, PASSES, MEMORY_KIB, LANES, _DIGEST_BYTES, Type.ID).decode()
    except HashingError as error:
        raise TransientError(f"the password could not be hashed: {error}") from None


def parse_hash(text: str) -> PasswordHash:
    """Take a stored hash apart. Raises ValueError that says what is wrong and shows none of it."""
    if found := _PHC.fullmatch(text):
        return _argon2(text, found)
    if found := _PBKDF2.fullmatch(text):
        iterations = int(found[1])
        if not 1 <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"{iterations} iterations; 1 to {MAX_ITERATIONS} are accepted")
        return Pbkdf2Hash(iterations, _decoded(found[2], "salt"), _sha512_digest(found[3]))
    if found := _SHA512.fullmatch(text):
        return Sha512Hash(_decoded(found[1], "salt"), _sha512_digest(found[2]))
    raise ValueError(f"the hash has none of the forms {FORMS}")


def _argon2(text: str, found: re.Match[str]) -> Argon2Hash:
    version, memory_kib, passes, lanes = (int(found[i]) for i in range(1, 5))
    if version != ARGON2_VERSION:
        raise ValueError(f"argon2 version v={version}; v={ARGON2_VERSION} is accepted")
    if not 1 <= lanes <= MAX_LANES:
        raise ValueError(f"argon2 with p={lanes}; p=1 to p={MAX_LANES} are accepted")
    if not lanes * _MIN_LANE_KIB <= memory_kib <= MAX_MEMORY_KIB:
        least = lanes * _MIN_LANE_KIB
        raise ValueError(f"argon2 with m={memory_kib}; m={least} to m={MAX_MEMORY_KIB} are accepted for p={lanes}")
    if not 1 <= passes <= MAX_PASSES:
        raise ValueError(f"argon2 with t={passes}; t=1 to t={MAX_PASSES} are accepted")
    for part, what, least_bytes in ((found[5], "salt", _MIN_SALT_BYTES), (found[6], "digest", _MIN_DIGEST_BYTES)):
        if "=" in part:
            raise ValueError(f"the {what} ends with '='; argon2 hashes have no padding")
        decoded = _decoded(part + "=" * (-len(part) % 4), what)
        if len(decoded) < least_bytes:
            raise ValueError(f"the {what} has {len(decoded)} bytes; at least {least_bytes} are needed")
    return Argon2Hash(text)


def _sha512_digest(text: str) -> bytes:
    digest = _decoded(text, "digest")
    if len(digest) != _SHA512_BYTES:
        raise ValueError(f"the digest has {len(digest)} bytes; SHA-512 has {_SHA512_BYTES}")
    return digest


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the {what} is not base64") from None


def _unpadded(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")
