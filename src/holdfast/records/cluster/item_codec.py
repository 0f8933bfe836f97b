"""Items of records to bytes and back. Their fields stand in `items.py`."""

from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.records.cluster.items import (
    Assign,
    Border,
    ChangeSettings,
    Claim,
    Closed,
    DropGeneration,
    Expire,
    Holders,
    Horizon,
    Item,
    Lead,
    Level,
    MessageItem,
    ReadRegistration,
    Release,
    Resign,
    Tick,
    Unassign,
    VersionParts,
    WillDue,
)
from holdfast.records.cluster.session_steps import StepItem, encode_step, read_step
from holdfast.records.cluster.settings import decode_settings, encode_settings
from holdfast.records.fields import RecordReader, blob, i64, text, u8, u16, u32, u64
from holdfast.records.generations import encode_parameters, read_parameters
from holdfast.records.messages import decode_message, encode_message

#: Never change.
VERSION: Final = 1
MESSAGE: Final = 0x01
STEP: Final = 0x02
CLAIM: Final = 0x10
RELEASE: Final = 0x11
READ: Final = 0x12
WILL: Final = 0x13
EXPIRE: Final = 0x14
CLOSED: Final = 0x20
LEAD: Final = 0x21
RESIGN: Final = 0x22
TICK: Final = 0x23
ASSIGN: Final = 0x30
UNASSIGN: Final = 0x31
BORDER: Final = 0x40
DROP: Final = 0x41
HORIZON: Final = 0x42
SETTINGS: Final = 0x50
LEVEL_ITEM: Final = 0x51
HOLDERS: Final = 0x52

_PACKET: Final = 0x01
_NUMBER: Final = 0x02
_USER: Final = 0x04
_HAS_VERSION: Final = 0x01
_HAS_EXPECTED: Final = 0x02

_MESSAGE_KIND: Final = bytes((MESSAGE,))
_VERSION_BYTE: Final = bytes((VERSION,))
#: Version, session and flags.
_MESSAGE_HEAD_BYTES: Final = 4
_FLAGS: Final = [bytes((flags,)) for flags in range(8)]

#: How errors name an item, by its kind.
_NAMES: Final = [f"an item of kind {kind:02x}" for kind in range(256)]


def encode_item(item: Item) -> bytes:
    """Kind, length and fields: the form in which items follow each other in a record."""
    if isinstance(item, MessageItem):
        return encode_message_item(item.session, item.message, item.packet_id, item.number, item.user)
    kind, body = _encode(item)
    return b"".join((u8(kind), u32(len(body) + 1), u8(VERSION), body))


def encode_message_item(session: int, message: Message, packet_id: int, number: int, user: str | None) -> bytes:
    """As `encode_item` for a `MessageItem` with these fields, without the object: it runs once for each message."""
    body = encode_message(message, 0, 0)
    ids = b""
    flags = 0
    if packet_id or number >= 0 or user is not None:
        if packet_id:
            flags |= _PACKET
            ids = u16(packet_id)
        if number >= 0:
            flags |= _NUMBER
            ids += i64(number)
        if user is not None:
            flags |= _USER
            ids += text(user)
    size = _MESSAGE_HEAD_BYTES + len(ids) + len(body)
    return b"".join((_MESSAGE_KIND, u32(size), _VERSION_BYTE, u16(session), _FLAGS[flags], ids, body))


def _encode(item: Item) -> tuple[int, bytes]:
    if isinstance(item, StepItem):
        return STEP, encode_step(item)
    if isinstance(item, Claim):
        return CLAIM, _encode_claim(item)
    if isinstance(item, Release):
        return RELEASE, text(item.session_id) + u64(item.connection_id) + u8(item.goodbye)
    if isinstance(item, ReadRegistration):
        return READ, text(item.session_id)
    if isinstance(item, WillDue):
        return WILL, text(item.session_id) + u64(item.revision)
    if isinstance(item, Expire):
        return EXPIRE, text(item.session_id) + i64(item.ends_us)
    if isinstance(item, Closed):
        return CLOSED, u32(item.node) + u64(item.before)
    if isinstance(item, Lead):
        return LEAD, b""
    if isinstance(item, Resign):
        return RESIGN, b""
    if isinstance(item, Tick):
        return TICK, b""
    if isinstance(item, Assign):
        place = u16(item.shard) + i64(item.position_us)
        return ASSIGN, text(item.group) + place + text(item.member) + u64(item.member_revision)
    if isinstance(item, Unassign):
        return UNASSIGN, text(item.group) + u16(item.shard) + i64(item.position_us)
    if isinstance(item, Border):
        head = text(item.zone) + u32(item.number) + i64(item.not_before_us) + text(item.layout)
        return BORDER, head + encode_parameters(item.parameters) + blob(item.patterns)
    if isinstance(item, DropGeneration):
        return DROP, text(item.zone) + u32(item.number)
    if isinstance(item, Horizon):
        return HORIZON, blob(item.topic) + i64(item.version)
    if isinstance(item, ChangeSettings):
        return SETTINGS, u64(item.control) + encode_settings(item.settings)
    if isinstance(item, Level):
        return LEVEL_ITEM, u16(item.level)
    if isinstance(item, Holders):
        return HOLDERS, u64(item.control) + u16(len(item.nodes)) + b"".join([u32(node) for node in item.nodes])
    raise MisuseError(f"{type(item).__name__} is no item of a record")


