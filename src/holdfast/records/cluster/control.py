"""Records of the control log: who belongs to the cluster, and which of them live.

    record       as that of a vnode (`record.py`), with one item and without sessions; seen = 0

    kind  item      fields behind the version, u8 = 1, of a beat 2
    ────  ────────  ────────────────────────────────────────────────────────────────────────────────────────────────
    60    found     name text │ vnodes u16, each: its first settings, blob (`settings.py`)
    61    join      name text │ folder 16 bytes │ life 16 bytes │ after u64 │ level u16 │ mode u8: 1 linear, 2 both,
                    3 eventual │ addresses u16, each: what text, address text
    62    beat      flags u8: 1 ready │ lag u32 (ms) │ connections u32 │ vnodes u16, each: vnode u16 │ applied u64
                    │ synced u64 │ digest at u64 │ digest 16 bytes │ lag u32 (ms) │ flags u8: 1 leads
                    │ reasons u16, each text │ counts u16, each: name text, count u64
                    version 1: without the lag and flags of a vnode, reasons and counts
    63    fence     node u32 │ epoch u64 │ since u64
    64    leave     nothing
    65    snapshot  at u64 │ digest 16 bytes │ rows u32, each: key blob, value blob (`control_rows.py`)
    66    lease     how far a pipeline has come (`job_records.py`)
    67    erasure   what is shown to no reader any more (`job_records.py`)

Kinds are hexadecimal, and none of them is that of an item of a vnode. The rules are in `durable/state_machine/control`.

1. Found and join have epoch and number 0: the epoch of a node is the sequence that its join gets. All others have the
   epoch of their writer, and numbers from 1 that are dense in it.
2. The cluster's id is random, and is that of the first `found` in the log: `read_founding` finds it. A log that was
   trimmed begins with a snapshot: `read_snapshot`.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cluster.job_records import (
    ERASURE,
    LEASE,
    ErasureItem,
    LeaseItem,
    encode_erasure,
    encode_lease,
    read_erasure,
    read_lease,
)
from holdfast.records.cluster.record import (
    LEVEL,
    MAX_RECORD_BYTES,
    ClusterRecord,
    join_record,
    named_cluster,
    split_record,
)
from holdfast.records.cluster.settings import VnodeSettings, decode_settings, encode_settings
from holdfast.records.fields import RecordReader, ValueRecord, blob, text, u8, u16, u32, u64

#: Never change.
VERSION: Final = 1
BEAT_VERSION: Final = 2
FOUND: Final = 0x60
JOIN: Final = 0x61
BEAT: Final = 0x62
FENCE: Final = 0x63
LEAVE: Final = 0x64
SNAPSHOT: Final = 0x65
ID_BYTES: Final = 16
DIGEST_BYTES: Final = 16
LINEAR: Final = 1
BOTH: Final = 2
EVENTUAL: Final = 3
MODES: Final = (LINEAR, BOTH, EVENTUAL)

_READY: Final = 0x01
_LEADS: Final = 0x01
_MAX_U32: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class Found:
    """The cluster begins: its name, and the first settings of each vnode, by number."""

    name: str
    settings: tuple[VnodeSettings, ...]

    @property
    def vnodes(self) -> int:
        return len(self.settings)


@dataclass(frozen=True)
class Join:
    """A life of the writing node begins."""

    name: str
    #: Random, made with the node's data folder.
    folder_id: bytes
    #: Random, made when the node starts or was closed: a repetition of the record has the same one.
    life: bytes
    #: Up to where the writer has applied the control log. A join behind a newer one of its node counts for nothing.
    after: int
    #: The newest level of records that the node reads.
    level: int = LEVEL
    #: How the node's channel registry decides.
    mode: int = LINEAR
    #: What is served where: (`mqtt`, `host:port`).
    addresses: tuple[tuple[str, str], ...] = ()


class VnodeProgress(ValueRecord):
    """How far a node has come in one vnode, and its digest at the last multiple of 1,024 that it has applied."""

    def __init__(
        self,
        vnode: int,
        applied: int,
        synced: int,
        digest_at: int = 0,
        digest: bytes = bytes(16),
        lag_ms: int = 0,
        *,
        leads: bool = False,
    ) -> None:
        self.vnode: Final = vnode
        self.applied: Final = applied
        self.synced: Final = synced
        #: 0 if there is none yet.
        self.digest_at: Final = digest_at
        self.digest: Final = digest
        #: For how long the record behind the applied one has been in the log; 0 if there is none.
        self.lag_ms: Final = min(lag_ms, _MAX_U32)
        self.leads: Final = leads

    def _fields(self) -> tuple[object, ...]:
        return (self.vnode, self.applied, self.synced, self.digest_at, self.digest, self.lag_ms, self.leads)


@dataclass(frozen=True)
class Beat:
    """The writing node lives, and this is how it is."""

    vnodes: tuple[VnodeProgress, ...] = ()
    #: How far it is behind in the vnode where it is furthest behind.
    lag_ms: int = 0
    connections: int = 0
    ready: bool = False
    #: Why it is not ready; for people.
    reasons: tuple[str, ...] = ()
    #: What it has counted since its start, by name; only what is not 0.
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Fence:
    """Close this epoch of a node, unless a beat of it stands behind `since`."""

    node: int
    epoch: int
    since: int


@dataclass(frozen=True)
class Leave:
    """The writing node has ended its work; its epoch is closed."""


class Snapshot(ValueRecord):
    """The tables of the control log behind the record `at`, and their digest: a log may be trimmed before it."""

    def __init__(self, at: int, digest: bytes, rows: tuple[tuple[bytes, bytes], ...]) -> None:
        self.at: Final = at
        self.digest: Final = digest
        self.rows: Final = rows

    def _fields(self) -> tuple[object, ...]:
        return (self.at, self.digest, self.rows)


ControlItem = Found | Join | Beat | Fence | Leave | Snapshot | LeaseItem | ErasureItem


class ControlRecord(ValueRecord):
    """A record of the control log. `checksum` is that of its bytes, once it has been decoded; 0 before."""

    def __init__(
        self,
        cluster_id: bytes,
        node: int,
        epoch: int,
        number: int,
        time_us: int,
        item: ControlItem,
        *,
        level: int = LEVEL,
        checksum: int = 0,
    ) -> None:
        self.cluster_id: Final = cluster_id
        self.node: Final = node
        self.epoch: Final = epoch
        self.number: Final = number
        self.time_us: Final = time_us
        self.item: Final = item
        self.level: Final = level
        self.checksum: Final = checksum

    def _fields(self) -> tuple[object, ...]:
        return (self.cluster_id, self.node, self.epoch, self.number, self.time_us, self.item, self.level)


def encode_control(record: ControlRecord, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The bytes of a record. MisuseError: they are more than a log takes, or its numbers are not those of its item."""
    if not _numbers_fit(record.item, record.epoch, record.number):
        name = type(record.item).__name__
        raise MisuseError(f"a {name} has epoch {record.epoch} and number {record.number}, which it cannot have")
    kind, body = encode_control_item(record.item)
    envelope = ClusterRecord(
        record.cluster_id, record.node, record.epoch, record.number, record.time_us, 0, [], [], level=record.level
    )
    return join_record(envelope, [u8(kind) + blob(body)], limit_bytes)


