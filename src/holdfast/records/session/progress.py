"""The progress of a session or group as it is stored: how far it was sent its messages, and what is unacknowledged.

    01  last packet id u16 | shards u16, each u16 and i64 | entries u32, each
        packet u16, QoS u8, shard u16, position i64
    02  the same, but each entry
        packet u16, QoS u8, retained u8: 0 shard u16, position i64; 1 a place (`retained_progress.py`)
    03  the same, but each entry
        head u8 | [packet u16] | [shard u16] | [step 1, 2, 4 or 8 bytes, or a place]
    04  the same, of a group: the entries are what it has given out, or holds, and no member has acknowledged.
        Packet ids count from 1 and mean nothing

The head of an entry says what follows it:

    bit 0      QoS 2, else QoS 1. Also a message of a lake, with either: it says nothing but its place in the order of
               sending, and the message in flight that is stored under the packet id says the rest
    bit 1      the packet id; without it, it is one more than that of the entry before
    bit 2      the shard; without it, it is that of the entry before
    bit 3      a retained message: its place, and neither shard nor step
    bits 4, 5  the bytes of the step: 1, 2, 4 or 8. The position is so much more than that of the entry before (signed)

Before the first entry packet id, shard and position are 0. Messages in flight mostly have consecutive packet ids and
positions close to each other, so an entry is 2 or 3 bytes, and never more than `MAX_ENTRY_BYTES` unless it is of a
retained message. Version 3 is written, and 4 for a group with entries; the others are read.
"""

from collections.abc import Mapping
from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, ValueRecord, i64, u16
from holdfast.records.session.retained_progress import RetainedPlace, encode_place, read_place

#: Never change.
RETAINED_VERSION: Final = 2
VERSION: Final = 3
GROUP_VERSION: Final = 4
#: Of the head of an entry. Never change.
_QOS_2: Final = 0x01
_HAS_PACKET: Final = 0x02
_HAS_SHARD: Final = 0x04
_RETAINED: Final = 0x08
_STEP_16: Final = 0x10
_STEP_32: Final = 0x20
_STEP_64: Final = 0x30
_ALL: Final = 0x3F

#: The most bytes of an entry that is no retained message.
MAX_ENTRY_BYTES: Final = 13
#: The most bytes of everything before the first entry, without shards, and of each shard.
HEAD_BYTES: Final = 9
SHARD_BYTES: Final = 10


class ProgressEntry(ValueRecord):
    """A message that was sent and is not acknowledged."""

    def __init__(
        self, packet_id: int, qos: int, shard: int, position_us: int, retained: RetainedPlace | None = None
    ) -> None:
        self.packet_id: Final = packet_id
        self.qos: Final = qos
        self.shard: Final = shard
        self.position_us: Final = position_us
        #: Where it is found if it was a retained message, which has no place in the log.
        self.retained: Final = retained

    def _fields(self) -> tuple[object, ...]:
        return (self.packet_id, self.qos, self.shard, self.position_us, self.retained)


class GivenOut:
    """What a group has given out to its members: everything up to a position in each shard, and what is open of it."""

    def __init__(self, up_to: dict[int, int], unacknowledged: set[tuple[int, int]]) -> None:
        self.up_to: Final = up_to
        #: What no member has acknowledged, as (shard, position).
        self.unacknowledged: Final = unacknowledged

    def is_done(self, shard: int, position_us: int) -> bool:
        """Whether a member has acknowledged the message at a position."""
        return position_us <= self.up_to.get(shard, 0) and (shard, position_us) not in self.unacknowledged


