"""How far the retained messages of a subscription were sent, as it is stored, and those of them that are in flight.

    progress  01 | newest i64 | sent blob | sent with QoS 2 blob
              02 | … as in 01 | vnodes u16, each: vnode u16, version i64
    place     newest i64 | topic blob | identifiers u16, each u32

Changes of retained messages are numbered. A delivery is about the messages as of the change `newest`: what was replaced
since comes as a live message. So a topic and that number name one version of a message, or none any more.

In a cluster each vnode numbers its changes by itself, and `versions` has the last one of each: a change that comes
later in a slow vnode may have a lower number than `newest`, and comes as a live message all the same.

Topics are passed in the order of their levels. There are two marks, because QoS 1 is stored lazily and QoS 2 is not:

    ────────────┤ sent ├──────────────┤ sent with QoS 2 ├──────────▶
     all done           QoS 1 again                       not sent yet
"""

from dataclasses import dataclass
from typing import Final

from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, u8, u16, u32

#: Never change. The second one has the versions of vnodes, and is written if there are any.
VERSION: Final = 1
VERSIONS_VERSION: Final = 2


@dataclass(frozen=True)
class RetainedProgress:
    """How far a retained delivery is. Never changes; a step replaces it.

    1. Of the topics up to `sent`, every message was sent; what is unacknowledged is in the session's progress.
    2. Of the topics up to `sent_qos2`, every QoS 2 message is stored as in flight, or done.
    """

    newest: int
    sent: bytes
    sent_qos2: bytes
    #: Vnode and version, by vnode; empty on one node.
    versions: tuple[tuple[int, int], ...] = ()


class RetainedPlace(ValueRecord):
    """Where a retained message in flight is found again, and how its client gets it."""

    def __init__(self, topic: bytes, newest: int, identifiers: tuple[int, ...]) -> None:
        self.topic: Final = topic
        #: It is the message of its topic that this change, or one before it, has left there.
        self.newest: Final = newest
        self.identifiers: Final = identifiers

    def _fields(self) -> tuple[object, ...]:
        return (self.topic, self.newest, self.identifiers)


def encode_retained_progress(progress: RetainedProgress) -> bytes:
    versions = progress.versions
    parts = [u8(VERSIONS_VERSION if versions else VERSION), i64(progress.newest)]
    parts.extend([blob(progress.sent), blob(progress.sent_qos2)])
    if versions:
        parts.append(u16(len(versions)))
        for vnode, version in versions:
            parts.extend([u16(vnode), i64(version)])
    return b"".join(parts)


def decode_retained_progress(value: bytes) -> RetainedProgress:
    fields = RecordReader(value, "the progress of a retained delivery", VERSIONS_VERSION)
    newest = fields.i64("the number")
    sent = fields.blob("the topic")
    sent_qos2 = fields.blob("the topic with QoS 2")
    versions: list[tuple[int, int]] = []
    if fields.version == VERSIONS_VERSION:
        for _vnode in range(fields.u16("the vnodes")):
            vnode = fields.u16("a vnode")
            versions.append((vnode, fields.i64("a version")))
    fields.end()
    return RetainedProgress(newest, sent, sent_qos2, tuple(versions))


def encode_place(place: RetainedPlace) -> bytes:
    """As a part of another record."""
    parts = [i64(place.newest), blob(place.topic), u16(len(place.identifiers))]
    parts.extend([u32(identifier) for identifier in place.identifiers])
    return b"".join(parts)


def read_place(fields: RecordReader) -> RetainedPlace:
    newest = fields.i64("a number")
    topic = fields.blob("a topic")
    identifiers = tuple([fields.u32("an identifier") for _i in range(fields.u16("the identifiers"))])
    return RetainedPlace(topic, newest, identifiers)
