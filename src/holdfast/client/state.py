"""The session state of a client (MQTT 5, 4.1), and the records of which its state file consists. Pure.

    what happened                               record                             has to be durable before
    a message was published, QoS 1 or 2         PUBLISHED  offset, PUBLISH         the PUBLISH is sent
    its PUBREC came                             RELEASED   packet id               the PUBREL is sent
    its PUBACK or PUBCOMP came, or a refusal    COMPLETED  packet id               -
    a received QoS 2 message was acknowledged   RECEIVED   packet id               the PUBREC is sent
    its PUBREL came                             FORGOTTEN  packet id               the PUBCOMP is sent
    the broker has lost the session             RESET                              anything else is received

Why: a PUBLISH that is sent again behind a PUBREL is a new message to the broker, hence RELEASED. A packet id that is
not forgotten would hide the next message with this id, hence FORGOTTEN and RESET. A completion that is lost costs a
repetition that the other side knows how to answer.

    record     kind u8 │ length u32 │ body                              all numbers little-endian
    PUBLISHED  offset length u16 │ source offset │ PUBLISH frame        length 0: without a source offset
    OFFSET     source offset                                            only in a compacted file
    IDENTITY   protocol level u8 │ client id                            the first record of a file

Each method that changes the state adds the record of the change; `apply` does the same change from the record. So a
state that is read from its file equals the one that wrote it.

Invariants:
    1. A packet id in `outgoing` is used by no other outgoing message.
    2. A released message has no frame: it is never sent again as PUBLISH.
"""

from struct import Struct
from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import FIRST_PACKET_ID, LAST_PACKET_ID, packet_id_after
from holdfast.model.protocol import CLIENT
from holdfast.wire.framing import Framer
from holdfast.wire.publish import PublishScan

# Stored in files. Never change.
_IDENTITY: Final = 1
_PUBLISHED: Final = 2
_RELEASED: Final = 3
_COMPLETED: Final = 4
_RECEIVED: Final = 5
_FORGOTTEN: Final = 6
_RESET: Final = 7
_OFFSET: Final = 8

_HEAD: Final = Struct("<BI")
_U16: Final = Struct("<H")
#: The length of a source offset is a u16.
MAX_OFFSET_BYTES: Final = 65_535


class Outgoing:
    """A message that is published and not completed."""

    __slots__ = ("frame", "number", "released", "sent", "topic")

    def __init__(self, frame: bytes, topic: bytes, number: int, *, sent: bool) -> None:
        #: The PUBLISH without DUP; empty once it is released.
        self.frame = frame
        self.topic: Final = topic
        #: How many messages were published before it.
        self.number: Final = number
        #: Whether the session's broker may have it: a repetition then has DUP.
        self.sent = sent
        #: QoS 2: PUBREC came. From then on PUBREL is repeated.
        self.released = False


