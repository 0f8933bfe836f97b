"""What a node keeps of a vnode to decide the next record: rows of the family `cluster`, each small.

    key                                    row             fields behind the version, u8 = 1
    ─────────────────────────────────────  ──────────────  ──────────────────────────────────────────────────────────
    01                                     applied         sequence u64 │ checksum u32 │ digest 16 bytes
    02                                     clock           time i64 │ stamp i64 │ node u32 │ claimed i64
                                                           │ claimed by another i64 │ version i64
    03 │ node u32                          writer          epoch u64 │ number u64
    04 │ node u32 │ before u64             closed          at i64
    05                                     leader          node u32 │ epoch u64 │ revision u64 │ tick i64
    06                                     holders         control u64 │ nodes u16, each u32
    07                                     settings        control u64 │ the settings (`settings.py`)
    08                                     level           level u16
    09 │ session id                        registration    node u32 │ epoch u64 │ connection u64 │ revision u64
                                                           │ version: u64, u32, u64 │ released i64
    0a │ group │ shard u16 │ position u64  assignment      member text │ its revision u64 │ revision u64
    0b │ group                             group progress  shards u16, each u16 and i64
    0c                                     incarnation     text
    0d                                     newest version  u64, u32, u64

    group    u16 bytes, then the group's session id in UTF-8: no group's keys lie between those of another

Times are record times in µs. Numbers in keys are big-endian.
"""

from struct import Struct
from typing import Final

from holdfast.records.cluster.items import VersionParts
from holdfast.records.cluster.settings import VnodeSettings, decode_settings, encode_settings
from holdfast.records.fields import (
    RecordReader,
    ValueRecord,
    key_u16,
    key_u32,
    key_u64,
    numbers,
    read_fixed,
    text,
    u8,
    u16,
    u32,
    u64,
)
from holdfast.records.session.progress import encode_places, read_places

#: Never change.
VERSION: Final = 1
#: Of a clock that is in doubt, or was.
DOUBTED_VERSION: Final = 2
APPLIED_KEY: Final = b"\x01"
CLOCK_KEY: Final = b"\x02"
LEADER_KEY: Final = b"\x05"
HOLDERS_KEY: Final = b"\x06"
SETTINGS_KEY: Final = b"\x07"
LEVEL_KEY: Final = b"\x08"
#: Of the log that was applied. It is no part of the state: a log that is made again from it has another one.
INCARNATION_KEY: Final = b"\x0c"
#: The greatest version that a clock of a node gave to a channel. It follows from the log, and is no part of the digest:
#: folders of earlier versions have none.
NEWEST_VERSION_KEY: Final = b"\x0d"
DIGEST_BYTES: Final = 16

# Rows that every record reads and writes. Never change.
_CLOSED_KEY: Final = Struct(">BIQ")
_APPLIED: Final = Struct("<BQI16s")
_CLOCK: Final = Struct("<BqqIqqq")
_CLOCK_TIMES: Final = Struct("<qqIqqq")
_DOUBT: Final = Struct("<qB")
_LEAP: Final = Struct("<qq")
_WRITER: Final = Struct("<BQQ")
_CLOSED: Final = Struct("<Bq")
_LEADER: Final = Struct("<BIQQq")
_REGISTRATION: Final = Struct("<BIQQQQIQq")


class AppliedRow(ValueRecord):
    """The last record that was applied: its sequence and checksum, and the digest of everything up to it."""

    def __init__(self, sequence: int, checksum: int, digest: bytes) -> None:
        self.sequence: Final = sequence
        self.checksum: Final = checksum
        self.digest: Final = digest

    def _fields(self) -> tuple[object, ...]:
        return (self.sequence, self.checksum, self.digest)


class ClockRow(ValueRecord):
    """The time of the vnode, and what it is judged by."""

    def __init__(
        self,
        time_us: int,
        stamp_us: int,
        node: int,
        claimed_us: int,
        other_claimed_us: int,
        version: int,
        doubted_us: int = 0,
        leaps: tuple[tuple[int, int], ...] = (),
    ) -> None:
        #: The record time, and the log's stamp, of the last record that counted.
        self.time_us: Final = time_us
        self.stamp_us: Final = stamp_us
        #: Who wrote it, and which time it claimed.
        self.node: Final = node
        self.claimed_us: Final = claimed_us
        #: Which time the newest record of another node than that claimed; 0 if there is none.
        self.other_claimed_us: Final = other_claimed_us
        #: The last version that was given to a retained message of this vnode.
        self.version: Final = version
        #: The record time since which records claim another one; 0 if they do not.
        self.doubted_us: Final = doubted_us
        #: The last leaps over a time that was in doubt, oldest first: since when it was, and the time behind the leap.
        self.leaps: Final = leaps

    def _fields(self) -> tuple[object, ...]:
        times = (self.time_us, self.stamp_us, self.node, self.claimed_us, self.other_claimed_us)
        return (*times, self.version, self.doubted_us, self.leaps)