def _encode_claim(claim: Claim) -> bytes:
    version, expected = claim.version, claim.expected
    flags = (0 if version is None else _HAS_VERSION) | (0 if expected is None else _HAS_EXPECTED)
    parts = [text(claim.session_id), u64(claim.connection_id), u8(flags)]
    if version is not None:
        parts.extend([u64(version[0]), u32(version[1]), u64(version[2])])
    if expected is not None:
        parts.append(u64(expected))
    return b"".join(parts)


def decode_item(kind: int, value: bytes) -> Item:
    """The item of a kind; PermanentError if it is of an unknown kind or version, or damaged."""
    fields = RecordReader(value, _NAMES[kind], VERSION)
    item = _decode(kind, fields)
    fields.end()
    return item


def _decode(kind: int, fields: RecordReader) -> Item:
    if kind == MESSAGE:
        return _read_message_item(fields)
    if kind == STEP:
        return read_step(fields)
    if kind == CLAIM:
        return _read_claim(fields)
    if kind == RELEASE:
        session_id = fields.text("the session")
        connection_id = fields.u64("the connection")
        return Release(session_id, connection_id, _flags(fields, 0x01) != 0)
    if kind == READ:
        return ReadRegistration(fields.text("the session"))
    if kind == WILL:
        session_id = fields.text("the session")
        return WillDue(session_id, fields.u64("the revision"))
    if kind == EXPIRE:
        session_id = fields.text("the session")
        return Expire(session_id, fields.i64("the end"))
    if kind == CLOSED:
        node = fields.u32("the node")
        return Closed(node, fields.u64("the epoch"))
    if kind == LEAD:
        return Lead()
    if kind == RESIGN:
        return Resign()
    if kind == TICK:
        return Tick()
    return _decode_of_leader(kind, fields)


def _decode_of_leader(kind: int, fields: RecordReader) -> Item:
    if kind in (ASSIGN, UNASSIGN):
        group = fields.text("the group")
        shard = fields.u16("the shard")
        position_us = fields.i64("the position")
        if kind == UNASSIGN:
            return Unassign(group, shard, position_us)
        member = fields.text("the member")
        return Assign(group, shard, position_us, member, fields.u64("the revision"))
    if kind == BORDER:
        zone = fields.text("the zone")
        number = fields.u32("the number")
        not_before_us = fields.i64("the start")
        layout = fields.text("the layout")
        parameters = read_parameters(fields)
        return Border(zone, number, layout, parameters, fields.blob("the patterns"), not_before_us)
    if kind == DROP:
        zone = fields.text("the zone")
        return DropGeneration(zone, fields.u32("the number"))
    if kind == HORIZON:
        topic = fields.blob("the topic")
        return Horizon(topic, fields.i64("the version"))
    if kind == SETTINGS:
        control = fields.u64("the sequence")
        return ChangeSettings(control, decode_settings(fields.rest()))
    if kind == LEVEL_ITEM:
        return Level(fields.u16("the level"))
    if kind == HOLDERS:
        control = fields.u64("the sequence")
        nodes = tuple([fields.u32("a node") for _node in range(fields.u16("the nodes"))])
        return Holders(control, nodes)
    raise PermanentError(f"an item of a record is of the unknown kind {kind:02x}")


def _read_message_item(fields: RecordReader) -> MessageItem:
    session = fields.u16("the session")
    flags = _flags(fields, _PACKET | _NUMBER | _USER)
    packet_id = fields.u16("the packet id") if flags & _PACKET else 0
    number = fields.i64("the number") if flags & _NUMBER else -1
    user = fields.text("the user") if flags & _USER else None
    return MessageItem(session, decode_message(fields.rest()).message, packet_id=packet_id, number=number, user=user)


def _read_claim(fields: RecordReader) -> Claim:
    session_id = fields.text("the session")
    connection_id = fields.u64("the connection")
    flags = _flags(fields, _HAS_VERSION | _HAS_EXPECTED)
    version: VersionParts | None = None
    if flags & _HAS_VERSION:
        connected_ms = fields.u64("the time of connecting")
        node = fields.u32("the node of the version")
        version = (connected_ms, node, fields.u64("the counter"))
    expected = fields.u64("the revision expected") if flags & _HAS_EXPECTED else None
    return Claim(session_id, connection_id, version, expected)


def _flags(fields: RecordReader, known: int) -> int:
    flags = fields.u8("the flags")
    if flags & ~known:
        raise PermanentError(f"an item of a record has flags 0x{flags:02X}, which no version wrote")
    return flags