def decode_control(value: bytes, cluster_id: bytes) -> ControlRecord | None:
    """What `encode_control` wrote; None if it is no record of this cluster; PermanentError if it cannot be read."""
    found = split_record(value, cluster_id)
    if found is None:
        return None
    record, encoded = found
    if record.sessions or record.seen_version or len(encoded) != 1:
        raise PermanentError("a record of the control log has one item and no sessions; this one is of a vnode")
    kind, body = encoded[0]
    item = decode_control_item(kind, body)
    if not _numbers_fit(item, record.epoch, record.number):
        raise PermanentError(f"a control item of kind {kind:02x} has epoch {record.epoch}, number {record.number}")
    return ControlRecord(
        cluster_id,
        record.node,
        record.epoch,
        record.number,
        record.time_us,
        item,
        level=record.level,
        checksum=record.checksum,
    )


def read_founding(value: bytes) -> ControlRecord | None:
    """The record if it founds a cluster, of any id; None if it is another one.

    PermanentError if it may be a founding that cannot be read: with a later one this node would be in another cluster.
    """
    cluster_id = named_cluster(value)
    record = decode_control(value, cluster_id) if cluster_id else None
    return record if record is not None and isinstance(record.item, Found) else None


def read_snapshot(value: bytes) -> ControlRecord | None:
    """The record if it is a snapshot, of any cluster; None if it is another one. It fails as `read_founding` does."""
    cluster_id = named_cluster(value)
    record = decode_control(value, cluster_id) if cluster_id else None
    return record if record is not None and isinstance(record.item, Snapshot) else None