class LeaderRow(ValueRecord):
    """Who leads the vnode, since which item, and when it last said that it is there."""

    def __init__(self, node: int, epoch: int, revision: int, tick_us: int) -> None:
        self.node: Final = node
        self.epoch: Final = epoch
        self.revision: Final = revision
        self.tick_us: Final = tick_us

    def _fields(self) -> tuple[object, ...]:
        return (self.node, self.epoch, self.revision, self.tick_us)


class RegistrationRow(ValueRecord):
    """The connection of a client id that counts; or the last one that did, and when it was released (0: it counts)."""

    def __init__(
        self,
        node: int,
        epoch: int,
        connection_id: int,
        revision: int,
        version: VersionParts,
        released_us: int = 0,
    ) -> None:
        self.node: Final = node
        self.epoch: Final = epoch
        self.connection_id: Final = connection_id
        self.revision: Final = revision
        self.version: Final = version
        self.released_us: Final = released_us

    def released(self, at_us: int) -> "RegistrationRow":
        return RegistrationRow(self.node, self.epoch, self.connection_id, self.revision, self.version, at_us)

    def _fields(self) -> tuple[object, ...]:
        return (self.node, self.epoch, self.connection_id, self.revision, self.version, self.released_us)


class AssignmentRow(ValueRecord):
    """The member that a QoS 2 message of a group went to, and the revision of that `Assign`."""

    def __init__(self, member: str, member_revision: int, revision: int) -> None:
        self.member: Final = member
        self.member_revision: Final = member_revision
        self.revision: Final = revision

    def _fields(self) -> tuple[object, ...]:
        return (self.member, self.member_revision, self.revision)


# ---- keys


def writer_key(node: int) -> bytes:
    return b"\x03" + key_u32(node)


def writers() -> tuple[bytes, bytes]:
    """The range [lo, hi) of all writers."""
    return b"\x03", b"\x04"


def node_of_writer(key: bytes) -> int:
    return int.from_bytes(key[1:5], "big")


def closed_key(node: int, before: int) -> bytes:
    return numbers(_CLOSED_KEY, 0x04, node, before)


def closed_prefix() -> bytes:
    """What the keys of all closed epochs begin with."""
    return b"\x04"


def is_closed_key(key: bytes) -> bool:
    return key.startswith(closed_prefix())


def closed_above(node: int, epoch: int) -> tuple[bytes, bytes]:
    """The range [lo, hi) of what closed this epoch of a node; the first row in it did."""
    return closed_key(node, epoch) + b"\x00", b"\x04" + key_u32(node) + b"\xff" * 9


def registration_key(session_id: str) -> bytes:
    return b"\x09" + session_id.encode()


