"""One reader of a log: a pull loop on an ephemeral consumer of JetStream.

The consumer has one copy, in memory, without acknowledgements: it is a place to read from, and nothing that has to
survive. It is deleted and made again, from the next sequence on, whenever

- a sequence above the next one comes: a message was lost on its way, or the log was trimmed;
- for two seconds there is neither message nor heartbeat: the server with the consumer is gone;
- for two seconds there is no message though an append was acknowledged: that server does not follow the log;
- JetStream ends the pull for another reason than its size or its time.

Behind each new consumer the ends of the log are read. A log that is another one, was trimmed above the next sequence,
or ends below it stops the reading; so does a consumer that goes on above the next sequence, for that record is missing.
The ends are read behind the consumer: incarnations do not come back, so the consumer is of this one. A consumer that is
made again begins with the last entry that the reader was given, if that is still there, and it has to be the same: a
log that lost its end and has grown again looks whole from its ends.
"""

import asyncio
import json
from typing import Final

import structlog
from nats.aio.msg import Msg

from holdfast.cluster.nats_connection import ApiError, NatsConnection
from holdfast.cluster.nats_streams import LogStream, MissingStreamError, hears_majority, incarnation_of, stream_info
from holdfast.durable.ordered_log import FIRST_SEQUENCE, LogEnds, LogEntry, LogReader
from holdfast.model.errors import TransientError

_log = structlog.get_logger()

_S: Final = 1_000_000_000  # ns
#: Messages and bytes of one pull: they wait in memory until the reader has taken them. A record is up to 8 MB.
_PULL_MESSAGES: Final = 1_000
_PULL_BYTES: Final = 24 << 20
_PULL_NS: Final = 30 * _S
_HEARTBEAT_NS: Final = _S // 2
_PULL: Final = json.dumps(
    {"batch": _PULL_MESSAGES, "max_bytes": _PULL_BYTES, "expires": _PULL_NS, "idle_heartbeat": _HEARTBEAT_NS}
).encode()
#: Seconds without message or heartbeat after which a consumer is made again.
_SILENCE_S: Final = 2.0
#: A consumer that no one pulls from is removed by its server after this time.
_INACTIVE_NS: Final = 60 * _S
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
#: Statuses of JetStream that end a pull and say nothing of the consumer.
_HEARTBEAT: Final = "100"
_EXPIRED: Final = "408"
_BATCH_ENDS: Final = ("Message Size Exceeds MaxBytes", "Batch Completed")
#: Tokens of the reply subject of a message: where its sequence and its time are, by the number of tokens.
_SHORT_REPLY, _LONG_REPLY = 9, 11


class LogSource:
    """A stream, and what is known of its end: what a log and its readings share."""

    def __init__(self, connection: NatsConnection, stream: LogStream) -> None:
        self.connection: Final = connection
        self.stream: Final = stream
        #: The greatest sequence that an append was answered with: every reading has to come to it.
        self.acknowledged = 0

    async def ends(self) -> LogEnds:
        """The ends, from a leader that has no successor. TransientError: there is none, or it does not answer."""
        info = await stream_info(self.connection, self.stream)
        if not hears_majority(info):
            raise TransientError(
                f"the leader of stream {self.stream.name} does not hear from a majority of its servers"
            )
        state = info["state"]
        first = max(FIRST_SEQUENCE, int(state["first_seq"]))
        return LogEnds(first, int(state["last_seq"]), incarnation_of(info), int(state.get("bytes", 0)))


class _StoppedError(Exception):
    """The log does not lead on."""


