"""How far the retained messages of a subscription were sent, as it is stored, and those of them that are in flight.

    progress  01 | newest i64 | sent blob | sent with QoS 2 blob
    place     newest i64 | topic blob | identifiers u16, each u32

Changes of retained messages are numbered. A delivery is about the messages as of the change `newest`: what was replaced
since comes as a live message. So a topic and that number name one version of a message, or none any more.

Topics are passed in the order of their levels. There are two marks, because QoS 1 is stored lazily and QoS 2 is not:

    ────────────┤ sent ├──────────────┤ sent with QoS 2 ├──────────▶
     all done           QoS 1 again                       not sent yet
"""

from dataclasses import dataclass
from typing import Final

from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, u8, u16, u32

#: Never change.
VERSION: Final = 1


@dataclass(frozen=True)
class RetainedProgress:
    """How far a retained delivery is. Never changes; a step replaces it.

    1. Of the topics up to `sent`, every message was sent; what is unacknowledged is in the session's progress.
    2. Of the topics up to `sent_qos2`, every QoS 2 message is stored as in flight, or done.
    """

    newest: int
    sent: bytes
    sent_qos2: bytes


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
    return b"".join((u8(VERSION), i64(progress.newest), blob(progress.sent), blob(progress.sent_qos2)))


def decode_retained_progress(value: bytes) -> RetainedProgress:
    fields = RecordReader(value, "the progress of a retained delivery", VERSION)
    newest = fields.i64("the number")
    sent = fields.blob("the topic")
    sent_qos2 = fields.blob("the topic with QoS 2")
    fields.end()
    return RetainedProgress(newest, sent, sent_qos2)


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
