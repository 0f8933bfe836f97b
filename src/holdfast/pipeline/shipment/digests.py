"""Digests of sets of messages: their number, and a sum that does not depend on their order."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

_MASK = 2**64 - 1


class Digest(NamedTuple):
    """Of stored messages, bytes by bytes: positions, serials and everything else."""

    messages: int = 0
    total: int = 0

    def plus(self, other: "Digest") -> "Digest":
        return Digest(self.messages + other.messages, (self.total + other.total) & _MASK)

    def __str__(self) -> str:
        return f"{self.messages}:{self.total:016x}"


def digest_of(values: Iterable[bytes]) -> Digest:
    messages = 0
    total = 0
    for value in values:
        messages += 1
        total += int.from_bytes(blake2b(value, digest_size=8).digest(), "little")
    return Digest(messages, total & _MASK)


def parse_digest(text: str) -> Digest:
    messages, total = text.split(":")
    return Digest(int(messages), int(total, 16))


def sum_digests(digests: Iterable[Digest]) -> Digest:
    found = Digest()
    for digest in digests:
        found = found.plus(digest)
    return found