def _numbers_fit(item: ControlItem, epoch: int, number: int) -> bool:
    if isinstance(item, (Found, Join)):
        return epoch == 0 and number == 0
    return epoch > 0 and number > 0


# ---- items


def encode_control_item(item: ControlItem) -> tuple[int, bytes]:
    """Kind, and version and fields: as they stand in a record, and in rows that keep an item."""
    kind, body = _encode(item)
    return kind, u8(_newest_version(kind)) + body


def decode_control_item(kind: int, value: bytes) -> ControlItem:
    """The item of a kind; PermanentError if it is of an unknown kind or version, or damaged."""
    fields = RecordReader(value, f"a control item of kind {kind:02x}", _newest_version(kind))
    item = _decode(kind, fields)
    fields.end()
    return item


def _newest_version(kind: int) -> int:
    return BEAT_VERSION if kind == BEAT else VERSION


def _encode(item: ControlItem) -> tuple[int, bytes]:
    if isinstance(item, Found):
        settings = [blob(encode_settings(each)) for each in item.settings]
        return FOUND, b"".join((text(item.name), u16(len(settings)), *settings))
    if isinstance(item, Join):
        return JOIN, _encode_join(item)
    if isinstance(item, Beat):
        return BEAT, _encode_beat(item)
    if isinstance(item, Fence):
        return FENCE, u32(item.node) + u64(item.epoch) + u64(item.since)
    if isinstance(item, Snapshot):
        rows = [blob(key) + blob(value) for key, value in item.rows]
        return SNAPSHOT, b"".join((u64(item.at), _sized(item.digest, DIGEST_BYTES), u32(len(rows)), *rows))
    if isinstance(item, LeaseItem):
        return LEASE, encode_lease(item)
    if isinstance(item, ErasureItem):
        return ERASURE, encode_erasure(item)
    return LEAVE, b""


def _encode_join(join: Join) -> bytes:
    if join.mode not in MODES:
        raise MisuseError(f"{join.mode} is no mode of a channel registry")
    ids = [_sized(join.folder_id, ID_BYTES), _sized(join.life, ID_BYTES)]
    parts = [text(join.name), *ids, u64(join.after), u16(join.level), u8(join.mode), u16(len(join.addresses))]
    parts.extend([text(what) + text(address) for what, address in join.addresses])
    return b"".join(parts)


def _encode_beat(beat: Beat) -> bytes:
    lag_ms = min(beat.lag_ms, _MAX_U32)
    parts = [u8(_READY if beat.ready else 0), u32(lag_ms), u32(beat.connections), u16(len(beat.vnodes))]
    for each in beat.vnodes:
        parts.extend([u16(each.vnode), u64(each.applied), u64(each.synced), u64(each.digest_at)])
        parts.extend([_sized(each.digest, DIGEST_BYTES), u32(each.lag_ms), u8(_LEADS if each.leads else 0)])
    parts.append(u16(len(beat.reasons)))
    parts.extend([text(reason) for reason in beat.reasons])
    parts.append(u16(len(beat.counts)))
    parts.extend([text(name) + u64(count) for name, count in beat.counts])
    return b"".join(parts)


