"""What a node keeps of the control log: rows in the family `cluster`, under the vnode number `CONTROL_VNODE`.

    key              row       fields behind the version, u8 = 1
    ───────────────  ────────  ───────────────────────────────────────────────────────────────────────────────────
    20               founded   sequence u64 │ cluster 16 bytes │ found blob
    21 │ node u32    member    epoch u64 │ closed u64 │ reason u8: 0 lives, 1 fenced, 2 left │ join blob
    22 │ node u32    beat      sequence u64 │ stamp i64 │ time i64 │ beat blob
    23               snapshot  sequence u64 of the last one that counts
    24               jobs      sequence u64 of the last lease or erasure that counts
    25 │ name        lease     lease blob
    26 │ 00 client   erasure   erasure blob
    26 │ 01 filter   erasure   erasure blob

The blobs are items as they stand in a record (`control.py`), from their version on.
Beside them are the rows `applied`, `writer` and `incarnation` of a vnode (`rows.py`), whose keys are below these.
Keys are hexadecimal, numbers in keys are big-endian.
"""

from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.control import (
    BEAT,
    FOUND,
    JOIN,
    Beat,
    Found,
    Join,
    decode_control_item,
    encode_control_item,
)
from holdfast.records.cluster.job_records import ERASURE, LEASE, ErasureItem, LeaseItem
from holdfast.records.cluster.record import CLUSTER_ID_BYTES
from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, key_u32, u8, u64

#: Never change.
VERSION: Final = 1
#: In place of the number of a vnode: no cluster has so many.
CONTROL_VNODE: Final = 0xFFFF
FOUNDED_KEY: Final = b"\x20"
_MEMBER: Final = b"\x21"
_BEAT: Final = b"\x22"
SNAPSHOT_KEY: Final = b"\x23"
JOBS_KEY: Final = b"\x24"
_LEASE: Final = b"\x25"
_ERASURE: Final = b"\x26"

#: Why the epoch of a member counts no longer. Never change.
LIVES: Final = 0
FENCED: Final = 1
LEFT: Final = 2


class FoundedRow(ValueRecord):
    """The cluster, and the sequence of its `found`."""

    def __init__(self, sequence: int, cluster_id: bytes, found: Found) -> None:
        self.sequence: Final = sequence
        self.cluster_id: Final = cluster_id
        self.found: Final = found

    def _fields(self) -> tuple[object, ...]:
        return (self.sequence, self.cluster_id, self.found)


class MemberRow(ValueRecord):
    """The last life of a node. `closed` is the sequence of the record that closed it, 0 while it lives."""

    def __init__(self, epoch: int, join: Join, closed: int = 0, reason: int = LIVES) -> None:
        self.epoch: Final = epoch
        self.join: Final = join
        self.closed: Final = closed
        self.reason: Final = reason

    @property
    def lives(self) -> bool:
        return self.closed == 0

    @property
    def closed_before(self) -> int:
        """All epochs of the node below this one are closed."""
        return self.closed or self.epoch

    def _fields(self) -> tuple[object, ...]:
        return (self.epoch, self.join, self.closed, self.reason)


class BeatRow(ValueRecord):
    """The last beat of a member's epoch: its place, the stamp of the log there, and the time of its writer."""

    def __init__(self, sequence: int, stamp_us: int, time_us: int, beat: Beat) -> None:
        self.sequence: Final = sequence
        self.stamp_us: Final = stamp_us
        self.time_us: Final = time_us
        self.beat: Final = beat

    def _fields(self) -> tuple[object, ...]:
        return (self.sequence, self.stamp_us, self.time_us, self.beat)


# ---- keys


def member_key(node: int) -> bytes:
    return _MEMBER + key_u32(node)


def beat_key(node: int) -> bytes:
    return _BEAT + key_u32(node)


def members_range() -> tuple[bytes, bytes]:
    """The range [lo, hi) of all members."""
    return _MEMBER, _BEAT


def node_of_member(key: bytes) -> int:
    return int.from_bytes(key[1:5], "big")


def lease_key(name: str) -> bytes:
    return _LEASE + name.encode()


