"""Brings the queues of a TBMQ into a home of queues. TBMQ and this broker are stopped meanwhile.

    source serial   1  2  3  …        its place in TBMQ's queue: a serial number (1.x) or a score (2.x)
    number          base + serial     the same in every run, so what was brought already is not brought twice

1. `base` lies so far in the past that no number is above the time of the import: brokers number by the clock, and
   what they give a queue later must be above what it was given.
2. A message that cannot be read, or has expired, is counted and left out; the rest of its queue comes.
3. A queue that holds something else already is refused, and others are not concerned.
4. When a queue was brought, what it holds is counted, and its session is made: without one, the first CONNECT of its
   client would begin a new session, and the queue would be removed as that of an earlier one.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from holdfast.durable.outside_queue import queue_name
from holdfast.durable.queue_store import NO_LIMITS, Appended, Entry, Pack, QueueStore
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import PUBLISH
from holdfast.wire.properties import NO_PROPERTIES, Properties, encode_property_list

PUBLISHED: Final = "PUBLISH"
RELEASED: Final = "PUBREL"

#: Messages that are read and appended at a time.
_PAGE: Final = 1_000


class OwedPacket(NamedTuple):
    """A packet that another broker owed a client: PUBLISH, or PUBREL if it is released."""

    packet_id: int
    #: Of its message in the client's queue here.
    serial: int
    released: bool


class ImportedSessions(Protocol):
    """The sessions that queues are brought for. Classes match it by shape."""

    def obstacle(self, client_id: str) -> str:
        """Why no session would read the queue of a client; empty if one would."""
        ...

    def make(self, client_id: str, begun: int, packets: list[OwedPacket]) -> None:
        """The session of a client, which reads its queue from the number `begun` on. Said again, it changes nothing."""
        ...


class Found:
    """A place in a queue of TBMQ: a message, or why there is none; if there is no reason, it has expired."""

    def __init__(
        self,
        serial: int,
        message: Message | None,
        expires_us: int = 0,
        *,
        packet_id: int = 0,
        released: bool = False,
        reason: str = "",
    ) -> None:
        self.serial: Final = serial
        #: Under which TBMQ sends it; 0 if that is not known.
        self.packet_id: Final = packet_id
        self.message: Final = message
        self.expires_us: Final = expires_us
        self.released: Final = released
        #: Why there is no message, or what of it could not be taken along.
        self.reason: Final = reason


class TbmqSource(Protocol):
    """Where TBMQ keeps its queues. Classes match it by shape."""

    def clients(self) -> AsyncIterator[tuple[str, int]]:
        """Every client that has messages, and the last serial of them."""
        ...

    async def messages(self, client_id: str, after: int, limit: int) -> list[Found]:
        """At most so many places above `after`, in order; none at the end."""
        ...

    async def close(self) -> None: ...


@dataclass
class ImportReport:
    """What was brought."""

    clients: int = 0
    messages: int = 0
    expired: int = 0
    #: Sessions that were made; others were there.
    sessions: int = 0
    #: Client and reason: of messages that lost something on the way, of messages and of queues that were left out.
    shortened: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    #: Client, how many there should be, how many there are.
    miscounted: list[tuple[str, int, int]] = field(default_factory=list)

    def complete(self) -> bool:
        return not (self.shortened or self.unreadable or self.refused or self.miscounted)


async def choose_base(source: TbmqSource, clock: Clock) -> int:
    """The base of a new import. Whoever goes on with an import gives the base that it began with."""
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
    """Bring every queue. It may be done again, with the same base, when it was interrupted. `told` after each queue."""
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
    """Why a queue must not be touched."""
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
        entries: list[Entry] = []
        brought: list[Found] = []
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
            entries.append(Entry(base + found.serial, owed, found.expires_us))
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


async def _append(target: QueueStore, name: str, entries: list[Entry], brought: list[Found]) -> list[OwedPacket]:
    if not entries:
        return []
    (answer,) = await target.append([Pack(name, entries, NO_LIMITS)])
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
    """PermanentError if a home of queues has no place for such a message. Who published it, TBMQ does not keep."""
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
    """Pairs: as a list of objects with a key and a value, of lists of two, or as one object. In their order."""
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
        # An object is a list of tuples here, so [("k", "a"), ("v", "b")] is one with a key and a value.
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, tuple) for part in one):
            one = [one[0][1], one[1][1]]
        if not isinstance(one, list | tuple) or len(one) != 2 or not all(isinstance(part, str) for part in one):
            raise PermanentError("user properties that are no pairs of texts")
        pairs.append((one[0], one[1]))
    return tuple(pairs)
