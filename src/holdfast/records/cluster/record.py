"""A record of an ordered log: what one node proposes at once, for one vnode.

     0  magic        4 bytes   `HFCR`
     4  format       u8        1
     5  cluster      16 bytes  the id of the cluster
    21  level        u16       which kinds of items may be in it
    23  node         u32       who wrote it
    27  epoch        u64       the life of that node
    35  number       u64       of the record among those of its epoch in this vnode; dense, from 1
    43  time         i64       of the writer, µs
    51  seen         i64       the greatest version of a retained message that the writer has seen in any vnode
    59  sessions     u16       then each: session id text │ revision u64
     …  items        u16       then each: kind u8 │ bytes u32 │ the item (`items.py`)
     …  check        u32       CRC-32 of everything before it

Little-endian. Items name their session by its place in the table of sessions.

1. The first 21 bytes are the same in every format: they tell whether a record is of this cluster, whatever follows.
2. A record without the magic, or of another cluster, is no record of ours: `decode_record` returns None, and whoever
   applies the log passes over it. One that was cut within these bytes is ours if what is there could be.
3. A record of ours that cannot be read raises PermanentError: damage, a format or a level of a later version. Whoever
   applies the log has to stop there, because what it says was decided by others.
4. A session may stand in the table twice, with two revisions: of two connections, of which one is older.
5. The lengths add up, and any flipped bit is noticed: behind the first 21 bytes by the check, within them by rule 2.

The revision of a session is that of the claim by which its connection was registered, so it names the connection,
too. That of a group is the revision of the `Lead` whose node writes it.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cluster.item_codec import decode_item, encode_item
from holdfast.records.cluster.items import Item, MessageItem
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.fields import RecordReader, ValueRecord, numbers, text, u8, u16, u32, u64

#: Never change.
MAGIC: Final = b"HFCR"
FORMAT: Final = 1
CLUSTER_ID_BYTES: Final = 16
_CLUSTER_AT: Final = 5
CHECK_BYTES: Final = 4
#: From the level to the number of sessions. Never change.
_HEADER: Final = Struct("<HIQQqqH")

#: The newest level that this Holdfast knows. Raised with every new kind of item, and every new form of one.
LEVEL: Final = 1

#: 8 MiB, the largest payload of the servers, less 4 KiB for what stands around it.
MAX_RECORD_BYTES: Final = (8 << 20) - 4096
#: A record without sessions and items.
EMPTY_RECORD_BYTES: Final = 67
#: Counts are two bytes, and an item's index is the lower part of a revision.
MAX_ITEMS: Final = 0xFFFF
MAX_SESSIONS: Final = 0xFFFF
#: Versions of retained messages are µs; one beyond this is no version, and would leave no room for the next.
MAX_VERSION: Final = 2**62

_INDEX_BITS: Final = 16


def revision_of(sequence: int, index: int) -> int:
    """The revision of an item: its record's sequence and its index there, as one number. Never 0. Never change."""
    return sequence << _INDEX_BITS | index


class SessionEntry(ValueRecord):
    """A session that items of a record belong to, and the revision at which its writer holds it."""

    def __init__(self, session_id: str, revision: int) -> None:
        self.session_id: Final = session_id
        self.revision: Final = revision

    def _fields(self) -> tuple[object, ...]:
        return (self.session_id, self.revision)


class ClusterRecord(ValueRecord):
    """A record of one node. `checksum` is that of its bytes, once it has been decoded; 0 before."""

    def __init__(
        self,
        cluster_id: bytes,
        node: int,
        epoch: int,
        number: int,
        time_us: int,
        seen_version: int,
        sessions: list[SessionEntry],
        items: list[Item],
        *,
        level: int = LEVEL,
        checksum: int = 0,
    ) -> None:
        self.cluster_id: Final = cluster_id
        self.node: Final = node
        self.epoch: Final = epoch
        self.number: Final = number
        self.time_us: Final = time_us
        self.seen_version: Final = seen_version
        self.sessions: Final = sessions
        self.items: Final = items
        self.level: Final = level
        self.checksum: Final = checksum

    def _fields(self) -> tuple[object, ...]:
        return (
            self.cluster_id,
            self.node,
            self.epoch,
            self.number,
            self.time_us,
            self.seen_version,
            tuple(self.sessions),
            tuple(self.items),
            self.level,
        )


