"""The work of `holdfast replay`: history from one broker, to standard output or to a broker again.

    broker ── SUBSCRIBE replay-from, replay-until, replay-end ──▶ Source ──▶ Printer, or Copier ──▶ broker

1. It is over when the broker says so: by the message on the topic of `replay-end`, which comes behind everything of the
   past on the same connection. Silence is no end.
2. A message is acknowledged after the sink took it. A sink that is slow makes the source slow: nothing piles up.
3. A copier is done when the last message was acknowledged by the broker that it publishes to.
"""

import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from holdfast.cli.client import Client
from holdfast.cli.client_errors import RefusedError
from holdfast.cli.meter import Meter
from holdfast.cli.standard_output import put
from holdfast.cli.sub import Format, as_row
from holdfast.cli.words import iso_time, size_in_words
from holdfast.topics.filters import TopicFilter
from holdfast.wire.packets import Publish, Subscription
from holdfast.wire.properties import Properties

#: Highest, so that each message comes with the QoS it was published with.
_QOS: Final = 2
_SECOND_US: Final = 1_000_000
#: The user properties that a broker puts behind those of a message of the past.
_TS: Final = "ts"
_OFFSET: Final = "offset"


@dataclass(frozen=True)
class Request:
    """What is to be replayed, in the words of the broker's user properties."""

    filter: TopicFilter
    since: str
    #: None to go on live.
    until: str | None
    speed: str


@dataclass(frozen=True)
class Replayed:
    """A message as it was published, and from when and where it is."""

    message: Publish
    #: When a broker received it; of a live message, when it came here.
    time_us: int
    #: Shard and position; None for a live message.
    offset: str | None


class Sink(Protocol):
    """Where messages go."""

    async def take(self, found: Replayed, *, more: bool) -> bool:
        """Whether it was for this sink. `more` says that the next one is waiting already."""

    async def finish(self) -> None:
        """Ensures: everything is where it is to go."""


class Tally:
    """What went through, so far."""

    def __init__(self) -> None:
        #: Whether the broker has agreed.
        self.began = False
        self.messages = 0
        self.size_bytes = 0
        #: Of the messages; 0 without any.
        self.first_us = 0
        self.last_us = 0
        self.complete = False
        self._began_s: Final = time.monotonic()

    def add(self, found: Replayed) -> None:
        self.messages += 1
        self.size_bytes += len(found.message.payload)
        self.first_us = min(self.first_us or found.time_us, found.time_us)
        self.last_us = max(self.last_us, found.time_us)

    def in_words(self) -> str:
        words = f"{self.messages:,} messages, {size_in_words(self.size_bytes)}"
        if self.messages:
            words += f", from {iso_time(self.first_us)} to {iso_time(self.last_us)}"
        return f"{words}, in {time.monotonic() - self._began_s:.1f} s"

    def as_row(self) -> dict[str, object]:
        return {
            "messages": self.messages,
            "bytes": self.size_bytes,
            "from": iso_time(self.first_us) if self.messages else None,
            "to": iso_time(self.last_us) if self.messages else None,
            "seconds": round(time.monotonic() - self._began_s, 3),
            "complete": self.complete,
        }


class Printer:
    """Prints a line for each message."""

    def __init__(self, output: Format) -> None:
        self._output: Final = output

    async def take(self, found: Replayed, *, more: bool) -> bool:
        put(_line(found, self._output), flush=not more)
        return True

    async def finish(self) -> None:
        """Every line was handed to the system with the last one."""


def _line(found: Replayed, output: Format) -> bytes:
    moment = iso_time(found.time_us)
    message = found.message
    if output is Format.TEXT:
        return b"%s %s %s\n" % (moment.encode(), message.topic.encode(), message.payload)
    row: dict[str, object] = {"time": moment}
    if found.offset is not None:
        row["offset"] = found.offset
    return json.dumps(row | as_row(message), ensure_ascii=False).encode() + b"\n"


