"""The work of `holdfast replay`: history of one broker, printed or published to a broker.

    broker ── SUBSCRIBE replay-from, replay-until, replay-end ──▶ ReplaySource ──▶ MessagePrinter
                                                                              └──▶ Republisher ──▶ broker

1. The broker says when it is over: by a message on the topic of `replay-end`, which follows everything of the past on
   the same connection. Silence is no end.
2. A message is acknowledged after the sink took it. A slow sink makes the source slow: nothing piles up.
3. A republisher is done when the last message was acknowledged by the broker that it publishes to.
4. A replay with an end comes in the order of positions, over all shards. So the last position, with the shards that had
   a message there, is a place behind which another run can go on: nothing is left out, nothing is published twice.
5. A place is told only after everything up to it was acknowledged.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from holdfast.cli.output.meter import Meter
from holdfast.cli.output.standard_output import write_line
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.sub import MessageFormat, as_row
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import RefusedError
from holdfast.model.time import SECOND_US
from holdfast.topics.filters import TopicFilter
from holdfast.topics.since import is_number
from holdfast.wire.packets import Publish, Subscription
from holdfast.wire.properties import Properties

#: Highest, so that each message comes with the QoS it was published with.
_QOS: Final = 2
#: The user properties that a broker puts behind those of a message of the past.
_TS: Final = "ts"
_OFFSET: Final = "offset"


@dataclass(frozen=True)
class ReplayedMessage:
    """A message as it was published, its time and its position."""

    message: Publish
    #: When a broker received it; of a live message, when it came here.
    time_us: int
    #: Shard and position; None for a live message.
    offset: str | None


@dataclass(frozen=True)
class ReplayPlace:
    """Everything before a position was replayed, and of that position what these shards had (rule 4)."""

    position_us: int
    shards: frozenset[int]

    @staticmethod
    def parse(text: str) -> "ReplayPlace":
        """Read what `str` gives: SHARD:POSITION, several with commas in between. ValueError if it is none."""
        offsets = [_split_offset(offset) for offset in text.split(",")]
        positions = {position_us for _shard, position_us in offsets}
        if len(positions) != 1:
            raise ValueError(f"{text!r} names more than one position")
        return ReplayPlace(positions.pop(), frozenset(shard for shard, _position_us in offsets))

    def has(self, offset: str | None) -> bool:
        """Whether the message with this offset is one of those that were replayed."""
        if offset is None:
            return False
        shard, position_us = _split_offset(offset)
        return position_us < self.position_us or (position_us == self.position_us and shard in self.shards)

    def __str__(self) -> str:
        return ",".join(f"{shard}:{self.position_us}" for shard in sorted(self.shards))


def _split_offset(offset: str) -> tuple[int, int]:
    shard, colon, position = offset.partition(":")
    if not (colon and is_number(shard) and is_number(position)):
        raise ValueError(f"{offset!r} is no SHARD:POSITION")
    return int(shard), int(position)


class ReplaySummary:
    """What was replayed so far."""

    def __init__(self, place: ReplayPlace | None = None) -> None:
        """`place`: that of the run before, behind which this one goes on."""
        #: Whether the broker has agreed.
        self.began = False
        self.messages = 0
        self.size_bytes = 0
        #: Of the messages; 0 without any.
        self.first_us = 0
        self.last_us = 0
        self.complete = False
        #: The part of the time asked for that is done; None if it is not known.
        self.share: float | None = None
        #: How far everything was acknowledged, as far as that was waited for; None before the first message.
        self.place = place
        self._reached = place
        self._began_s: Final = time.monotonic()

    def add(self, found: ReplayedMessage) -> None:
        if found.offset is not None:
            shard, position_us = _split_offset(found.offset)
            same = self._reached is not None and self._reached.position_us == position_us
            shards = self._reached.shards if same and self._reached is not None else frozenset()
            self._reached = ReplayPlace(position_us, shards | {shard})
        self.messages += 1
        self.size_bytes += len(found.message.payload)
        self.first_us = min(self.first_us or found.time_us, found.time_us)
        self.last_us = max(self.last_us, found.time_us)

    def settled(self) -> None:
        """Everything that was added is acknowledged."""
        self.place = self._reached

    def describe(self) -> str:
        text = f"{self.messages:,} messages, {format_size(self.size_bytes)}"
        if self.messages:
            text += f", from {format_time(self.first_us)} to {format_time(self.last_us)}"
        return f"{text}, in {time.monotonic() - self._began_s:.1f} s"

    def as_row(self) -> dict[str, object]:
        return {
            "messages": self.messages,
            "bytes": self.size_bytes,
            "from": format_time(self.first_us) if self.messages else None,
            "to": format_time(self.last_us) if self.messages else None,
            "seconds": round(time.monotonic() - self._began_s, 3),
            "complete": self.complete,
        }

    def as_progress(self) -> dict[str, object]:
        """For programs: where it is, and the place behind which another run can go on."""
        row = self.as_row() | {"at_us": self.last_us or None, "share": 1.0 if self.complete else self.share}
        return row | {"place": None if self.place is None else str(self.place)}


class MessagePrinter:
    """Prints a line for each message."""

    def __init__(self, output: MessageFormat) -> None:
        self._output: Final = output

    async def settle(self) -> None:
        """A message that is printed needs no acknowledgement."""

    async def take(self, found: ReplayedMessage, *, more: bool) -> bool:
        """Print a message. `more` says that the next one is waiting already: the last one makes all of them visible."""
        moment, message = format_time(found.time_us), found.message
        if self._output is MessageFormat.TEXT:
            line = b"%s %s %s" % (moment.encode(), message.topic.encode(), message.payload)
        else:
            offset = {} if found.offset is None else {"offset": found.offset}
            line = json.dumps({"time": moment} | offset | as_row(message), ensure_ascii=False).encode()
        write_line(line + b"\n", flush=not more)
        return True


class Republisher:
    """Publishes each message again.

    It has the properties of the original, and `ts` says when that was received. It is not retained: a value of the past
    must not become the present value of a topic.
    """

    def __init__(self, client: Client, prefix: str, qos: int, *, own_since_us: int | None) -> None:
        """With `own_since_us`, messages below the prefix from then on are copies of this run, and are not taken."""
        self._client: Final = client
        self._prefix: Final = prefix
        self._qos: Final = qos
        self._own_since_us: Final = own_since_us

    async def settle(self) -> None:
        """Wait until everything is acknowledged."""
        await self._client.settle()

    async def take(self, found: ReplayedMessage, *, more: bool) -> bool:  # noqa: ARG002
        message = found.message
        since_us = self._own_since_us
        is_own = since_us is not None and (found.offset is None or found.time_us >= since_us)
        if is_own and message.topic.startswith(self._prefix):
            return False
        own = (*message.properties.user_properties, (_TS, str(found.time_us)))
        properties = replace(message.properties, topic_alias=None, subscription_identifiers=(), user_properties=own)
        await self._client.publish(self._prefix + message.topic, message.payload, self._qos, properties=properties)
        return True


class ReplaySource:
    """Stored messages, as a broker sends them."""

    def __init__(self, client: Client, topic_filter: TopicFilter, since: str, until: str | None, speed: str) -> None:
        """Times and speed as the broker's user properties have them; without `until` it goes on live."""
        self._client: Final = client
        self._filter: Final = topic_filter
        # Random: no other client publishes to it.
        self._end_topic: Final = f"holdfast-replay-end/{secrets.token_hex(16)}"
        self._wanted: Final = [("replay-from", since), ("replay-speed", speed)]
        if until is not None:
            self._wanted.extend([("replay-until", until), ("replay-end", self._end_topic)])
        #: By the broker's clock; set by `subscribe`.
        self.asked_us = 0
        self.from_us = 0
        self.until_us = 0

    async def subscribe(self) -> None:
        """RefusedError if the broker does not replay."""
        line = Subscription(self._filter, _QOS, retain_as_published=True)
        answer = await self._client.subscribe([line], properties=Properties(user_properties=tuple(self._wanted)))
        granted = dict(answer.properties.user_properties)
        if "replay-from" not in granted:
            raise RefusedError("the broker took the subscription, and does not replay; is it of this kind and version?")
        self.asked_us, self.from_us = int(granted[_TS]), int(granted["replay-from"])
        self.until_us = int(granted.get("replay-until", "0"))

    async def messages(self) -> AsyncIterator[ReplayedMessage]:
        """Until the end. Each is acknowledged when the next is asked for."""
        while True:
            message = await self._client.receive()
            if message.topic == self._end_topic:
                return
            yield _split_properties(message)
            self._client.acknowledge(message)

    @property
    def has_more(self) -> bool:
        return self._client.has_more

    def share(self, summary: ReplaySummary) -> float | None:
        """The part of the time asked for that is done; None without an end."""
        # History begins with its first message, however early the start that was asked for.
        from_us = max(self.from_us, summary.first_us)
        if not summary.messages or self.until_us <= from_us:
            return None
        return min(1.0, max(0.0, (summary.last_us - from_us) / (self.until_us - from_us)))


