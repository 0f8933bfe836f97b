"""The keys of sessions on disk: one for each thing that changes by itself. Their values: `sessions.py`.

    01 | client | 00                     the session           expiry, since when offline, will
    01 | client | 01 | filter            a subscription
    01 | client | 05                     progress              how far each shard was sent, and what is unacknowledged
    01 | client | 07 | filter            how far the replay of a subscription is
    01 | client | 08 | filter            how far its retained messages were sent (`retained_progress.py`)
    01 | client | 09 | number u32        a slot: one QoS 2 packet id in use, or one message that is done
    01 | client | 0a, 0b                 of a group of a shared subscription (see `groups.py`)
    01 | client | 0c | vnode u16         what it has done for groups of a cluster (see `assignments.py`)
    02 | ends u64 | client id            that an offline session ends then; the value is empty
    03 | client id                       that a session has a connection; the value is empty
    04 | due u64 | client id             that the will of an offline session is due then; the value is empty
    05 | client id                       that a session has an external queue; the value is empty

    client    u16 bytes, then the client id in UTF-8: no client's keys lie between those of another

Read, and no longer written: what is in slots now had its own keys before.

    01 | client | 02 | packet u16        an outgoing QoS 2 message
    01 | client | 03 | packet u16        that PUBREC came for it; the value is empty
    01 | client | 04 | packet u16        an incoming QoS 2 packet id; the value is empty
    01 | client | 06 | shard u16 | position u64                a QoS 2 message that is done, above the progress

Numbers in keys are big-endian.
"""

from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import key_u16, key_u64

#: The first byte of a key, and the byte behind the client. Never change.
RECORD: Final = 0x01
EXPIRY: Final = 0x02
CONNECTED: Final = 0x03
WAITING: Final = 0x04
OUTSIDE: Final = 0x05
SESSION: Final = 0x00
SUBSCRIPTION: Final = 0x01
INFLIGHT: Final = 0x02
RELEASED: Final = 0x03
INCOMING: Final = 0x04
PROGRESS: Final = 0x05
DONE: Final = 0x06
REPLAY: Final = 0x07
RETAINED: Final = 0x08
SLOT: Final = 0x09
#: Kinds of QoS 2 records: slots, and what was stored instead of them before.
PACKET_KINDS: Final = (INFLIGHT, RELEASED, INCOMING, DONE, SLOT)
GROUP: Final = 0x0A
MEMBER: Final = 0x0B
ASSIGNMENTS: Final = 0x0C


def client_prefix(client_id: str) -> bytes:
    """What every record of a session begins with."""
    encoded = client_id.encode()
    return b"\x01" + key_u16(len(encoded)) + encoded


def session_range(client_id: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of everything of a session but its entries in the two lists."""
    prefix = client_prefix(client_id)
    return prefix, prefix + b"\xff"


def session_key(client_id: str) -> bytes:
    return client_prefix(client_id) + b"\x00"


def subscription_key(client_id: str, raw: bytes) -> bytes:
    return client_prefix(client_id) + b"\x01" + raw


def progress_key(client_id: str) -> bytes:
    return client_prefix(client_id) + b"\x05"


def replay_key(client_id: str, raw: bytes) -> bytes:
    return client_prefix(client_id) + b"\x07" + raw


def retained_progress_key(client_id: str, raw: bytes) -> bytes:
    return client_prefix(client_id) + b"\x08" + raw


def slot_key(client_id: str, number: int) -> bytes:
    return client_prefix(client_id) + b"\x09" + number.to_bytes(4, "big")


def packet_range(client_id: str) -> tuple[bytes, bytes]:
    """A range [lo, hi) that holds the QoS 2 records of a session, and none of its subscriptions."""
    prefix = client_prefix(client_id)
    return prefix + b"\x02", prefix + b"\x0a"


def slot_number(key: bytes) -> int:
    return int.from_bytes(key[-4:], "big")


def done_place(key: bytes) -> tuple[int, int]:
    """Shard and position of something that is done."""
    return key[-10] << 8 | key[-9], int.from_bytes(key[-8:], "big")


def expiry_key(ends_us: int, client_id: str) -> bytes:
    return b"\x02" + key_u64(ends_us) + client_id.encode()


def expired_before(before_us: int) -> tuple[bytes, bytes]:
    """The range [lo, hi) of what ends before a moment."""
    return b"\x02", b"\x02" + key_u64(max(0, before_us))


def waiting_key(due_us: int, client_id: str) -> bytes:
    return b"\x04" + key_u64(due_us) + client_id.encode()


def connected_key(client_id: str) -> bytes:
    return b"\x03" + client_id.encode()


def connected_after(client_id: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of connected sessions above a client id; of all if it is empty."""
    return connected_key(client_id) + (b"\x00" if client_id else b""), b"\x04"


def external_queue_key(client_id: str) -> bytes:
    return b"\x05" + client_id.encode()


def external_queues_after(client_id: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of sessions above a client id whose queue is outside the log; of all if it is empty."""
    return external_queue_key(client_id) + (b"\x00" if client_id else b""), b"\x06"


def listed_client(key: bytes) -> str:
    """The client id of an entry in one of the lists."""
    start = 1 if key[:1] in (b"\x03", b"\x05") else 9
    try:
        return key[start:].decode()
    except UnicodeDecodeError:
        raise PermanentError(f"session key {key.hex()} names a client that is not UTF-8") from None
