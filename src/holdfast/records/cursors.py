"""Cursors: how far a replay has come, as a short string that survives restarts and can be passed around.

    c1-CG1hY2hpbmVzAgGAgPKBg4mFBoECBRicnXc      "c1-", then base64 (URL alphabet, no padding) of

    zone        u8 bytes, then UTF-8
    shards      varint, how many
    each        varint: shard id less the one before (the first: the id)
                varint: position less the one before, zigzag (the first: the position, zigzag)
    check       u32, CRC-32 of everything before, little-endian

    varint      seven bits a byte, low ones first, bit 7 set while more follow
    zigzag      0, -1, 1, -2 … as 0, 1, 2, 3 …

1. A position in a cursor is done: reading continues behind it. A start by time is included. `Cursor.from_us` is the one
   place where the two become the same thing, the lower end of a range [lo, hi).
2. Shards of a zone share one clock, nearly: differences of positions are short.
3. A cursor that was cut, mistyped or made up is refused, not misread.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from holdfast.model.errors import MisuseError, PermanentError

#: The zone of a cursor that is over all zones. No zone can be named so.
EVERY_ZONE: Final = "*"
#: Never change.
_PREFIX: Final = "c1-"
_CHECK_BYTES: Final = 4
_MAX_SHARD: Final = 0xFFFF
_MAX_US: Final = 2**63 - 1
#: A signed number of 64 bits, zigzag, with room for the difference of two: 65 bits.
_MAX_VARINT_BYTES: Final = 10
#: What 65,536 shards need at most; a longer text is no cursor and is not decoded.
_MAX_CHARS: Final = 2_000_000


@dataclass(frozen=True)
class Cursor:
    """The last position done, in each shard that the reader knows."""

    zone: str
    done: dict[int, int] = field(hash=False)

    def from_us(self, shard: int, since_us: int) -> int:
        """Where to continue in a shard, included; in one that is not known yet: at `since_us`."""
        done = self.done.get(shard)
        return since_us if done is None else done + 1


def encode_cursor(cursor: Cursor) -> str:
    zone = cursor.zone.encode()
    if not 0 < len(zone) <= 0xFF:
        raise MisuseError(f"zone name {cursor.zone!r} has {len(zone)} bytes, a cursor has room for 1 to 255")
    body = bytearray((len(zone),))
    body += zone
    _put_varint(body, len(cursor.done))
    last_shard = 0
    last_us = 0
    for shard in sorted(cursor.done):
        position_us = cursor.done[shard]
        if not 0 <= shard <= _MAX_SHARD or not 0 <= position_us <= _MAX_US:
            raise MisuseError(f"shard {shard} at {position_us} cannot stand in a cursor")
        _put_varint(body, shard - last_shard)
        step = position_us - last_us
        _put_varint(body, step * 2 if step >= 0 else -step * 2 - 1)
        last_shard = shard
        last_us = position_us
    body += crc32(body).to_bytes(_CHECK_BYTES, "little")
    return _PREFIX + urlsafe_b64encode(body).decode().rstrip("=")


def decode_cursor(text: str) -> Cursor:
    """PermanentError unless it is what `encode_cursor` wrote."""
    if not text.startswith(_PREFIX) or len(text) > _MAX_CHARS:
        raise PermanentError(f"{text[:40]!r} is no cursor: a cursor begins with {_PREFIX!r}")
    coded = text[len(_PREFIX) :]
    try:
        data = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except (Base64Error, ValueError):
        raise _damaged(text) from None
    # The decoder skips characters that are not of its alphabet, and ignores bits beyond the last byte.
    if len(data) <= _CHECK_BYTES or urlsafe_b64encode(data).decode().rstrip("=") != coded:
        raise _damaged(text)
    body = data[:-_CHECK_BYTES]
    if crc32(body).to_bytes(_CHECK_BYTES, "little") != data[-_CHECK_BYTES:]:
        raise _damaged(text)
    return _read_body(body, text)


def _read_body(body: bytes, text: str) -> Cursor:
    at = 1 + body[0]
    try:
        zone = body[1:at].decode()
    except UnicodeDecodeError:
        raise _damaged(text) from None
    count, at = _varint(body, at, text)
    done: dict[int, int] = {}
    shard = 0
    position_us = 0
    for index in range(count):
        step, at = _varint(body, at, text)
        if index and not step:
            raise _damaged(text)
        shard += step
        coded, at = _varint(body, at, text)
        position_us += coded >> 1 if coded & 1 == 0 else -((coded + 1) >> 1)
        if shard > _MAX_SHARD or not 0 <= position_us <= _MAX_US:
            raise _damaged(text)
        done[shard] = position_us
    if at != len(body) or not zone:
        raise _damaged(text)
    return Cursor(zone, done)


def _put_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varint(body: bytes, at: int, text: str) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(body):
            break
        byte = body[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _damaged(text)


def _damaged(text: str) -> PermanentError:
    return PermanentError(f"cursor {text[:40]!r} is damaged: it was cut, mistyped or not written by Holdfast")
