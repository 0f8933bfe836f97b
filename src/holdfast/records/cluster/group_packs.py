"""What the leader of a group's vnode and the nodes of its members tell each other, over core NATS: reports and packs.

    report   02 │ kind u8 = 1 │ node u32 │ epoch u64 │ vnode u16 │ lead u64 │ number u64 │ stream u64 │ taken u64
             │ known u64 │ members u32, each a member │ first u64 │ results u32, each a result
    member   group text │ session id text │ revision u64 │ QoS u8 │ free u16 │ in flight u16 │ settled u64
             │ flags u8: 1 since │ [shards u16, each u16 and i64] │ steal after u64 (µs) │ replay from i64 (µs)
             │ ask u64
    result   group text │ shard u16 │ position i64 │ outcome u8: 1 done, 2 back
    pack     02 │ kind u8 = 2 │ node u32 │ vnode u16 │ lead u64 │ epoch u64 │ stream u64 │ heard u64
             │ first u64 │ references u32, each a reference │ messages u32, each a message
             │ confirmed u32, each u64
    reference  group text │ session id text │ revision u64 │ shard u16 │ position i64
    message  group text │ session id text │ revision u64 │ the message (`records/messages.py`) blob

A report goes from a node to a leader, a pack back. Either may be lost: references and results are numbered, and come
again until the other side has said up to which number it has them (`taken`, `heard`). `stream` names the numbering of
references. `lead` is the revision of the leader's `Lead`, `epoch` that of the member's node, and `known` the revision
up to which the node has applied the group's vnode. A group is named by the session id that it is stored under. A
message that is sent itself has QoS 0, and comes once at most. A SUBSCRIBE that waits for its group asks under a number
of its node's own, in every report until a pack confirms it. Version 1 had neither; nothing of these is ever stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.fields import RecordReader, blob, i64, text, u8, u16, u32, u64
from holdfast.records.messages import decode_message, encode_message
from holdfast.records.session.progress import encode_places, read_places

#: Never change.
VERSION: Final = 2
_REPORT: Final = 1
_PACK: Final = 2
_SINCE: Final = 0x01
_DONE: Final = 1
_BACK: Final = 2
#: More than this fits into no field.
MAX_FREE: Final = 65_535
#: References, results and messages of one packet: far below what a server takes.
MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 1 << 20
#: What one takes besides its texts, about.
_ENTRY_BYTES: Final = 32


@dataclass(frozen=True)
class MemberState:
    """A member of a group that is connected to the reporting node."""

    group: str
    session_id: str
    #: Of the claim that began its session: with the session id it names the member.
    revision: int
    qos: int
    #: How many more messages it takes, as of what the report says to be taken and known.
    free: int
    #: How many it has not acknowledged, of all its subscriptions.
    in_flight: int = 0
    #: Assignments up to this revision are done.
    settled: int = 0
    #: Where its subscription begins, by shard; None if the group lists it already, by the tables of its node, and no
    #: SUBSCRIBE waits.
    since: dict[int, int] | None = None
    #: How long QoS 1 work may rest with a member, if it has asked for that; else 0.
    steal_after_us: int = 0
    #: Where in the past it wants the group to begin; 0 for the present, which is what `since` says.
    replay_from_us: int = 0
    #: The number of the SUBSCRIBE that waits until the group lists it; 0 for none.
    ask: int = 0


@dataclass(frozen=True)
class WorkResult:
    """What has become of a message that a member was given with QoS 0 or 1."""

    group: str
    shard: int
    position_us: int
    #: Else it goes back to the group.
    is_done: bool


@dataclass(frozen=True)
class GroupReport:
    """The members of a vnode's groups at one node, and what they have done."""

    node: int
    epoch: int
    vnode: int
    lead: int
    number: int
    stream: int
    taken: int
    known: int
    members: tuple[MemberState, ...]
    first_result: int
    results: tuple[WorkResult, ...]


@dataclass(frozen=True)
class Reference:
    """A message that a member gets: its place in the log."""

    group: str
    session_id: str
    revision: int
    shard: int
    position_us: int


@dataclass(frozen=True)
class GroupMessage:
    """A message of QoS 0 that a member gets."""

    group: str
    session_id: str
    revision: int
    message: Message


@dataclass(frozen=True)
class GroupPack:
    """What the members at one node are given."""

    node: int
    vnode: int
    lead: int
    epoch: int
    stream: int
    heard: int
    first: int
    references: tuple[Reference, ...]
    messages: tuple[GroupMessage, ...] = ()
    #: Numbers of SUBSCRIBEs whose groups list their members.
    confirmed: tuple[int, ...] = ()


_Entry = TypeVar("_Entry", Reference, WorkResult, GroupMessage)


def bounded(entries: Iterable[_Entry]) -> tuple[_Entry, ...]:
    """The first entries of a packet, as many as fit; at least one. The rest follows in another one."""
    found: list[_Entry] = []
    size_bytes = 0
    for entry in entries:
        size_bytes += _ENTRY_BYTES + len(entry.group)
        if not isinstance(entry, WorkResult):
            size_bytes += len(entry.session_id)
        if isinstance(entry, GroupMessage):
            size_bytes += len(entry.message.topic) + len(entry.message.payload) + len(entry.message.properties)
        if found and (size_bytes > MAX_BYTES or len(found) == MAX_ENTRIES):
            break
        found.append(entry)
    return tuple(found)