class Progress:
    """How far a session was sent its messages: up to a position in each shard, with exceptions below it."""

    def __init__(
        self,
        sent: dict[int, int],
        unacknowledged: list[ProgressEntry],
        last_packet_id: int,
        given_out: GivenOut | None = None,
    ) -> None:
        #: Of a group: up to here, nothing is open.
        self.sent: Final = sent
        #: In the order of sending.
        self.unacknowledged: Final = unacknowledged
        #: Packet ids are given out behind this one after a restart: none up to it is used for another message.
        self.last_packet_id: Final = last_packet_id
        #: Of a group: what is done and what is open above `sent`. None if nothing is.
        self.given_out: Final = given_out

    def is_done(self, shard: int, position_us: int) -> bool:
        """Whether the message at a position was sent and, if it is of a group, acknowledged."""
        if position_us <= self.sent.get(shard, 0):
            return True
        return self.given_out is not None and self.given_out.is_done(shard, position_us)


class ProgressWriter:
    """Encodes a progress entry by entry, without an object for each: a commit may take many records along."""

    def __init__(self) -> None:
        self._entries: Final = BytesWriter()
        self._count = 0
        self._packet_id = 0
        self._shard = 0
        self._position = 0

    def add(self, packet_id: int, qos: int, shard: int, position: int) -> None:
        """Add an entry. Requires: the order of sending; QoS 1 or 2."""
        entries = self._entries
        step = position - self._position
        head = _QOS_2 if qos == 2 else 0
        if packet_id != self._packet_id + 1:
            head |= _HAS_PACKET
        if shard != self._shard:
            head |= _HAS_SHARD
        if -0x80 <= step < 0x80:
            pass
        elif -0x8000 <= step < 0x8000:
            head |= _STEP_16
        elif -0x80000000 <= step < 0x80000000:
            head |= _STEP_32
        else:
            head |= _STEP_64
        entries.append(head)
        if head & _HAS_PACKET:
            write_i16_le(entries, _signed16(packet_id))
        if head & _HAS_SHARD:
            write_i16_le(entries, _signed16(shard))
        size = head & _STEP_64
        if size == 0:
            entries.append(step & 0xFF)
        elif size == _STEP_16:
            write_i16_le(entries, step)
        elif size == _STEP_32:
            write_i32_le(entries, step)
        else:
            write_i64_le(entries, step)
        self._count += 1
        self._packet_id = packet_id
        self._shard = shard
        self._position = position

    def add_retained(self, packet_id: int, qos: int, place: RetainedPlace) -> None:
        """Add a retained message. Requires: the order of sending; QoS 1 or 2."""
        entries = self._entries
        head = _RETAINED | (_QOS_2 if qos == 2 else 0)
        if packet_id != self._packet_id + 1:
            head |= _HAS_PACKET
        entries.append(head)
        if head & _HAS_PACKET:
            write_i16_le(entries, _signed16(packet_id))
        entries.write(encode_place(place))
        self._count += 1
        self._packet_id = packet_id

    def record(self, sent: dict[int, int], last_packet_id: int, version: int = VERSION) -> bytes:
        """The whole record."""
        head = BytesWriter()
        head.append(version)
        write_i16_le(head, _signed16(last_packet_id))
        write_i16_le(head, _signed16(len(sent)))
        for shard in sorted(sent) if len(sent) > 1 else sent:
            write_i16_le(head, _signed16(shard))
            write_i64_le(head, sent[shard])
        write_i32_le(head, self._count)
        if self._count:
            head.write(self._entries.getvalue())
        return head.getvalue()


class GroupProgressWriter:
    """Encodes the progress of a group: how far it has given out its messages, and what of that is open."""

    def __init__(self, up_to: dict[int, int]) -> None:
        self._up_to: Final = up_to
        #: Up to here, nothing is open.
        self.sent: Final = dict(up_to)
        self._entries: Final = ProgressWriter()
        self._count = 0

    def add(self, shard: int, position_us: int) -> None:
        """A message that no member has acknowledged. One that is in no log, or not given out yet, does not count."""
        if 0 < position_us <= self._up_to.get(shard, 0):
            self._count += 1
            self._entries.add(self._count, 1, shard, position_us)
            if position_us <= self.sent[shard]:
                self.sent[shard] = position_us - 1

    def record(self) -> bytes:
        """The whole record."""
        return self._entries.record(self._up_to, 0, GROUP_VERSION if self._count else VERSION)