def encode_record(record: ClusterRecord, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The bytes of a record. MisuseError if they are more than a log takes, or if an item names no session of it."""
    for item in record.items:
        _check_session(item, len(record.sessions))
    return join_record(record, [encode_item(item) for item in record.items], limit_bytes)


def join_record(record: ClusterRecord, encoded: list[bytes], limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The bytes of a record whose items are encoded already; `record.items` is not looked at.

    Requires: every item names a session of the record.
    """
    if len(record.cluster_id) != CLUSTER_ID_BYTES:
        raise MisuseError(f"a cluster id has {len(record.cluster_id)} bytes, it has to have {CLUSTER_ID_BYTES}")
    if len(encoded) > MAX_ITEMS or len(record.sessions) > MAX_SESSIONS:
        raise MisuseError(f"a record has {len(encoded)} items of {len(record.sessions)} sessions; at most 65,535")
    if not 0 <= record.seen_version < MAX_VERSION:
        raise MisuseError(f"{record.seen_version} is no version of a retained message")
    writer = (record.node, record.epoch, record.number, record.time_us)
    parts = [
        MAGIC,
        u8(FORMAT),
        record.cluster_id,
        numbers(_HEADER, record.level, *writer, record.seen_version, len(record.sessions)),
    ]
    parts.extend([encode_session_entry(entry) for entry in record.sessions])
    parts.append(u16(len(encoded)))
    parts.extend(encoded)
    value = b"".join(parts)
    if len(value) + CHECK_BYTES > limit_bytes:
        raise MisuseError(f"a record has {len(value) + CHECK_BYTES} bytes, a log takes {limit_bytes}")
    return value + u32(crc32(value))


def encode_session_entry(entry: SessionEntry) -> bytes:
    return text(entry.session_id) + u64(entry.revision)


def is_ours(value: bytes, cluster_id: bytes) -> bool:
    """Whether the first bytes are those of a record of this cluster, as far as they are there."""
    if not value.startswith(MAGIC):
        return False
    named = value[_CLUSTER_AT : _CLUSTER_AT + CLUSTER_ID_BYTES]
    return cluster_id.startswith(named)


def decode_record(value: bytes, cluster_id: bytes) -> ClusterRecord | None:
    """What `encode_record` wrote; None if it is no record of this cluster; PermanentError if it cannot be read."""
    found = split_record(value, cluster_id)
    if found is None:
        return None
    record, encoded = found
    for kind, body in encoded:
        item = decode_item(kind, body)
        if isinstance(item, (MessageItem, StepItem)) and item.session >= len(record.sessions):
            raise PermanentError(f"an item of session {item.session}, where a record has {len(record.sessions)}")
        record.items.append(item)
    return record


def split_record(value: bytes, cluster_id: bytes) -> tuple[ClusterRecord, list[tuple[int, bytes]]] | None:
    """A record without its items, and kind and bytes of each of them. It fails as `decode_record` does."""
    if not is_ours(value, cluster_id):
        return None
    end = len(value) - CHECK_BYTES
    fields = RecordReader(value[len(MAGIC) : max(end, len(MAGIC))], "a record of the cluster", FORMAT)
    checksum = crc32(value[:end])
    if u32(checksum) != value[end:]:
        raise PermanentError("a record of the cluster is damaged: its check does not fit")
    fields.raw(CLUSTER_ID_BYTES, "the cluster")
    level, node, epoch, number, time_us, seen_version, count = fields.numbers(_HEADER, "its header")
    if not 1 <= level <= LEVEL:
        raise PermanentError(f"a record of the cluster has level {level}, this Holdfast reads levels 1 to {LEVEL}")
    if not 0 <= seen_version < MAX_VERSION:
        raise PermanentError(f"a record of the cluster has seen version {seen_version}, which is none")
    sessions: list[SessionEntry] = []
    for _entry in range(count):
        session_id = fields.text("a session")
        sessions.append(SessionEntry(session_id, fields.u64("a revision")))
    encoded: list[tuple[int, bytes]] = []
    for _item in range(fields.u16("the items")):
        kind = fields.u8("a kind")
        encoded.append((kind, fields.blob("an item")))
    fields.end()
    record = ClusterRecord(
        cluster_id, node, epoch, number, time_us, seen_version, sessions, [], level=level, checksum=checksum
    )
    return record, encoded


def named_cluster(value: bytes) -> bytes:
    """The id of the cluster that a record names; empty if it has no such id, because it is none or was cut."""
    named = value[_CLUSTER_AT : _CLUSTER_AT + CLUSTER_ID_BYTES]
    return named if value.startswith(MAGIC) and len(named) == CLUSTER_ID_BYTES else b""


def _check_session(item: Item, count: int) -> None:
    if isinstance(item, (MessageItem, StepItem)) and item.session >= count:
        raise MisuseError(f"an item of session {item.session}, where a record has {count}")