def _sized(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise MisuseError(f"{value.hex()} has {len(value)} bytes, it has to have {size}")
    return value


def _decode(kind: int, fields: RecordReader) -> ControlItem:
    if kind == FOUND:
        name = fields.text("the name")
        settings = [decode_settings(fields.blob("the settings")) for _vnode in range(fields.u16("the vnodes"))]
        return Found(name, tuple(settings))
    if kind == JOIN:
        return _read_join(fields)
    if kind == BEAT:
        return _read_beat(fields)
    if kind == FENCE:
        node = fields.u32("the node")
        epoch = fields.u64("the epoch")
        return Fence(node, epoch, fields.u64("since"))
    if kind == LEAVE:
        return Leave()
    if kind == SNAPSHOT:
        at = fields.u64("the place")
        digest = fields.raw(DIGEST_BYTES, "the digest")
        rows = [(fields.blob("a key"), fields.blob("a value")) for _row in range(fields.u32("the rows"))]
        return Snapshot(at, digest, tuple(rows))
    if kind == LEASE:
        return read_lease(fields)
    if kind == ERASURE:
        return read_erasure(fields)
    raise PermanentError(f"a control item is of the unknown kind {kind:02x}")


def _read_join(fields: RecordReader) -> Join:
    name = fields.text("the name")
    folder_id = fields.raw(ID_BYTES, "the folder")
    life = fields.raw(ID_BYTES, "the life")
    after = fields.u64("after")
    level = fields.u16("the level")
    mode = fields.u8("the mode")
    if mode not in MODES:
        raise PermanentError(f"a join has mode {mode}, which no version wrote")
    addresses: list[tuple[str, str]] = []
    for _address in range(fields.u16("the addresses")):
        what = fields.text("what is served")
        addresses.append((what, fields.text("an address")))
    return Join(name, folder_id, life, after, level, mode, tuple(addresses))


def _read_beat(fields: RecordReader) -> Beat:
    flags = _read_flags(fields, _READY)
    lag_ms = fields.u32("the lag")
    connections = fields.u32("the connections")
    vnodes = [_read_progress(fields) for _vnode in range(fields.u16("the vnodes"))]
    reasons: list[str] = []
    counts: list[tuple[str, int]] = []
    if fields.version >= BEAT_VERSION:
        reasons = [fields.text("a reason") for _reason in range(fields.u16("the reasons"))]
        for _count in range(fields.u16("the counts")):
            name = fields.text("the name of a count")
            counts.append((name, fields.u64("a count")))
    return Beat(tuple(vnodes), lag_ms, connections, flags != 0, tuple(reasons), tuple(counts))


def _read_progress(fields: RecordReader) -> VnodeProgress:
    vnode = fields.u16("a vnode")
    applied = fields.u64("applied")
    synced = fields.u64("synced")
    digest_at = fields.u64("the place of the digest")
    digest = fields.raw(DIGEST_BYTES, "the digest")
    if fields.version < BEAT_VERSION:
        return VnodeProgress(vnode, applied, synced, digest_at, digest)
    lag_ms = fields.u32("the lag of a vnode")
    leads = _read_flags(fields, _LEADS) != 0
    return VnodeProgress(vnode, applied, synced, digest_at, digest, lag_ms, leads=leads)


def _read_flags(fields: RecordReader, known: int) -> int:
    flags = fields.u8("the flags")
    if flags & ~known:
        raise PermanentError(f"a beat has flags 0x{flags:02X}, which no version wrote")
    return flags