def registrations_after(session_id: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of registrations above a session id; of all if it is empty."""
    return registration_key(session_id) + (b"\x00" if session_id else b""), b"\x0a"


def session_of_registration(key: bytes) -> str:
    return key[1:].decode()


def assignment_key(group: str, shard: int, position_us: int) -> bytes:
    return b"\x0a" + _named(group) + key_u16(shard) + key_u64(position_us)


def assignments() -> tuple[bytes, bytes]:
    """The range [lo, hi) of all assignments."""
    return b"\x0a", b"\x0b"


def assigned_place(key: bytes) -> tuple[str, tuple[int, int]]:
    """The group, and the shard and position, of an assignment."""
    return key[3:-10].decode(), (int.from_bytes(key[-10:-8], "big"), int.from_bytes(key[-8:], "big"))


def group_of_progress(key: bytes) -> str:
    return key[3:].decode()


def groups_progress() -> tuple[bytes, bytes]:
    """The range [lo, hi) of the progress of all groups that stand, or once did."""
    return b"\x0b", b"\x0c"


def group_progress_key(group: str) -> bytes:
    return b"\x0b" + _named(group)


def _named(group: str) -> bytes:
    encoded = group.encode()
    return key_u16(len(encoded)) + encoded


# ---- values


def encode_applied_row(row: AppliedRow) -> bytes:
    return b"".join((u8(VERSION), u64(row.sequence), u32(row.checksum), row.digest))


def decode_applied_row(value: bytes) -> AppliedRow:
    _version, sequence, checksum, digest = read_fixed(_APPLIED, value, "what a vnode has applied", VERSION)
    return AppliedRow(sequence, checksum, digest)


def encode_clock(row: ClockRow) -> bytes:
    times = (row.time_us, row.stamp_us, row.node, row.claimed_us, row.other_claimed_us)
    if not row.doubted_us and not row.leaps:
        return numbers(_CLOCK, VERSION, *times, row.version)
    head = numbers(_CLOCK, DOUBTED_VERSION, *times, row.version) + numbers(_DOUBT, row.doubted_us, len(row.leaps))
    return head + b"".join([numbers(_LEAP, *leap) for leap in row.leaps])


def decode_clock(value: bytes) -> ClockRow:
    if value[:1] != bytes((DOUBTED_VERSION,)):
        return ClockRow(*read_fixed(_CLOCK, value, "the clock of a vnode", VERSION)[1:])
    fields = RecordReader(value, "the clock of a vnode", DOUBTED_VERSION)
    time_us, stamp_us, node, claimed_us, other_us, version = fields.numbers(_CLOCK_TIMES, "the times")
    doubted_us, count = fields.numbers(_DOUBT, "what is in doubt")
    leaps: list[tuple[int, int]] = []
    for _leap in range(count):
        from_us, to_us = fields.numbers(_LEAP, "a leap")
        leaps.append((from_us, to_us))
    fields.end()
    return ClockRow(time_us, stamp_us, node, claimed_us, other_us, version, doubted_us, tuple(leaps))


def encode_writer(epoch: int, number: int) -> bytes:
    return numbers(_WRITER, VERSION, epoch, number)


def decode_writer(value: bytes) -> tuple[int, int]:
    """Epoch and number of a node's last record."""
    _version, epoch, number = read_fixed(_WRITER, value, "a writer of a vnode", VERSION)
    return epoch, number


def encode_closed(at_us: int) -> bytes:
    return numbers(_CLOSED, VERSION, at_us)


def decode_closed(value: bytes) -> int:
    _version, at_us = read_fixed(_CLOSED, value, "closed epochs of a node", VERSION)
    return int(at_us)


def encode_leader(row: LeaderRow) -> bytes:
    return numbers(_LEADER, VERSION, row.node, row.epoch, row.revision, row.tick_us)


def decode_leader(value: bytes) -> LeaderRow:
    _version, node, epoch, revision, tick_us = read_fixed(_LEADER, value, "the leader of a vnode", VERSION)
    return LeaderRow(node, epoch, revision, tick_us)


def encode_holders(control: int, nodes: tuple[int, ...]) -> bytes:
    return b"".join((u8(VERSION), u64(control), u16(len(nodes)), *[u32(node) for node in nodes]))


def decode_holders(value: bytes) -> tuple[int, tuple[int, ...]]:
    """The control sequence of the decision, and the nodes."""
    fields = RecordReader(value, "the holders of a vnode", VERSION)
    control = fields.u64("the sequence")
    nodes = tuple([fields.u32("a node") for _node in range(fields.u16("the nodes"))])
    fields.end()
    return control, nodes


def encode_settings_row(control: int, settings: VnodeSettings) -> bytes:
    return b"".join((u8(VERSION), u64(control), encode_settings(settings)))


def decode_settings_row(value: bytes) -> tuple[int, VnodeSettings]:
    """The control sequence of the decision, and the settings."""
    fields = RecordReader(value, "the settings row of a vnode", VERSION)
    control = fields.u64("the sequence")
    return control, decode_settings(fields.rest())


def encode_level(level: int) -> bytes:
    return u8(VERSION) + u16(level)


def decode_level(value: bytes) -> int:
    fields = RecordReader(value, "the level of a vnode", VERSION)
    level = fields.u16("the level")
    fields.end()
    return level


def encode_registration(row: RegistrationRow) -> bytes:
    channel = (row.node, row.epoch, row.connection_id, row.revision)
    return numbers(_REGISTRATION, VERSION, *channel, *row.version, row.released_us)


def decode_registration(value: bytes) -> RegistrationRow:
    fields = read_fixed(_REGISTRATION, value, "a registration", VERSION)
    _version, node, epoch, connection_id, revision, connected_ms, version_node, counter, released_us = fields
    version = (connected_ms, version_node, counter)
    return RegistrationRow(node, epoch, connection_id, revision, version, released_us)


def encode_newest_version(version: VersionParts) -> bytes:
    return b"".join((u8(VERSION), u64(version[0]), u32(version[1]), u64(version[2])))


def decode_newest_version(value: bytes) -> VersionParts:
    fields = RecordReader(value, "the newest version of a vnode", VERSION)
    connected_ms = fields.u64("the time of connecting")
    node = fields.u32("the node of the version")
    version = (connected_ms, node, fields.u64("the counter"))
    fields.end()
    return version


def encode_assignment(row: AssignmentRow) -> bytes:
    return b"".join((u8(VERSION), text(row.member), u64(row.member_revision), u64(row.revision)))


def decode_assignment(value: bytes) -> AssignmentRow:
    fields = RecordReader(value, "an assignment", VERSION)
    member = fields.text("the member")
    member_revision = fields.u64("the member's revision")
    row = AssignmentRow(member, member_revision, fields.u64("the revision"))
    fields.end()
    return row


def encode_group_progress(sent: dict[int, int]) -> bytes:
    return u8(VERSION) + encode_places(sent)


def decode_group_progress(value: bytes) -> dict[int, int]:
    fields = RecordReader(value, "the progress of a group", VERSION)
    sent = read_places(fields)
    fields.end()
    return sent


def encode_incarnation(incarnation: str) -> bytes:
    return u8(VERSION) + text(incarnation)


def decode_incarnation(value: bytes) -> str:
    fields = RecordReader(value, "the incarnation of a log", VERSION)
    incarnation = fields.text("the incarnation")
    fields.end()
    return incarnation
