"""The record of a session itself: what is kept of it besides its lists (see `sessions.py` for those).

    01 | expiry u32 (s) | offline i64 (µs, 0: connected) | flags u8: 1 a will follows, 2 cut off
       | QoS u8 | retain u8 | delay u32 | expiry i64 | topic blob | properties blob | payload blob
       flag 4, behind that: the backend of its queue text | the first number that is for it u64
    02 | the same | the user whose it is text; empty for clients without a user name
    03 | the same | the revision u64 of the claim that began it: for sessions of a cluster

A record of version 1 does not say whose it is. Groups have it, and sessions that no user has resumed since.
"""

from typing import Final

from holdfast.model.will import StoredWill
from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, text, u8, u32, u64

#: Never change.
VERSION: Final = 1
#: Of a record that names its user.
OWNED_VERSION: Final = 2
#: Of a record that names the claim that began the session.
CLAIMED_VERSION: Final = 3
_WILL: Final = 0x01
_CUT_OFF: Final = 0x02
_QUEUE: Final = 0x04


class SessionRecord(ValueRecord):
    """What is kept of a session besides its lists. Never changes; a step replaces it."""

    def __init__(
        self,
        *,
        expiry_s: int,
        disconnected_us: int,
        will: StoredWill | None = None,
        cut_off: bool = False,
        queue: str = "",
        begun: int = 0,
        user: str | None = None,
        revision: int = 0,
    ) -> None:
        self.expiry_s: Final = expiry_s
        #: In a cluster: the revision of the claim that began the session. 0 without a cluster, or if it is not known.
        self.revision: Final = revision
        #: The backend of its queue; empty if it follows the log. It keeps the one it began with.
        self.queue: Final = queue
        #: The user whose session it is, empty for a client without a user name; None if that was not stored.
        self.user: Final = user
        #: Entries of its queue with a number below this are of an earlier session.
        self.begun: Final = begun
        #: Its last connection ended with the broker: how far it was sent is not known exactly.
        self.cut_off: Final = cut_off
        #: Wall time at which its last connection ended; 0 while it has one.
        self.disconnected_us: Final = disconnected_us
        #: To be published unless the client says goodbye or is back in time.
        self.will: Final = will

    def ends_us(self) -> int:
        """Wall time at which it ends; -1 if it never does, or is connected."""
        if self.disconnected_us == 0 or self.expiry_s == 0xFFFFFFFF:
            return -1
        return self.disconnected_us + self.expiry_s * 1_000_000

    def without_will(self) -> "SessionRecord":
        return SessionRecord(
            expiry_s=self.expiry_s,
            disconnected_us=self.disconnected_us,
            cut_off=self.cut_off,
            queue=self.queue,
            begun=self.begun,
            user=self.user,
            revision=self.revision,
        )

    def will_due_us(self) -> int:
        """Wall time at which its will is due; -1 if none waits."""
        if self.will is None or self.disconnected_us == 0:
            return -1
        return self.disconnected_us + min(self.will.delay_s, self.expiry_s) * 1_000_000

    def _fields(self) -> tuple[object, ...]:
        offline = (self.expiry_s, self.disconnected_us, self.will, self.cut_off)
        return (*offline, self.queue, self.begun, self.user, self.revision)


def encode_session(record: SessionRecord) -> bytes:
    will = record.will
    flags = (0 if will is None else _WILL) | (_CUT_OFF if record.cut_off else 0) | (_QUEUE if record.queue else 0)
    version = CLAIMED_VERSION if record.revision else VERSION if record.user is None else OWNED_VERSION
    parts = [u8(version), u32(record.expiry_s), i64(record.disconnected_us), u8(flags)]
    if will is not None:
        parts.extend([u8(will.qos), u8(will.retain), u32(will.delay_s), i64(will.expiry_s), blob(will.topic)])
        parts.extend([blob(will.properties), blob(will.payload)])
    if record.queue:
        parts.extend([text(record.queue), u64(record.begun)])
    if version >= OWNED_VERSION:
        parts.append(text(record.user or ""))
    if version >= CLAIMED_VERSION:
        parts.append(u64(record.revision))
    return b"".join(parts)


def decode_session(value: bytes) -> SessionRecord:
    fields = RecordReader(value, "a session", CLAIMED_VERSION)
    expiry_s = fields.u32("the expiry")
    disconnected_us = fields.i64("the time")
    will: StoredWill | None = None
    flags = fields.u8("the flags")
    if flags & _WILL:
        qos = fields.u8("the will's QoS")
        retain = fields.u8("the will's retain flag") != 0
        delay_s = fields.u32("the will's delay")
        expiry = fields.i64("the will's expiry")
        topic = fields.blob("the will's topic")
        properties = fields.blob("the will's properties")
        payload = fields.blob("the will's payload")
        will = StoredWill(topic, payload, qos, retain=retain, properties=properties, delay_s=delay_s, expiry_s=expiry)
    queue = ""
    begun = 0
    if flags & _QUEUE:
        queue = fields.text("the backend of its queue")
        begun = fields.u64("the first number of its queue")
    user = fields.text("its user") if fields.version >= OWNED_VERSION else None
    revision = fields.u64("the revision") if fields.version >= CLAIMED_VERSION else 0
    fields.end()
    return SessionRecord(
        expiry_s=expiry_s,
        disconnected_us=disconnected_us,
        will=will,
        cut_off=flags & _CUT_OFF != 0,
        queue=queue,
        begun=begun,
        user=user,
        revision=revision,
    )