class NatsReading:
    """A `LogReading`: the next sequence of a reader, and its consumer.

    1. The reader is given every sequence once, each one more than the one before.
    """

    def __init__(self, source: LogSource, from_sequence: int, incarnation: str, reader: LogReader) -> None:
        self._source: Final = source
        self._incarnation: Final = incarnation
        self._reader: Final = reader
        self._next = from_sequence
        #: The last entry that the reader was given.
        self._given: LogEntry | None = None
        #: Whether the present consumer has brought nothing new yet.
        self._fresh = True
        self._closed = False
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        self._closed = True
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        """Read until the log does not lead on."""
        pause_s = _FIRST_PAUSE_S
        while True:
            before = self._next
            try:
                await self._follow()
            except _StoppedError as stop:
                if not self._closed:
                    self._reader.stopped(str(stop))
                return
            except (TransientError, ApiError) as error:
                _log.info("log reader makes its consumer again", stream=self._name, next=self._next, why=str(error))
            pause_s = _FIRST_PAUSE_S if self._next > before else min(2 * pause_s, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    @property
    def _name(self) -> str:
        return self._source.stream.name

    async def _follow(self) -> None:
        """Read from one consumer until it is of no more use (TransientError), or the log is not (_StoppedError)."""
        connection = self._source.connection
        arrivals = _Arrivals()
        inbox = await connection.subscribe(arrivals.put)
        consumer = ""
        try:
            consumer = await self._make_consumer()
            await self._check_ends()
            self._fresh = True
            while True:
                # One pull at a time: what is under way is bounded, and nothing has to be told apart.
                await connection.send(f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.{consumer}", _PULL, inbox.subject)
                left = _PULL_MESSAGES
                while left > 0:
                    messages = await self._take(arrivals)
                    entries = [_decode(message) for message in messages if message.reply]
                    left -= len(entries)
                    if entries:
                        self._give(entries)
                    if _pull_ended([message for message in messages if not message.reply]):
                        left = 0
        finally:
            await inbox.close()
            if consumer:
                await self._forget(consumer)

    async def _make_consumer(self) -> str:
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, self._next if self._given is None else self._given.sequence),
            "ack_policy": "none",
            "replay_policy": "instant",
            "num_replicas": 1,
            "mem_storage": True,
            "inactive_threshold": _INACTIVE_NS,
        }
        wanted = {"stream_name": self._name, "config": config}
        try:
            return str((await self._source.connection.ask(f"CONSUMER.CREATE.{self._name}", wanted))["name"])
        except ApiError:
            await self._check_ends()  # the reason, if there is no such stream
            raise

    async def _check_ends(self) -> None:
        try:
            ends = await self._source.ends()
        except MissingStreamError as missing:
            raise _StoppedError(str(missing)) from missing
        if ends.incarnation != self._incarnation:
            raise _StoppedError(f"the log is another one, {ends.incarnation}, and was {self._incarnation}")
        if not ends.first <= self._next <= ends.last + 1:
            raise _StoppedError(f"sequence {self._next} is not in [{ends.first}, {ends.last + 1}]")

    async def _take(self, arrivals: "_Arrivals") -> list[Msg]:
        """What has arrived. TransientError: the consumer is silent, or behind what was acknowledged."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _SILENCE_S
        while True:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    messages = await arrivals.take()
            except TimeoutError:
                raise TransientError(f"neither message nor heartbeat for {_SILENCE_S:g} s") from None
            if not all(_is_heartbeat(message) for message in messages):
                return messages
            if self._source.acknowledged < self._next:
                deadline_s = loop.time() + _SILENCE_S
            elif loop.time() > deadline_s:
                raise TransientError(f"heartbeats, but not sequence {self._next}, which was acknowledged")

    def _give(self, entries: list[LogEntry]) -> None:
        """Hand entries to the reader, up to a gap."""
        new: list[LogEntry] = []
        beyond = 0
        for entry in entries:
            if self._given is not None and entry.sequence == self._given.sequence and entry != self._given:
                raise _StoppedError(
                    f"sequence {entry.sequence} is another record than before; the log has lost its end"
                )
            if entry.sequence > self._next:
                beyond = entry.sequence
                break
            if entry.sequence == self._next:
                new.append(entry)
                self._next += 1
        if new:
            self._given = new[-1]
            self._fresh = False
            if not self._closed:
                self._reader.entries(new)
        if beyond and self._fresh:
            raise _StoppedError(f"sequence {self._next} is missing; the first one behind it is {beyond}")
        if beyond:
            raise TransientError(f"sequence {beyond} came before {self._next}")

    async def _forget(self, consumer: str) -> None:
        try:
            await self._source.connection.send(f"$JS.API.CONSUMER.DELETE.{self._name}.{consumer}", b"")
        except TransientError as error:
            _log.debug("consumer is left to its server", consumer=consumer, why=str(error))


class _Arrivals:
    """Messages that have arrived and were not taken yet."""

    def __init__(self) -> None:
        self._messages: list[Msg] = []
        self._some: Final = asyncio.Event()

    async def put(self, message: Msg) -> None:
        self._messages.append(message)
        self._some.set()

    async def take(self) -> list[Msg]:
        """All of them, as soon as there is one."""
        await self._some.wait()
        self._some.clear()
        taken = self._messages
        self._messages = []
        return taken


def _pull_ended(statuses: list[Msg]) -> bool:
    """Whether the pull has ended. TransientError: so that the consumer is of no more use."""
    ended = False
    for message in statuses:
        if not _is_heartbeat(message):
            ended = True
            headers = message.headers or {}
            status, text = headers.get("Status"), headers.get("Description")
            if status != _EXPIRED and text not in _BATCH_ENDS:
                raise TransientError(f"JetStream ended a pull: {status} {text}")
    return ended


def _is_heartbeat(message: Msg) -> bool:
    """A stored record has the reply subject of its acknowledgement; what JetStream says itself has none."""
    return not message.reply and (message.headers or {}).get("Status") == _HEARTBEAT


def _decode(message: Msg) -> LogEntry:
    """`$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.consumer-sequence.ns.pending[.token]`."""
    tokens = message.reply.split(".")
    at = 5 if len(tokens) == _SHORT_REPLY else 7
    if len(tokens) != _SHORT_REPLY and len(tokens) < _LONG_REPLY:
        raise TransientError(f"a message without a sequence: {message.reply}")
    return LogEntry(int(tokens[at]), int(tokens[at + 2]) // 1000, message.data)
