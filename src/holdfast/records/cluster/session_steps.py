"""A step of a session as an item of a record: which step, and what it stores, in the form in which it is stored.

    step  name                     fields behind: session u16 │ step u8
    ────  ───────────────────────  ──────────────────────────────────────────────────────────────────────────────
    01    keep session             the session (`records/session/session_record.py`) blob
    02    drop session             nothing
    03    keep progress            the progress (`records/session/progress.py`) blob
    04    keep subscription        filter blob │ the subscription (`records/session/sessions.py`) blob
    05    drop subscription        filter blob
    06    keep replay              filter blob │ the replay (`records/session/sessions.py`) blob
    07    keep retained progress   filter blob │ the progress (`records/session/retained_progress.py`) blob
    08    drop retained progress   filter blob
    09    keep group               the group (`records/session/groups.py`) blob
    0a    keep member              session id blob
    0b    drop member              session id blob
    0c    keep in flight           packet u16 │ the message in flight (`records/session/sessions.py`) blob
    0d    release in flight        packet u16
    0e    drop in flight           packet u16 │ shard u16 │ position i64
    0f    keep incoming            packet u16
    10    drop incoming            packet u16
    11    keep assignments         the assignments (`records/session/assignments.py`) blob

Numbers of steps are hexadecimal. They mean the steps of `durable/sessions/session_store.py`. What a step replaces is
not said here, because that is known only where the record is applied.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, u8, u16

#: Never change.
KEEP_SESSION: Final = 0x01
DROP_SESSION: Final = 0x02
KEEP_PROGRESS: Final = 0x03
KEEP_SUBSCRIPTION: Final = 0x04
DROP_SUBSCRIPTION: Final = 0x05
KEEP_REPLAY: Final = 0x06
KEEP_RETAINED: Final = 0x07
DROP_RETAINED: Final = 0x08
KEEP_GROUP: Final = 0x09
KEEP_MEMBER: Final = 0x0A
DROP_MEMBER: Final = 0x0B
KEEP_INFLIGHT: Final = 0x0C
RELEASE_INFLIGHT: Final = 0x0D
DROP_INFLIGHT: Final = 0x0E
KEEP_INCOMING: Final = 0x0F
DROP_INCOMING: Final = 0x10
KEEP_ASSIGNMENTS: Final = 0x11

#: Which fields a step has, by its number.
_NAMED: Final = frozenset(
    {KEEP_SUBSCRIPTION, DROP_SUBSCRIPTION, KEEP_REPLAY, KEEP_RETAINED, DROP_RETAINED, KEEP_MEMBER, DROP_MEMBER}
)
_PACKETS: Final = frozenset({KEEP_INFLIGHT, RELEASE_INFLIGHT, DROP_INFLIGHT, KEEP_INCOMING, DROP_INCOMING})
_VALUED: Final = frozenset(
    {
        KEEP_SESSION,
        KEEP_PROGRESS,
        KEEP_SUBSCRIPTION,
        KEEP_REPLAY,
        KEEP_RETAINED,
        KEEP_GROUP,
        KEEP_INFLIGHT,
        KEEP_ASSIGNMENTS,
    }
)
STEPS: Final = range(KEEP_SESSION, KEEP_ASSIGNMENTS + 1)


class StepItem(ValueRecord):
    """One change of one session. Fields that its step does not have stay empty."""

    def __init__(
        self,
        session: int,
        step: int,
        *,
        packet_id: int = 0,
        shard: int = 0,
        position_us: int = 0,
        name: bytes = b"",
        value: bytes = b"",
    ) -> None:
        #: Its place in the record's table of sessions.
        self.session: Final = session
        self.step: Final = step
        self.packet_id: Final = packet_id
        self.shard: Final = shard
        self.position_us: Final = position_us
        #: A filter, or the session id of a member.
        self.name: Final = name
        self.value: Final = value

    def _fields(self) -> tuple[object, ...]:
        return (self.session, self.step, self.packet_id, self.shard, self.position_us, self.name, self.value)


def encode_step(item: StepItem) -> bytes:
    step = item.step
    if step not in STEPS:
        raise MisuseError(f"{step} is the number of no session step")
    parts = [u16(item.session), u8(step)]
    if step in _PACKETS:
        parts.append(u16(item.packet_id))
    if step == DROP_INFLIGHT:
        parts.extend([u16(item.shard), i64(item.position_us)])
    if step in _NAMED:
        parts.append(blob(item.name))
    if step in _VALUED:
        parts.append(blob(item.value))
    return b"".join(parts)


def read_step(fields: RecordReader) -> StepItem:
    session = fields.u16("the session")
    step = fields.u8("the step")
    if step not in STEPS:
        raise PermanentError(f"an item of a record is the unknown session step {step:02x}")
    packet_id = fields.u16("the packet id") if step in _PACKETS else 0
    shard = fields.u16("the shard") if step == DROP_INFLIGHT else 0
    position_us = fields.i64("the position") if step == DROP_INFLIGHT else 0
    name = fields.blob("the name") if step in _NAMED else b""
    value = fields.blob("the value") if step in _VALUED else b""
    return StepItem(session, step, packet_id=packet_id, shard=shard, position_us=position_us, name=name, value=value)
