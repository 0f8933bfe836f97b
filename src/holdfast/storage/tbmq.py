"""Imports the queues of a TBMQ into a queue backend. TBMQ and this broker must be stopped.

    source serial   1  2  3  …        its place in TBMQ's queue: a serial number (1.x) or a score (2.x)
    number          base + serial     the same in every run, so no message is imported twice

1. `base` is so far in the past that no number is above the time of the import: brokers number by the clock, and later
   numbers of a queue must be greater.
2. A message that cannot be read, or has expired, is counted and skipped; the rest of its queue is imported.
3. A queue that holds other messages already is refused; others are not affected.
4. After a queue, its messages are counted and its session is made: without a session, the first CONNECT of its client
   would begin a new one, and remove the queue.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from holdfast.durable.queues.external_queue import queue_name
from holdfast.durable.queues.queue_store import NO_LIMITS, AppendBatch, Appended, QueueEntry, QueueStore
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import PUBLISH
from holdfast.wire.properties import NO_PROPERTIES, Properties, encode_property_list

PUBLISHED: Final = "PUBLISH"
RELEASED: Final = "PUBREL"

#: Messages per read and append.
_PAGE: Final = 1_000


class OwedPacket(NamedTuple):
    """A packet that another broker owed a client: PUBLISH, or PUBREL if it is released."""

    packet_id: int
    #: Of its message in the client's queue here.
    serial: int
    released: bool


class ImportedSessions(Protocol):
    """The sessions of imported queues. Classes match it by shape."""

    def obstacle(self, client_id: str) -> str:
        """Why no session would read the queue of a client; empty if one would."""

    def make(self, client_id: str, begun: int, packets: list[OwedPacket]) -> None:
        """Make the session of a client, which reads its queue from the number `begun` on. May be repeated."""


@dataclass(frozen=True)
class TbmqMessage:
    """An entry of a TBMQ queue: a message, or the reason why there is none; without a reason it has expired."""

    serial: int
    message: Message | None
    expires_us: int = 0
    _: KW_ONLY
    #: The packet id with which TBMQ sends it; 0 if it is not known.
    packet_id: int = 0
    released: bool = False
    #: Why there is no message, or what of it is lost.
    reason: str = ""


class TbmqSource(Protocol):
    """The queues of a TBMQ. Classes match it by shape."""

    def clients(self) -> AsyncIterator[tuple[str, int]]:
        """Every client that has messages, with their last serial."""

    async def messages(self, client_id: str, after: int, limit: int) -> list[TbmqMessage]:
        """At most `limit` entries above `after`, in order; none at the end."""

    async def close(self) -> None: ...


@dataclass
class ImportReport:
    """The result of an import."""

    clients: int = 0
    messages: int = 0
    expired: int = 0
    #: Sessions that were made; others existed.
    sessions: int = 0
    #: Client and reason: of messages that lost something, of skipped messages, and of skipped queues.
    shortened: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    #: Client, how many there should be, how many there are.
    miscounted: list[tuple[str, int, int]] = field(default_factory=list)

    def complete(self) -> bool:
        return not (self.shortened or self.unreadable or self.refused or self.miscounted)


async def choose_base(source: TbmqSource, clock: Clock) -> int:
    """The base of a new import. An import that continues uses its first base again."""
    last = 0
    async for _, serial in source.clients():
        last = max(last, serial)
    return clock.wall_us() - last - 1


async def import_queues(
    source: TbmqSource,
    target: QueueStore,
    clock: Clock,
    base: int,
    sessions: ImportedSessions,
    told: Callable[[ImportReport], None],
) -> ImportReport:
    """Import every queue. After an interruption, call it again with the same base. Calls `told` after each queue."""
    report = ImportReport()
    async for client_id, last in source.clients():
        reason = sessions.obstacle(client_id) or await _obstacle(target, queue_name(client_id), base, last)
        if reason:
            report.refused.append((client_id, reason))
        else:
            packets = await _import_queue(source, target, clock, base, client_id, report)
            sessions.make(client_id, base + 1, packets)
        told(report)
    return report


async def _obstacle(target: QueueStore, name: str, base: int, last: int) -> str:
    """Why a queue is not imported; empty if it is."""
    _, number = await target.last(name)
    if base < number <= base + last or not number:
        return ""
    if number > base:
        return "the queue was used after the import began"
    held = (await target.size(name)).messages
    return f"the queue holds {held} other messages already" if held else ""


async def _import_queue(
    source: TbmqSource, target: QueueStore, clock: Clock, base: int, client_id: str, report: ImportReport
) -> list[OwedPacket]:
    name = queue_name(client_id)
    after = 0
    expiries: list[int] = []
    packets: list[OwedPacket] = []
    while page := await source.messages(client_id, after, _PAGE):
        after = page[-1].serial
        entries: list[QueueEntry] = []
        brought: list[TbmqMessage] = []
        for found in page:
            message = found.message
            if message is None and found.reason:
                report.unreadable.append((client_id, found.reason))
                continue
            if message is None or 0 < found.expires_us <= clock.wall_us():
                report.expired += 1
                continue
            if found.reason:
                report.shortened.append((client_id, found.reason))
            owed = Owed(message, message.qos, retain=message.retain)
            entries.append(QueueEntry(base + found.serial, owed, found.expires_us))
            expiries.append(found.expires_us)
            brought.append(found)
        packets += await _append(target, name, entries, brought)
    report.clients += 1
    report.messages += len(expiries)
    held = (await target.size(name)).messages
    wanted = sum(1 for expires_us in expiries if not 0 < expires_us <= clock.wall_us())
    if held != wanted:
        report.miscounted.append((client_id, wanted, held))
    return packets


async def _append(
    target: QueueStore, name: str, entries: list[QueueEntry], brought: list[TbmqMessage]
) -> list[OwedPacket]:
    if not entries:
        return []
    (answer,) = await target.append([AppendBatch(name, entries, NO_LIMITS)])
    if not isinstance(answer, Appended):
        raise answer
    packets = [
        OwedPacket(found.packet_id, serial, found.released)
        for found, serial in zip(brought, answer.serials, strict=True)
        if serial
    ]
    released = [packet.serial for packet in packets if packet.released]
    if released:
        await target.release(name, released)
    return packets


def tbmq_message(
    topic: str, payload: bytes, qos: int, time_ms: int, *, retain: bool, expires_us: int, properties: Properties
) -> Message:
    """PermanentError if a queue backend cannot hold such a message. TBMQ does not keep its publisher."""
    if qos not in (1, 2):
        raise PermanentError(f"QoS {qos} is not owed to anybody")
    if not topic:
        raise PermanentError("a message without a topic")
    encoded = b"" if properties == NO_PROPERTIES else encode_property_list(properties, PUBLISH)
    return Message(
        topic.encode(),
        payload,
        qos,
        ClientId(""),
        time_ms * 1000,
        retain=retain,
        properties=encoded,
        expires_us=expires_us,
    )


def parse_user_properties(text: str | None) -> tuple[tuple[str, str], ...]:
    """User properties in their order, from a list of objects with key and value, a list of pairs, or one object."""
    if not text:
        return ()
    try:
        found: Any = json.loads(text, object_pairs_hook=list)
    except ValueError as wrong:
        raise PermanentError(f"user properties that are no JSON ({wrong})") from wrong
    if isinstance(found, list) and len(found) == 1 and found[0][:1] == ("props",):
        found = found[0][1]
    pairs: list[tuple[str, str]] = []
    for one in found if isinstance(found, list) else [found]:
        # Objects are decoded as lists of pairs, so [("k", "a"), ("v", "b")] is an object with key and value.
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, tuple) for part in one):
            one = [one[0][1], one[1][1]]
        if not isinstance(one, list | tuple) or len(one) != 2 or not all(isinstance(part, str) for part in one):
            raise PermanentError("user properties that are no pairs of texts")
        pairs.append((one[0], one[1]))
    return tuple(pairs)