def leases_range() -> tuple[bytes, bytes]:
    """The range [lo, hi) of all leases."""
    return _LEASE, _ERASURE


def erasure_key(item: ErasureItem) -> bytes:
    """One for each client, and for each filter."""
    return _ERASURE + (b"\x00" + item.client.encode() if item.client else b"\x01" + item.topic)


def erasures_range() -> tuple[bytes, bytes]:
    """The range [lo, hi) of all erasures."""
    return _ERASURE, b"\x27"


# ---- values


def encode_founded(row: FoundedRow) -> bytes:
    return b"".join((u8(VERSION), u64(row.sequence), row.cluster_id, blob(encode_control_item(row.found)[1])))


def decode_founded(value: bytes) -> FoundedRow:
    fields = RecordReader(value, "the founding of the cluster", VERSION)
    sequence = fields.u64("the sequence")
    cluster_id = fields.raw(CLUSTER_ID_BYTES, "the cluster")
    found = decode_control_item(FOUND, fields.blob("the item"))
    fields.end()
    assert isinstance(found, Found)
    return FoundedRow(sequence, cluster_id, found)


def encode_member(row: MemberRow) -> bytes:
    return b"".join(
        (u8(VERSION), u64(row.epoch), u64(row.closed), u8(row.reason), blob(encode_control_item(row.join)[1]))
    )


def decode_member(value: bytes) -> MemberRow:
    fields = RecordReader(value, "a member of the cluster", VERSION)
    epoch = fields.u64("the epoch")
    closed = fields.u64("the closing")
    reason = fields.u8("the reason")
    if reason > LEFT or (reason == LIVES) != (closed == 0):
        raise PermanentError(f"a member of the cluster was closed at {closed} for reason {reason}, which cannot be")
    join = decode_control_item(JOIN, fields.blob("the join"))
    fields.end()
    assert isinstance(join, Join)
    return MemberRow(epoch, join, closed, reason)


def encode_beat_row(row: BeatRow) -> bytes:
    return b"".join(
        (u8(VERSION), u64(row.sequence), i64(row.stamp_us), i64(row.time_us), blob(encode_control_item(row.beat)[1]))
    )


def decode_beat_row(value: bytes) -> BeatRow:
    fields = RecordReader(value, "the last beat of a member", VERSION)
    sequence = fields.u64("the sequence")
    stamp_us = fields.i64("the stamp")
    time_us = fields.i64("the time")
    beat = decode_control_item(BEAT, fields.blob("the beat"))
    fields.end()
    assert isinstance(beat, Beat)
    return BeatRow(sequence, stamp_us, time_us, beat)


def encode_snapshot_row(sequence: int) -> bytes:
    return u8(VERSION) + u64(sequence)


def decode_snapshot_row(value: bytes) -> int:
    fields = RecordReader(value, "the last snapshot of the control log", VERSION)
    sequence = fields.u64("the sequence")
    fields.end()
    return sequence


def encode_jobs_row(sequence: int) -> bytes:
    return u8(VERSION) + u64(sequence)


def decode_jobs_row(value: bytes) -> int:
    fields = RecordReader(value, "the last lease or erasure of the cluster", VERSION)
    sequence = fields.u64("the sequence")
    fields.end()
    return sequence


def encode_lease_row(item: LeaseItem) -> bytes:
    return u8(VERSION) + blob(encode_control_item(item)[1])


def decode_lease_row(value: bytes) -> LeaseItem:
    fields = RecordReader(value, "a lease of the cluster", VERSION)
    item = decode_control_item(LEASE, fields.blob("the lease"))
    fields.end()
    assert isinstance(item, LeaseItem)
    return item


def encode_erasure_row(item: ErasureItem) -> bytes:
    return u8(VERSION) + blob(encode_control_item(item)[1])


def decode_erasure_row(value: bytes) -> ErasureItem:
    fields = RecordReader(value, "an erasure of the cluster", VERSION)
    item = decode_control_item(ERASURE, fields.blob("the erasure"))
    fields.end()
    assert isinstance(item, ErasureItem)
    return item
