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

from holdfast.cluster.nats.connection import ApiError, NatsConnection
from holdfast.cluster.nats.protocol import HEARTBEAT, NatsMessage
from holdfast.cluster.nats.streams import LogStream, MissingStreamError, hears_majority, incarnation_of, stream_info
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
_EXPIRED: Final = b"408"
_BATCH_ENDS: Final = (b"Message Size Exceeds MaxBytes", b"Batch Completed")
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
        self._pull: _Pull | None = None
        #: What has come and was not taken yet.
        self._arrived: list[NatsMessage] = []
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
        inbox = await connection.subscribe(self._received)
        consumer = ""
        try:
            consumer = await self._make_consumer()
            await self._check_ends()
            self._fresh = True
            self._pull = _Pull(f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.{consumer}", inbox.subject)
            self._send_pull()
            await self._watch(self._pull)
        finally:
            self._pull = None
            self._arrived.clear()
            inbox.close()
            if consumer:
                self._forget(consumer)

    def _send_pull(self) -> None:
        """One pull at a time: what is under way is bounded, and nothing has to be told apart."""
        pull = self._pull
        if pull is not None:
            pull.left = _PULL_MESSAGES
            self._source.connection.publish(pull.subject, _PULL, pull.inbox)

    async def _watch(self, pull: "_Pull") -> None:
        """Wait until the consumer fails, is silent, or is behind what was acknowledged."""
        loop = asyncio.get_running_loop()
        pull.heard_s = pull.gave_s = loop.time()
        while not pull.failed.done():
            await asyncio.wait([pull.failed], timeout=_SILENCE_S / 4)
            now_s = loop.time()
            if self._source.acknowledged < self._next:
                pull.gave_s = now_s
            if pull.failed.done():
                break
            if now_s - pull.heard_s >= _SILENCE_S:
                raise TransientError(f"neither message nor heartbeat for {_SILENCE_S:g} s")
            if now_s - pull.gave_s > _SILENCE_S:
                raise TransientError(f"heartbeats, but not sequence {self._next}, which was acknowledged")
        raise pull.failed.result()

    def _received(self, message: NatsMessage) -> None:
        """A message of the consumer. Those of one read of the socket are given to the reader together."""
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._take)
        self._arrived.append(message)

    def _take(self) -> None:
        messages = self._arrived
        self._arrived = []
        pull = self._pull
        if pull is None or pull.failed.done() or not messages:
            return
        pull.heard_s = asyncio.get_running_loop().time()
        try:
            entries = [_decode(message) for message in messages if message.reply]
            pull.left -= len(entries)
            if entries:
                pull.gave_s = pull.heard_s
                self._give(entries)
            statuses = len(entries) < len(messages)
            if pull.left <= 0 or (statuses and _pull_ended([message for message in messages if not message.reply])):
                self._send_pull()
        except (TransientError, _StoppedError) as error:
            pull.failed.set_result(error)

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

    def _forget(self, consumer: str) -> None:
        try:
            self._source.connection.publish(f"$JS.API.CONSUMER.DELETE.{self._name}.{consumer}", b"")
        except TransientError as error:
            _log.debug("consumer is left to its server", consumer=consumer, why=str(error))


class _Pull:
    """What was asked of a consumer, and what has come of it."""

    def __init__(self, subject: str, inbox: str) -> None:
        self.subject: Final = subject
        self.inbox: Final = inbox
        self.left = 0
        #: When anything came last, and when a record did.
        self.heard_s = 0.0
        self.gave_s = 0.0
        #: Why the consumer is of no more use.
        self.failed: Final[asyncio.Future[Exception]] = asyncio.get_running_loop().create_future()


def _pull_ended(statuses: list[NatsMessage]) -> bool:
    """Whether the pull has ended. TransientError: so that the consumer is of no more use."""
    ended = False
    for message in statuses:
        if not _is_heartbeat(message):
            ended = True
            status, text = message.status(), message.description()
            if status != _EXPIRED and text not in _BATCH_ENDS:
                raise TransientError(f"JetStream ended a pull: {status.decode()} {text.decode('utf-8', 'replace')}")
    return ended


def _is_heartbeat(message: NatsMessage) -> bool:
    """A stored record has the reply subject of its acknowledgement; what JetStream says itself has none."""
    return not message.reply and message.status() == HEARTBEAT


def _decode(message: NatsMessage) -> LogEntry:
    """`$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.consumer-sequence.ns.pending[.token]`."""
    tokens = message.reply.split(b".")
    at = 5 if len(tokens) == _SHORT_REPLY else 7
    if len(tokens) != _SHORT_REPLY and len(tokens) < _LONG_REPLY:
        raise TransientError(f"a message without a sequence: {message.reply!r}")
    return LogEntry(int(tokens[at]), int(tokens[at + 2]) // 1000, message.data)