def _split_properties(message: Publish) -> ReplayedMessage:
    """The broker's user properties follow those of the publisher, who may use the same names."""
    pairs = message.properties.user_properties
    if len(pairs) < 2 or (pairs[-2][0], pairs[-1][0]) != (_TS, _OFFSET):
        return ReplayedMessage(message, int(time.time() * SECOND_US), None)
    plain = Publish(
        message.topic,
        message.payload,
        message.qos,
        message.packet_id,
        dup=message.dup,
        retain=message.retain,
        properties=replace(message.properties, user_properties=pairs[:-2]),
    )
    return ReplayedMessage(plain, int(pairs[-2][1]), pairs[-1][1])


class Transfer:
    """Hands all messages of a source to a sink, until the end."""

    def __init__(
        self, source: ReplaySource, sink: MessagePrinter | Republisher, summary: ReplaySummary, meter: Meter
    ) -> None:
        self._source: Final = source
        self._sink: Final = sink
        self._summary: Final = summary
        self._meter: Final = meter
        self._done: Final = summary.place
        #: Held while a message is taken, and while all of them are waited for: what is told is whole.
        self._taking: Final = asyncio.Lock()

    async def run(self) -> None:
        """Until the end; what was taken is acknowledged then."""
        source, summary, meter = self._source, self._summary, self._meter
        async for found in source.messages():
            if self._done is not None and self._done.has(found.offset):
                continue
            async with self._taking:
                if await self._sink.take(found, more=source.has_more):
                    summary.add(found)
            if meter.is_due():
                moment = f", at {format_time(summary.last_us)}" if summary.messages else ""
                meter.update(source.share(summary), f"{summary.messages:,} messages{moment}")
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything that was taken is acknowledged, and note the place."""
        async with self._taking:
            await self._sink.settle()
            self._summary.settled()
            self._summary.share = self._source.share(self._summary)

    @asynccontextmanager
    async def reporting(self, tell: Callable[[], None], every_s: float) -> AsyncIterator[None]:
        """Settle and call `tell`, at once and then again and again, for the length of the block."""

        async def report() -> None:
            while True:
                await self.settle()
                tell()
                await asyncio.sleep(every_s)

        try:
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(report())
                yield
                task.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
