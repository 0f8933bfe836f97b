"""Password lines in each form, made without the code under test; cheap ones, so that tests are fast."""

import base64
import hashlib

from argon2.low_level import Type, hash_secret

SALT = b"twelve bytes"


def pbkdf2(password: bytes, iterations: int = 101) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password, SALT, iterations)
    return f"$7${iterations}${base64.b64encode(SALT).decode()}${base64.b64encode(digest).decode()}"


def sha512(password: bytes) -> str:
    digest = hashlib.sha512(password + SALT).digest()
    return f"$6${base64.b64encode(SALT).decode()}${base64.b64encode(digest).decode()}"


def argon2id(password: bytes, memory_kib: int = 64) -> str:
    return hash_secret(password, SALT, 1, memory_kib, 1, 32, Type.ID).decode()