def encode_report(report: GroupReport) -> bytes:
    head = (u8(VERSION), u8(_REPORT), u32(report.node), u64(report.epoch), u16(report.vnode), u64(report.lead))
    numbers = (u64(report.number), u64(report.stream), u64(report.taken), u64(report.known))
    parts = [*head, *numbers, u32(len(report.members))]
    for member in report.members:
        parts += [text(member.group), text(member.session_id), u64(member.revision), u8(member.qos), u16(member.free)]
        parts += [u16(member.in_flight), u64(member.settled), u8(0 if member.since is None else _SINCE)]
        if member.since is not None:
            parts.append(encode_places(member.since))
        parts += [u64(member.steal_after_us), i64(member.replay_from_us), u64(member.ask)]
    parts += [u64(report.first_result), u32(len(report.results))]
    for result in report.results:
        outcome = _DONE if result.is_done else _BACK
        parts += [text(result.group), u16(result.shard), i64(result.position_us), u8(outcome)]
    return b"".join(parts)


def encode_pack(pack: GroupPack) -> bytes:
    head = (u8(VERSION), u8(_PACK), u32(pack.node), u16(pack.vnode), u64(pack.lead), u64(pack.epoch))
    parts = [*head, u64(pack.stream), u64(pack.heard), u64(pack.first), u32(len(pack.references))]
    for reference in pack.references:
        parts += [text(reference.group), text(reference.session_id), u64(reference.revision)]
        parts += [u16(reference.shard), i64(reference.position_us)]
    parts.append(u32(len(pack.messages)))
    for sent in pack.messages:
        parts += [text(sent.group), text(sent.session_id), u64(sent.revision), blob(encode_message(sent.message, 0, 0))]
    parts += [u32(len(pack.confirmed)), *[u64(ask) for ask in pack.confirmed]]
    return b"".join(parts)


def decode_group_packet(value: bytes) -> GroupReport | GroupPack:
    """A report or a pack; PermanentError if it is neither, damaged, or of a later version."""
    fields = RecordReader(value, "a report or pack of groups", VERSION)
    kind = fields.u8("the kind")
    if kind == _REPORT:
        packet: GroupReport | GroupPack = _read_report(fields)
    elif kind == _PACK:
        packet = _read_pack(fields)
    else:
        raise PermanentError(f"a packet between nodes that is about groups is of the unknown kind {kind}")
    fields.end()
    return packet


def _read_report(fields: RecordReader) -> GroupReport:
    node = fields.u32("the node")
    epoch = fields.u64("the epoch")
    vnode = fields.u16("the vnode")
    lead = fields.u64("the lead")
    number = fields.u64("the number")
    stream = fields.u64("the stream")
    taken = fields.u64("what is taken")
    known = fields.u64("what is known")
    members = tuple([_read_member(fields) for _member in range(fields.u32("the members"))])
    first = fields.u64("the first result")
    results = tuple([_read_result(fields) for _result in range(fields.u32("the results"))])
    return GroupReport(node, epoch, vnode, lead, number, stream, taken, known, members, first, results)


def _read_member(fields: RecordReader) -> MemberState:
    group = fields.text("the group")
    session_id = fields.text("the member")
    revision = fields.u64("its revision")
    qos = fields.u8("its QoS")
    free = fields.u16("its room")
    in_flight = fields.u16("what it has in flight")
    settled = fields.u64("what is settled")
    since = read_places(fields) if fields.u8("the flags") & _SINCE else None
    steal_after_us = fields.u64("the time before stealing")
    from_us = fields.i64("the start")
    ask = fields.u64("its question") if fields.version > 1 else 0
    return MemberState(group, session_id, revision, qos, free, in_flight, settled, since, steal_after_us, from_us, ask)


def _read_result(fields: RecordReader) -> WorkResult:
    group = fields.text("the group")
    shard = fields.u16("the shard")
    position_us = fields.i64("the position")
    outcome = fields.u8("the outcome")
    if outcome not in (_DONE, _BACK):
        raise PermanentError(f"a message of a group has the unknown outcome {outcome}")
    return WorkResult(group, shard, position_us, outcome == _DONE)


def _read_pack(fields: RecordReader) -> GroupPack:
    node = fields.u32("the node")
    vnode = fields.u16("the vnode")
    lead = fields.u64("the lead")
    epoch = fields.u64("the epoch")
    stream = fields.u64("the stream")
    heard = fields.u64("what was heard")
    first = fields.u64("the first reference")
    references = tuple([_read_reference(fields) for _reference in range(fields.u32("the references"))])
    messages = tuple([_read_message(fields) for _message in range(fields.u32("the messages"))])
    asks = fields.u32("the confirmations") if fields.version > 1 else 0
    confirmed = tuple([fields.u64("a confirmation") for _ask in range(asks)])
    return GroupPack(node, vnode, lead, epoch, stream, heard, first, references, messages, confirmed)


def _read_reference(fields: RecordReader) -> Reference:
    group = fields.text("the group")
    session_id = fields.text("the member")
    revision = fields.u64("its revision")
    shard = fields.u16("the shard")
    return Reference(group, session_id, revision, shard, fields.i64("the position"))


def _read_message(fields: RecordReader) -> GroupMessage:
    group = fields.text("the group")
    session_id = fields.text("the member")
    revision = fields.u64("its revision")
    return GroupMessage(group, session_id, revision, decode_message(fields.blob("the message")).message)
