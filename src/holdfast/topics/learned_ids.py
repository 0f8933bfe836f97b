"""Fingerprints: eight bytes that stand for a pattern or a topic level on disk.

They depend on the text alone, so that every process and every restart gets the same ones.
"""

from hashlib import blake2b
from typing import Final

#: Never change: they are part of keys.
FINGERPRINT_BYTES: Final = 8
FINGERPRINT_BITS: Final = 64


def fingerprint(text: bytes, bits: int = FINGERPRINT_BITS) -> bytes:
    """Eight bytes for `text`. Fewer `bits` make it collide; only tests want that."""
    digest = blake2b(text, digest_size=FINGERPRINT_BYTES).digest()
    if bits >= FINGERPRINT_BITS:
        return digest
    kept = int.from_bytes(digest, "big") & ((1 << bits) - 1)
    return kept.to_bytes(FINGERPRINT_BYTES, "big")
