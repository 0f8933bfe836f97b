"""What a session has done of the QoS 2 messages that groups of one vnode have assigned to it, in a cluster.

    01 | client | 0c | vnode u16         the row of a session; numbers in keys are big-endian

    row       01 | vnode u16 | settled u64 | done u32, each u64

Assignments are named by their revision, which is that of the `Assign` in the group's vnode. All up to `settled` are
done, and of those above, the ones that are listed. So an owner of the session that learns of an assignment late knows
that it is done, whatever became of the assignment meanwhile.
"""

from typing import Final

from holdfast.records.fields import RecordReader, ValueRecord, key_u16, u8, u16, u32, u64
from holdfast.records.session.session_keys import client_prefix

#: Never change.
VERSION: Final = 1


class DoneAssignments(ValueRecord):
    """The assignments of one group vnode that a session has done. Never changes; a step replaces it."""

    def __init__(self, vnode: int, settled: int, done: tuple[int, ...]) -> None:
        self.vnode: Final = vnode
        self.settled: Final = settled
        #: Above `settled`, in order.
        self.done: Final = done

    def has(self, revision: int) -> bool:
        return revision <= self.settled or revision in self.done

    def _fields(self) -> tuple[object, ...]:
        return (self.vnode, self.settled, self.done)


def assignments_key(client_id: str, vnode: int) -> bytes:
    return client_prefix(client_id) + b"\x0c" + key_u16(vnode)


def assignments_range(client_id: str) -> tuple[bytes, bytes]:
    """The range [lo, hi) of a session's rows."""
    return client_prefix(client_id) + b"\x0c", client_prefix(client_id) + b"\x0d"


def encode_assignments(row: DoneAssignments) -> bytes:
    head = (u8(VERSION), u16(row.vnode), u64(row.settled), u32(len(row.done)))
    return b"".join((*head, *[u64(revision) for revision in row.done]))


def decode_assignments(value: bytes) -> DoneAssignments:
    fields = RecordReader(value, "the assignments of a session", VERSION)
    vnode = fields.u16("the vnode")
    settled = fields.u64("what is settled")
    row = DoneAssignments(vnode, settled, tuple([fields.u64("a revision") for _one in range(fields.u32("the done"))]))
    fields.end()
    return row
