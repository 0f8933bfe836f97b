"""Keys of the family `cluster`: all tables of all vnodes of a node.

    vnode u16 │ table u8 │ the key of a row

    table  rows                                        the key of a row
    ─────  ──────────────────────────────────────────  ─────────────────────────
    01     what records are decided by                 records/cluster/rows.py
    02     heads of shards, generations, last numbers  records/meta_keys.py
    03     retained messages and their removals        records/retained.py
    04     sessions                                    records/session/session_keys.py

Numbers are big-endian. All rows of a vnode are one range: it can be copied to another node, or dropped, by itself. The
families `meta`, `retained` and `sessions` are those of a node without a cluster; their keys begin with a tag, with
which the number of a vnode could be mistaken.
"""

from typing import Final
from zlib import crc32

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.fields import key_u16

#: Never change.
STATE: Final = 0x01
META: Final = 0x02
RETAINED: Final = 0x03
SESSIONS: Final = 0x04

_PREFIX_BYTES: Final = 3


def vnode_of(session_id: str, vnodes: int) -> int:
    """The vnode of a session, or of a group by the session id that it is stored under, of so many. Never change."""
    return crc32(session_id.encode()) % vnodes


def table_prefix(vnode: int, table: int) -> bytes:
    """What every key of a table of a vnode begins with."""
    if not STATE <= table <= SESSIONS:
        raise MisuseError(f"a vnode has no table {table}")
    return key_u16(vnode) + bytes((table,))


def vnode_range(vnode: int) -> tuple[bytes, bytes]:
    """The range [lo, hi) of all rows of a vnode."""
    return key_u16(vnode), key_u16(vnode) + b"\xff"


def split_key(key: bytes) -> tuple[int, int, bytes]:
    """Vnode, table and the row's own key; PermanentError if no table has such a key."""
    if len(key) <= _PREFIX_BYTES or not STATE <= key[2] <= SESSIONS:
        raise PermanentError(f"cluster key {key.hex()} is in no table of a vnode")
    return key[0] << 8 | key[1], key[2], key[_PREFIX_BYTES:]
