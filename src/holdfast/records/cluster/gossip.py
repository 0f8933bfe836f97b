"""What nodes tell each other of their channels, where the registry is `eventual` or `both`; and the lock of a takeover.

gossip    version u8 = 1 │ node u32 │ epoch u64 │ kind u8: 1 changes, 2 whole list, 3 asks for the lists of others
          │ part u16 │ parts u16 │ entries u32, each: session id text │ connection u64; 0: it has ended │ revision u64

request   version u8 = 1 │ act u8: 1 lock, 2 unlock │ session id text │ node u32 │ epoch u64 │ connection u64
answer    version u8 = 1 │ result u8: 1 granted, or unlocked; 2 taken by another; 3 this node does not lead the vnode
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, text, u8, u16, u32, u64

#: Never change.
VERSION: Final = 1
CHANGES: Final = 1
WHOLE: Final = 2
ASKS: Final = 3
LOCK: Final = 1
UNLOCK: Final = 2
GRANTED: Final = 1
TAKEN: Final = 2
NO_LEADER: Final = 3

#: Session id, connection (0: it has ended), revision of its claim.
GossipEntry = tuple[str, int, int]


@dataclass(frozen=True)
class Gossip:
    """A message of one node to all."""

    node: int
    epoch: int
    kind: int
    entries: tuple[GossipEntry, ...] = ()
    #: Of a whole list, from 0.
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class LockRequest:
    """A channel asks for the lock of its session, or gives it back."""

    act: int
    session_id: str
    #: Node, epoch, connection.
    channel: tuple[int, int, int]


def encode_gossip(gossip: Gossip) -> bytes:
    head = (u8(VERSION), u32(gossip.node), u64(gossip.epoch), u8(gossip.kind), u16(gossip.part), u16(gossip.parts))
    entries = [
        text(session_id) + u64(connection) + u64(revision) for session_id, connection, revision in gossip.entries
    ]
    return b"".join((*head, u32(len(entries)), *entries))


def decode_gossip(value: bytes) -> Gossip:
    fields = RecordReader(value, "what a node tells of its channels", VERSION)
    node = fields.u32("the node")
    epoch = fields.u64("the epoch")
    kind = fields.u8("the kind")
    if kind not in (CHANGES, WHOLE, ASKS):
        raise PermanentError(f"what a node tells of its channels has kind {kind}; right would be 1, 2 or 3")
    part = fields.u16("the part")
    parts = fields.u16("the parts")
    count = fields.u32("the entries")
    entries: list[GossipEntry] = []
    for _entry in range(count):
        session_id = fields.text("a session id")
        connection = fields.u64("a connection")
        entries.append((session_id, connection, fields.u64("a revision")))
    fields.end()
    return Gossip(node, epoch, kind, tuple(entries), part, parts)


def encode_lock(request: LockRequest) -> bytes:
    node, epoch, connection = request.channel
    return b"".join((u8(VERSION), u8(request.act), text(request.session_id), u32(node), u64(epoch), u64(connection)))


def decode_lock(value: bytes) -> LockRequest:
    fields = RecordReader(value, "a request for a lock", VERSION)
    act = fields.u8("the act")
    if act not in (LOCK, UNLOCK):
        raise PermanentError(f"a request for a lock has act {act}; right would be {LOCK} or {UNLOCK}")
    session_id = fields.text("the session id")
    node = fields.u32("the node")
    epoch = fields.u64("the epoch")
    request = LockRequest(act, session_id, (node, epoch, fields.u64("the connection")))
    fields.end()
    return request


def encode_lock_answer(result: int) -> bytes:
    return u8(VERSION) + u8(result)


def decode_lock_answer(value: bytes) -> int:
    fields = RecordReader(value, "the answer to a lock", VERSION)
    result = fields.u8("the result")
    fields.end()
    return result
