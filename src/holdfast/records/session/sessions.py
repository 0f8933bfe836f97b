"""The values of sessions on disk: a small record for each thing that changes by itself. Their keys: `session_keys.py`.

Numbers are little-endian (`fields.py`). Each value begins with its version:

    session         see `session_record.py`
    subscription    01 | QoS u8 | flags u8: 1 no local, 2 retain as published | retain handling u8 | identifier u32
                    | since i64 | mount u16 | the filter's levels with the mount point blob
                    02 | the same | share window u16: for a member of a group that has one
    in flight       01 | order u64 | retain u8 | shard u16 | position i64 | identifiers u16, each u32
                    | group text | topic blob | the message itself, if it is not in the log
                    shard FFFF: the position is a serial of the session's external queue, here and below
                    02 | the vnode u16 and the revision u64 of its assignment, by a group of a cluster | the same
                    03 | QoS u8 | as 01: a message that came from a lake, which is always here itself. The others
                    have QoS 2
    progress        see `progress.py`
    slot            01 | kind u8: 2, 3, 4 or 6, with the meaning of the key (`session_keys.py`)
                    2 packet u16 | in flight, as above     3, 4 packet u16     6 shard u16 | position i64
    replay          01 | joined u8: 1 it has reached its end | until i64 (µs) | shards u16, each u16 and i64
                    02 | the same | speed u64 (millionths) | at i64 (µs): for one that keeps a pace
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.model.message import ArchivedMessage, Message, archived_message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedShared, place_of
from holdfast.records.fields import RecordReader, blob, i64, text, u8, u16, u32, u64
from holdfast.records.messages import decode_message, encode_message
from holdfast.records.session.progress import encode_places, read_places
from holdfast.records.session.session_keys import DONE, INCOMING, INFLIGHT, RELEASED, SLOT, done_place
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.names import SEPARATOR
from holdfast.topics.subscription import SubscriptionRecord

#: Never change.
VERSION: Final = 1
#: Of a message in flight that a group of a cluster has assigned.
ASSIGNED_VERSION: Final = 2
#: Of a message in flight that came from a lake.
ARCHIVED_VERSION: Final = 3
#: Of a subscription with a share window.
WINDOW_VERSION: Final = 2
#: Of a subscription that begins at a position of each shard.
HEADS_VERSION: Final = 3
#: Of a replay that keeps a pace.
PACED_VERSION: Final = 2
_NO_LOCAL: Final = 0x01
_AS_PUBLISHED: Final = 0x02


class InflightRecord:
    """An outgoing message as it is stored: by its place in the log, or whole if the log does not have it."""

    def __init__(self, owed: Owed, order: int) -> None:
        self.owed: Final = owed
        #: Its place in the order of sending.
        self.order: Final = order


class SlotRecord:
    """What a slot holds: an INFLIGHT, RELEASED or INCOMING packet id, or the place of a message that is DONE."""

    def __init__(
        self,
        kind: int,
        packet_id: int = 0,
        *,
        place: tuple[int, int] = (0, 0),
        inflight: InflightRecord | None = None,
        stored: "StoredInflight | None" = None,
    ) -> None:
        self.kind: Final = kind
        self.packet_id: Final = packet_id
        self.place: Final = place
        #: The message in flight: as it is to be stored, and as it was stored.
        self.inflight: Final = inflight
        self.stored: Final = stored


@dataclass(frozen=True)
class ReplayProgress:
    """How far the replay of a subscription was sent, in each shard.

    `joined` when it has reached the present, or its own end, from which on it delivers nothing.
    """

    sent: dict[int, int] = field(hash=False)
    until_us: int
    _: KW_ONLY
    joined: bool
    #: Millionths; 0 for as fast as the client takes it. And the moment that its pace has come to, 0 for none yet.
    speed: int = 0
    at_us: int = 0


def encode_subscription(record: SubscriptionRecord) -> bytes:
    flags = (_NO_LOCAL if record.no_local else 0) | (_AS_PUBLISHED if record.retain_as_published else 0)
    heads = record.since_heads
    version = HEADS_VERSION if heads is not None else WINDOW_VERSION if record.share_window else VERSION
    parts = [
        u8(version),
        u8(record.qos),
        u8(flags),
        u8(record.retain_handling),
        u32(record.identifier),
        i64(record.since_us),
        u16(record.mount_bytes),
        blob(SEPARATOR.join(record.filter.levels)),
    ]
    if version >= WINDOW_VERSION:
        parts.append(u16(record.share_window))
    if heads is not None:
        parts.append(encode_places(heads))
    return b"".join(parts)


def decode_subscription(raw: bytes, value: bytes) -> SubscriptionRecord:
    fields = RecordReader(value, f"the subscription {raw!r}", HEADS_VERSION)
    qos = fields.u8("the QoS")
    flags = fields.u8("the flags")
    retain_handling = fields.u8("the retain handling")
    identifier = fields.u32("the identifier")
    since_us = fields.i64("the start")
    mount_bytes = fields.u16("the mount point")
    levels = tuple(fields.blob("the levels").split(SEPARATOR))
    share_window = fields.u16("the share window") if fields.version >= WINDOW_VERSION else 0
    heads = read_places(fields) if fields.version >= HEADS_VERSION else None
    fields.end()
    plain = parse_filter(raw)
    return SubscriptionRecord(
        TopicFilter(raw, levels, plain.group, plain.since),
        qos,
        flags & _NO_LOCAL != 0,
        flags & _AS_PUBLISHED != 0,
        retain_handling,
        identifier,
        since_us,
        mount_bytes,
        share_window,
        heads,
    )


def encode_inflight(record: InflightRecord) -> bytes:
    owed = record.owed
    message = owed.message
    shard, position = place_of(owed)
    parts = [u8(VERSION)]
    if isinstance(owed, OwedShared) and owed.revision:
        parts = [u8(ASSIGNED_VERSION), u16(owed.vnode), u64(owed.revision)]
    archived = isinstance(message, ArchivedMessage)
    if archived:
        parts = [u8(ARCHIVED_VERSION), u8(owed.qos)]
    parts.extend([u64(record.order), u8(owed.retain), u16(shard), i64(position)])
    parts.append(u16(len(owed.identifiers)))
    parts.extend([u32(identifier) for identifier in owed.identifiers])
    parts.append(text(owed.group))
    parts.append(blob(message.topic))
    if not position or shard == QUEUE_SHARD or archived:
        parts.append(encode_message(message, 0, 0))
    return b"".join(parts)


class StoredInflight:
    """What an entry in flight says; its message is looked up in the log if it is not given."""

    def __init__(self, value: bytes) -> None:
        fields = RecordReader(value, "a message in flight", ARCHIVED_VERSION)
        archived = fields.version == ARCHIVED_VERSION
        self.qos: Final = fields.u8("the QoS") if archived else 2
        #: Of its assignment; 0 for none.
        self.vnode: Final = fields.u16("the vnode") if fields.version == ASSIGNED_VERSION else 0
        self.revision: Final = fields.u64("the revision") if fields.version == ASSIGNED_VERSION else 0
        self.order: Final = fields.u64("the order")
        self.retain: Final = fields.u8("the retain flag") != 0
        self.shard: Final = fields.u16("the shard")
        self.position_us: Final = fields.i64("the position")
        self.identifiers: Final = tuple([fields.u32("an identifier") for _i in range(fields.u16("the identifiers"))])
        self.group: Final = fields.text("the group")
        self.topic: Final = fields.blob("the topic")
        rest = fields.rest()
        message = decode_message(rest).message if rest else None
        if archived and message is not None:
            message = archived_message(message, self.shard, self.position_us)
        self.message: Final = message

    def owed(self, message: Message) -> Owed:
        """What is in flight, with its message."""
        if self.revision:
            return OwedShared(
                message,
                2,
                identifiers=self.identifiers,
                group=self.group,
                source=message,
                past=False,
                due_us=0,
                vnode=self.vnode,
                revision=self.revision,
            )
        return Owed(message, self.qos, retain=self.retain, identifiers=self.identifiers, group=self.group)


def encode_slot(slot: SlotRecord) -> bytes:
    if slot.kind == DONE:
        shard, position_us = slot.place
        return b"".join((u8(VERSION), u8(DONE), u16(shard), i64(position_us)))
    head = b"".join((u8(VERSION), u8(slot.kind), u16(slot.packet_id)))
    return head if slot.inflight is None else head + encode_inflight(slot.inflight)


def decode_slot(value: bytes) -> SlotRecord:
    fields = RecordReader(value, "a slot of a session", VERSION)
    kind = fields.u8("the kind")
    if kind == DONE:
        shard = fields.u16("the shard")
        slot = SlotRecord(DONE, place=(shard, fields.i64("the position")))
        fields.end()
        return slot
    packet_id = fields.u16("the packet id")
    if kind == INFLIGHT:
        return SlotRecord(INFLIGHT, packet_id, stored=StoredInflight(fields.rest()))
    if kind not in (RELEASED, INCOMING):
        raise PermanentError(f"a slot of a session is of the unknown kind {kind}")
    fields.end()
    return SlotRecord(kind, packet_id)


def slot_of(kind: int, key: bytes, value: bytes) -> SlotRecord:
    """A QoS 2 record, whichever way it is stored."""
    if kind == SLOT:
        return decode_slot(value)
    if kind == DONE:
        return SlotRecord(DONE, place=done_place(key))
    packet_id = key[-2] << 8 | key[-1]
    return SlotRecord(kind, packet_id, stored=StoredInflight(value) if kind == INFLIGHT else None)


def encode_replay(replay: ReplayProgress) -> bytes:
    version = PACED_VERSION if replay.speed else VERSION
    parts = [u8(version), u8(replay.joined), i64(replay.until_us), encode_places(replay.sent)]
    if replay.speed:
        parts.extend([u64(replay.speed), i64(replay.at_us)])
    return b"".join(parts)


def decode_replay(value: bytes) -> ReplayProgress:
    fields = RecordReader(value, "the progress of a replay", PACED_VERSION)
    paced = fields.version == PACED_VERSION
    joined = fields.u8("whether it joined") != 0
    until_us = fields.i64("the end")
    sent = read_places(fields)
    speed = fields.u64("the speed") if paced else 0
    at_us = fields.i64("the moment") if paced else 0
    fields.end()
    return ReplayProgress(sent, until_us, joined=joined, speed=speed, at_us=at_us)
