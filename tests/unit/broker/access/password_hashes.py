"""Password lines in each form, made without the code under test; cheap ones, so that tests are fast.

`DelayedHash` is a hash whose checks wait until a test lets them go.
"""

import asyncio
import base64
import hashlib
import threading

from argon2.low_level import Type, hash_secret

from holdfast.broker.access.hashes import PasswordHash

SALT = b"twelve bytes"


def pbkdf2(password: bytes, iterations: int = 101) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password, SALT, iterations)
    return f"$7${iterations}${base64.b64encode(SALT).decode()}${base64.b64encode(digest).decode()}"


def sha512(password: bytes) -> str:
    digest = hashlib.sha512(password + SALT).digest()
    return f"$6${base64.b64encode(SALT).decode()}${base64.b64encode(digest).decode()}"


def argon2id(password: bytes, memory_kib: int = 64) -> str:
    return hash_secret(password, SALT, 1, memory_kib, 1, 32, Type.ID).decode()


class DelayedHash(PasswordHash):
    """A hash whose checks wait until they are let go, and that counts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started = 0
        #: What was checked, in the order of beginning.
        self.checked: list[bytes] = []
        self.running = 0
        self.peak = 0
        self.began = threading.Semaphore(0)
        self.let_go = threading.Event()

    def verify(self, password: bytes) -> bool:
        with self._lock:
            self.started += 1
            self.checked.append(password)
            self.running += 1
            self.peak = max(self.peak, self.running)
        self.began.release()
        assert self.let_go.wait(20)
        with self._lock:
            self.running -= 1
        return password.startswith(b"right")

    def cost(self) -> str:
        return "gauge"

    def decoy(self) -> "DelayedHash":
        return self


async def loop_turns() -> None:
    """Give everything that is ready its turn."""
    for _turn in range(20):
        await asyncio.sleep(0)