def encode_progress(progress: Progress) -> bytes:
    if progress.given_out is not None:
        group = GroupProgressWriter(progress.given_out.up_to)
        for shard, position_us in sorted(progress.given_out.unacknowledged):
            group.add(shard, position_us)
        return group.record()
    writer = ProgressWriter()
    for entry in progress.unacknowledged:
        if entry.retained is None:
            writer.add(entry.packet_id, entry.qos, entry.shard, entry.position_us)
        else:
            writer.add_retained(entry.packet_id, entry.qos, entry.retained)
    return writer.record(progress.sent, progress.last_packet_id)


def decode_progress(value: bytes) -> Progress:
    fields = RecordReader(value, "the progress of a session", GROUP_VERSION)
    last_packet_id = fields.u16("the last packet id")
    sent = read_places(fields)
    count = fields.u32("the entries")
    entries = _read_compact(fields, count) if fields.version >= VERSION else _read_plain(fields, count)
    fields.end()
    if fields.version == GROUP_VERSION:
        return _of_group(sent, entries)
    return Progress(sent, entries, last_packet_id)


def _of_group(up_to: dict[int, int], entries: list[ProgressEntry]) -> Progress:
    sent = dict(up_to)
    for entry in entries:
        sent[entry.shard] = min(sent.get(entry.shard, 0), entry.position_us - 1)
    return Progress(sent, [], 0, GivenOut(up_to, {(entry.shard, entry.position_us) for entry in entries}))


def _read_plain(fields: RecordReader, count: int) -> list[ProgressEntry]:
    """Entries of versions 1 and 2."""
    entries: list[ProgressEntry] = []
    for _entry in range(count):
        packet_id = fields.u16("a packet id")
        qos = fields.u8("a QoS")
        if fields.version == RETAINED_VERSION and fields.u8("whether it was retained"):
            entries.append(ProgressEntry(packet_id, qos, 0, 0, read_place(fields)))
            continue
        shard = fields.u16("a shard")
        entries.append(ProgressEntry(packet_id, qos, shard, fields.i64("a position")))
    return entries


def _read_compact(fields: RecordReader, count: int) -> list[ProgressEntry]:
    """Entries of versions 3 and 4."""
    entries: list[ProgressEntry] = []
    packet_id = shard = position = 0
    for _entry in range(count):
        head = fields.u8("an entry")
        if head > _ALL:
            raise PermanentError(f"the progress of a session has an entry of the unknown shape {head}")
        qos = 2 if head & _QOS_2 else 1
        packet_id = fields.u16("a packet id") if head & _HAS_PACKET else packet_id + 1
        if head & _RETAINED:
            entries.append(ProgressEntry(packet_id, qos, 0, 0, read_place(fields)))
            continue
        if head & _HAS_SHARD:
            shard = fields.u16("a shard")
        position += _read_step(fields, head & _STEP_64)
        entries.append(ProgressEntry(packet_id, qos, shard, position))
    return entries


def _read_step(fields: RecordReader, size: int) -> int:
    if size == _STEP_64:
        return fields.i64("a position")
    if size == _STEP_32:
        return (fields.u32("a position") ^ 0x80000000) - 0x80000000
    if size == _STEP_16:
        return (fields.u16("a position") ^ 0x8000) - 0x8000
    return (fields.u8("a position") ^ 0x80) - 0x80


def encode_places(sent: Mapping[int, int]) -> bytes:
    """Positions by shard, as a part of a record."""
    parts = [u16(len(sent))]
    for shard in sorted(sent):
        parts.append(u16(shard))
        parts.append(i64(sent[shard]))
    return b"".join(parts)


def read_places(fields: RecordReader) -> dict[int, int]:
    sent: dict[int, int] = {}
    for _shard in range(fields.u16("the shards")):
        shard = fields.u16("a shard")
        sent[shard] = fields.i64("a position")
    return sent


def _signed16(value: int) -> int:
    """The number with the same two bytes that a signed field takes."""
    return value - 0x10000 if value >= 0x8000 else value
