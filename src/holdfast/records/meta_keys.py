"""Keys of the `meta` family: what a node has to know before it can read or write a message.

    01                                     the data folder             records/folder.py
    02 | zone (UTF-8)                      a zone                      records/generations.py
    03 | zone (UTF-8) | 00 | number u32    a generation of a zone      records/generations.py
    04 | shard u16                         a shard's ceiling           records/positions.py
    05 | shard u16                         a shard's head              records/positions.py
    06 | shard u16                         what a shard has applied    records/positions.py
    07 | client id (UTF-8)                 a client's last number      records/session/numbers.py
    08                                     the outbox's ceiling        records/outbox.py
    09 | number u64                        a message in the outbox     records/outbox.py
    0A | number u64                        a queue that is to go       records/outbox.py

Numbers in keys are big-endian, so that the generations of a zone lie in their order, and zones beside each other.
A zone's name has no byte 0: it cannot run into the number behind it.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.fields import key_u16, key_u32, key_u64

#: Never change.
FOLDER: Final = 0x01
ZONE: Final = 0x02
GENERATION: Final = 0x03
CEILING: Final = 0x04
HEAD: Final = 0x05
APPLIED: Final = 0x06
NUMBER: Final = 0x07
OUTBOX_CEILING: Final = 0x08
OUTBOX: Final = 0x09
QUEUE_DROP: Final = 0x0A

#: The one key that every data folder has.
FOLDER_KEY: Final = b"\x01"
OUTBOX_CEILING_KEY: Final = b"\x08"

_NUMBER_BYTES: Final = 4


def zone_key(zone: str) -> bytes:
    return b"\x02" + _zone_name(zone)


def generation_key(zone: str, number: int) -> bytes:
    return b"\x03" + _zone_name(zone) + b"\x00" + key_u32(number)


def generations_of(zone: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of the keys of a zone's generations."""
    name = b"\x03" + _zone_name(zone)
    return name + b"\x00", name + b"\x01"


def all_of(tag: int) -> tuple[bytes, bytes]:
    """The range [lo, hi) of every key with a tag."""
    return bytes((tag,)), bytes((tag + 1,))


def ceiling_key(shard: int) -> bytes:
    return b"\x04" + key_u16(shard)


def head_key(shard: int) -> bytes:
    return b"\x05" + key_u16(shard)


def applied_key(shard: int) -> bytes:
    return b"\x06" + key_u16(shard)


def number_key(client_id: str) -> bytes:
    return b"\x07" + client_id.encode()


def outbox_key(number: int) -> bytes:
    return b"\x09" + key_u64(number)


def queue_drop_key(number: int) -> bytes:
    return b"\x0a" + key_u64(number)


def number_of_key(key: bytes) -> int:
    """The number of something in the outbox."""
    if len(key) != 9:
        raise PermanentError(f"meta key {key.hex()} names nothing in the outbox")
    return int.from_bytes(key[1:], "big")


def shard_of_key(key: bytes) -> int:
    """The shard that a ceiling, a head or an applied mark belongs to."""
    if len(key) != 3 or not CEILING <= key[0] <= APPLIED:
        raise PermanentError(f"meta key {key.hex()} is no ceiling, head or applied mark of a shard")
    return key[1] << 8 | key[2]


def zone_of_key(key: bytes) -> str:
    """The zone that a zone or generation record belongs to."""
    name = b""
    if key[:1] == b"\x02":
        name = key[1:]
    elif key[:1] == b"\x03" and len(key) > _NUMBER_BYTES + 2 and key[-_NUMBER_BYTES - 1] == 0:
        name = key[1 : -_NUMBER_BYTES - 1]
    if not name or 0 in name:
        raise PermanentError(f"meta key {key.hex()} is no zone or generation")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise PermanentError(f"meta key {key.hex()} names a zone that is not UTF-8") from None


def _zone_name(zone: str) -> bytes:
    if not zone or "\0" in zone:
        raise MisuseError(f"zone name {zone!r} cannot stand in a key: it is empty or contains U+0000")
    return zone.encode()