class Copier:
    """Publishes each message again.

    Properties are those of the original, and `ts` says when that was received. It is not retained: the present value of
    a topic is not one of the past.
    """

    def __init__(self, client: Client, prefix: str, qos: int, *, own_since_us: int | None) -> None:
        """With `own_since_us`, what was published below the prefix from then on is a copy of ours, and is left out."""
        self._client: Final = client
        self._prefix: Final = prefix
        self._qos: Final = qos
        self._own_since_us: Final = own_since_us

    async def take(self, found: Replayed, *, more: bool) -> bool:  # noqa: ARG002
        message = found.message
        if message.topic.startswith(self._prefix) and self._is_own(found):
            return False
        kept = message.properties
        properties = Properties(
            payload_format_indicator=kept.payload_format_indicator,
            message_expiry_interval=kept.message_expiry_interval,
            content_type=kept.content_type,
            response_topic=kept.response_topic,
            correlation_data=kept.correlation_data,
            user_properties=(*kept.user_properties, (_TS, str(found.time_us))),
        )
        await self._client.publish(self._prefix + message.topic, message.payload, self._qos, properties=properties)
        return True

    def _is_own(self, found: Replayed) -> bool:
        if self._own_since_us is None:
            return False
        return found.offset is None or found.time_us >= self._own_since_us

    async def finish(self) -> None:
        await self._client.settle()


class Source:
    """The past, as a broker sends it."""

    def __init__(self, client: Client, request: Request) -> None:
        self._client: Final = client
        self._request: Final = request
        # Nobody else can have published to it.
        self._end_topic: Final = f"holdfast-replay-end/{secrets.token_hex(16)}"
        #: By the broker's clock; set by `subscribe`.
        self.asked_us = 0
        self.from_us = 0
        self.until_us = 0

    async def subscribe(self) -> None:
        """RefusedError if the broker does not replay."""
        request = self._request
        wanted = [("replay-from", request.since), ("replay-speed", request.speed)]
        if request.until is not None:
            wanted += [("replay-until", request.until), ("replay-end", self._end_topic)]
        line = Subscription(request.filter, _QOS, retain_as_published=True)
        answer = await self._client.ask_for([line], Properties(user_properties=tuple(wanted)))
        told = dict(answer.properties.user_properties)
        if "replay-from" not in told:
            raise RefusedError("the broker took the subscription, and does not replay; is it of this kind and version?")
        self.asked_us, self.from_us = int(told[_TS]), int(told["replay-from"])
        self.until_us = int(told.get("replay-until", "0"))

    async def messages(self) -> AsyncIterator[Replayed]:
        """Until the end. Each is acknowledged when the next is asked for."""
        while True:
            message = await self._client.receive()
            if message.topic == self._end_topic:
                return
            yield _taken_apart(message)
            self._client.acknowledge(message)

    @property
    def has_more(self) -> bool:
        return self._client.has_more

    def share(self, tally: Tally) -> float | None:
        """How much of the time asked for is behind us; None without an end."""
        # History begins with its first message, however early the start that was asked for.
        from_us = max(self.from_us, tally.first_us)
        if not tally.messages or self.until_us <= from_us:
            return None
        return min(1.0, max(0.0, (tally.last_us - from_us) / (self.until_us - from_us)))


def _taken_apart(message: Publish) -> Replayed:
    """The broker's own user properties stand behind those of the publisher, who may use the same names."""
    pairs = message.properties.user_properties
    if len(pairs) < 2 or (pairs[-2][0], pairs[-1][0]) != (_TS, _OFFSET):
        return Replayed(message, int(time.time() * _SECOND_US), None)
    kept = message.properties
    plain = Publish(
        message.topic,
        message.payload,
        message.qos,
        message.packet_id,
        dup=message.dup,
        retain=message.retain,
        properties=replace(kept, user_properties=pairs[:-2]),
    )
    return Replayed(plain, int(pairs[-2][1]), pairs[-1][1])


async def replay_into(source: Source, sink: Sink, tally: Tally, meter: Meter) -> None:
    """Everything that the source gives, until its end."""
    async for found in source.messages():
        if await sink.take(found, more=source.has_more):
            tally.add(found)
        if meter.is_due():
            moment = f", at {iso_time(tally.last_us)}" if tally.messages else ""
            meter.update(source.share(tally), f"{tally.messages:,} messages{moment}")
    await sink.finish()
    tally.complete = True