class ClientState:
    """What a client has to know of its session."""

    def __init__(self, version: int, client_id: str) -> None:
        self.version: Final = version
        self.client_id: Final = client_id
        #: By packet id, oldest first.
        self.outgoing: Final[dict[int, Outgoing]] = {}
        self.outgoing_bytes = 0
        #: QoS 2 messages that were acknowledged to the broker and are not released by it yet.
        self.received: Final[set[int]] = set()
        #: What the caller last stored together with a message; None without any.
        self.source_offset: bytes | None = None
        #: Messages published so far, those of the file included.
        self.published = 0
        self._packet_id = FIRST_PACKET_ID
        #: Whether the records of changes are collected.
        self.recording = False
        self._records: Final[list[bytes]] = []
        self._urgent = False

    # ---- what happens

    def free_packet_id(self) -> int:
        """Requires: fewer than 65,535 messages are outgoing."""
        while self._packet_id in self.outgoing:
            self._packet_id = packet_id_after(self._packet_id)
        packet_id = self._packet_id
        # Not the one that was just free: a late answer to an old message must not pass for one to a new message.
        self._packet_id = packet_id_after(packet_id)
        return packet_id

    def publish(self, packet_id: int, topic: bytes, frame: bytes, source_offset: bytes = b"") -> Outgoing:
        """Requires: `frame` has this packet id, and no DUP."""
        begun = self._begin(packet_id, topic, frame, source_offset, sent=False)
        if self.recording:
            self._record(_PUBLISHED, _U16.pack(len(source_offset)) + source_offset + frame)
        return begun

    def release(self, packet_id: int) -> None:
        found = self.outgoing.get(packet_id)
        if found is None:
            found = self.outgoing[packet_id] = Outgoing(b"", b"", self.published, sent=True)
        self.outgoing_bytes -= len(found.frame)
        found.frame, found.released = b"", True
        self._record(_RELEASED, _U16.pack(packet_id))

    def complete(self, packet_id: int) -> None:
        found = self.outgoing.pop(packet_id, None)
        if found is not None:
            self.outgoing_bytes -= len(found.frame)
            if self.recording:
                self._record(_COMPLETED, _U16.pack(packet_id), urgent=False)

    def receive(self, packet_id: int) -> None:
        self.received.add(packet_id)
        self._record(_RECEIVED, _U16.pack(packet_id))

    def forget(self, packet_id: int) -> None:
        if packet_id in self.received:
            self.received.discard(packet_id)
            self._record(_FORGOTTEN, _U16.pack(packet_id))

    def reset(self) -> None:
        """The broker has no session: what it took it keeps, and what it did not take is new to it."""
        changed = bool(self.received) or any(found.sent for found in self.outgoing.values())
        for packet_id in [packet_id for packet_id, found in self.outgoing.items() if found.released]:
            del self.outgoing[packet_id]
        for found in self.outgoing.values():
            found.sent = False
        self.received.clear()
        if changed:
            self._record(_RESET, b"")

    # ---- records

    def take_records(self) -> tuple[bytes, bool]:
        """The records since the last call, and whether they have to be durable before anything more is sent."""
        records, urgent = b"".join(self._records), self._urgent
        self._records.clear()
        self._urgent = False
        return records, urgent

    def snapshot(self) -> bytes:
        """Records that make this state from nothing."""
        parts = [_encode(_IDENTITY, bytes((self.version,)) + self.client_id.encode())]
        if self.source_offset is not None:
            parts.append(_encode(_OFFSET, self.source_offset))
        for packet_id, found in self.outgoing.items():
            if found.released:
                parts.append(_encode(_RELEASED, _U16.pack(packet_id)))
            else:
                parts.append(_encode(_PUBLISHED, _U16.pack(0) + found.frame))
        parts += [_encode(_RECEIVED, _U16.pack(packet_id)) for packet_id in sorted(self.received)]
        return b"".join(parts)

    def apply(self, records: bytes) -> None:
        """Do what the records say. PermanentError if they are not of this client, or not known.

        Requires: the state does not record.
        """
        at = 0
        while at < len(records):
            kind, length = _HEAD.unpack_from(records, at)
            at += _HEAD.size
            self._apply(kind, records[at : at + length])
            at += length

    def _apply(self, kind: int, body: bytes) -> None:
        if kind == _IDENTITY:
            if (body[0], body[1:].decode()) != (self.version, self.client_id):
                raise PermanentError(
                    f"it is of the client {body[1:].decode()!r} with protocol level {body[0]}, and not of "
                    f"{self.client_id!r} with {self.version}; use one file for each client"
                )
        elif kind == _PUBLISHED:
            end = 2 + int.from_bytes(body[:2], "little")
            frame = body[end:]
            packet_id, topic = _scan_publish(frame, self.version)
            self._begin(packet_id, topic, frame, body[2:end], sent=True)
        elif kind == _RELEASED:
            self.release(int.from_bytes(body, "little"))
        elif kind == _COMPLETED:
            self.complete(int.from_bytes(body, "little"))
        elif kind == _RECEIVED:
            self.receive(int.from_bytes(body, "little"))
        elif kind == _FORGOTTEN:
            self.forget(int.from_bytes(body, "little"))
        elif kind == _RESET:
            self.reset()
            for found in self.outgoing.values():
                found.sent = True  # perhaps, since then
        elif kind == _OFFSET:
            self.source_offset = body
        else:
            raise PermanentError(f"it has a record of kind {kind}, which this version does not know; use a newer one")

    def check_invariants(self) -> None:
        for packet_id, found in self.outgoing.items():
            assert FIRST_PACKET_ID <= packet_id <= LAST_PACKET_ID
            assert found.released == (not found.frame)
            if found.frame:
                assert _scan_publish(found.frame, self.version) == (packet_id, found.topic)
        assert self.outgoing_bytes == sum(len(found.frame) for found in self.outgoing.values())

    def _begin(self, packet_id: int, topic: bytes, frame: bytes, source_offset: bytes, *, sent: bool) -> Outgoing:
        if packet_id in self.outgoing:
            raise MisuseError(f"packet id {packet_id} is in use")
        begun = self.outgoing[packet_id] = Outgoing(frame, topic, self.published, sent=sent)
        self.outgoing_bytes += len(frame)
        self.published += 1
        if source_offset:
            self.source_offset = source_offset
        return begun

    def _record(self, kind: int, body: bytes, *, urgent: bool = True) -> None:
        if self.recording:
            self._records.append(_encode(kind, body))
            self._urgent = self._urgent or urgent


def _encode(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body)) + body


def _scan_publish(frame: bytes, version: int) -> tuple[int, bytes]:
    """The packet id and the topic of a PUBLISH."""
    framer = Framer()
    framer.feed(frame)
    framer.advance()
    scan = PublishScan()
    scan.scan(framer.data, framer.first, framer.body, framer.end, version, CLIENT)
    return scan.packet_id, framer.data[scan.topic_start : scan.topic_end]
