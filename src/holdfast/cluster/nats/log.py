"""An ordered log on a stream of NATS JetStream. JetStream orders and keeps records here, and does nothing else.

    the contract     JetStream
    ───────────────  ──────────────────────────────────────────────────────────────────────────────────
    append           a request to the stream's subject, without headers; the acknowledgement has the sequence
    read             an ephemeral consumer from a sequence on, pulled by `reader`
    ends             STREAM.INFO of a leader that hears from a majority
    trim             STREAM.PURGE below a sequence, never above the last one
    incarnation      random, in the stream's metadata

No message id, expected sequence, key-value bucket, time to live, direct get or batch is used. So an append that is
repeated gets a second sequence, and a lost answer is only that.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

import structlog

from holdfast.cluster.nats.append_watchdog import AppendWatchdog
from holdfast.cluster.nats.connection import ApiError, NatsConnection, decode_answer
from holdfast.cluster.nats.reader import LogSource, NatsReading
from holdfast.cluster.nats.streams import LogStream, check_stream, incarnation_of, stream_info
from holdfast.durable.ordered_log import (
    FIRST_SEQUENCE,
    Answered,
    AppendResult,
    LogEnds,
    LogReader,
    LogReading,
    UnknownOutcome,
)
from holdfast.model.clock import Clock
from holdfast.model.errors import MisuseError, TransientError
from holdfast.records.cluster.record import MAX_RECORD_BYTES

_log = structlog.get_logger()

#: Error of JetStream: the stream has reached its bytes.
_FULL: Final = 10077


class NatsOrderedLog:
    """An `OrderedLog`. Survives: with three copies, the loss of one server, at power loss too.

    1. Sequences are those of the stream, which gives out every one once.
    2. An append is answered once, with a sequence only if JetStream acknowledged it.
    3. `ends` is never that of a leader which another one has replaced.
    """

    def __init__(
        self,
        connection: NatsConnection,
        stream: LogStream,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        incarnation: str,
        max_bytes: int,
        is_leader: Callable[[], bool],
    ) -> None:
        """Use `open`, which reads the stream's settings back."""
        self._connection: Final = connection
        self._stream: Final = stream
        self._source: Final = LogSource(connection, stream)
        self._tasks: Final = tasks
        self._clock: Final = clock
        self._max_bytes: Final = max_bytes
        self._is_leader: Final = is_leader
        self._watchdog: Final = AppendWatchdog(clock)
        self._running: Final[set[asyncio.Task[None]]] = set()
        #: Appends since the log was opened, and who waits for their answers.
        self._appends = 0
        self._unanswered: Final[dict[int, Answered]] = {}
        self._closed = False
        #: As the caller knows it: a reading is of this one.
        self._incarnation = incarnation

    @classmethod
    async def open(
        cls,
        connection: NatsConnection,
        stream: LogStream,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        *,
        max_bytes: int = MAX_RECORD_BYTES,
        is_leader: Callable[[], bool] = lambda: False,
    ) -> "NatsOrderedLog":
        """Open a log whose stream exists. `tasks` owns its tasks, until `close`.

        `is_leader` tells whether this node leads the vnode: only that node asks a stuck leader of the stream to step
        down. TransientError: no answer, or no such stream. SettingsError: the stream has other settings.
        """
        info = await stream_info(connection, stream)
        check_stream(stream, info)
        return cls(connection, stream, tasks, clock, incarnation_of(info), max_bytes, is_leader)

    async def close(self) -> None:
        """Ensures: readers are not called any more; appends without an answer have ended as unknown."""
        self._closed = True
        unanswered = list(self._unanswered.values())
        self._unanswered.clear()
        for answered in unanswered:
            answered(UnknownOutcome("the log was closed"))
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    # ---- the contract

    def append(self, record: bytes, answered: Answered) -> None:
        if not record or len(record) > self._max_bytes:
            raise MisuseError(f"a record has {len(record)} bytes; the log takes 1 to {self._max_bytes}")
        if self._closed:
            raise MisuseError(f"the log {self._stream.name} is closed")
        began_us = self._clock.monotonic_us()
        self._appends += 1
        number = self._appends
        self._unanswered[number] = answered

        def replied(reply: bytes | TransientError) -> None:
            if self._unanswered.pop(number, None) is not None:
                answered(self._result(reply, began_us))

        self._connection.post(self._stream.subject, record, replied)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        reading = NatsReading(self._source, from_sequence, self._incarnation, reader)
        reading.task = self._start(reading.run())
        return reading

    async def ends(self) -> LogEnds:
        ends = await self._source.ends()
        self._incarnation = ends.incarnation
        return ends

    async def trim(self, before_sequence: int) -> None:
        ends = await self._source.ends()
        if before_sequence > ends.last:
            raise MisuseError(f"a trim before {before_sequence} would empty the log, whose last is {ends.last}")
        if before_sequence <= ends.first:
            return
        try:
            await self._connection.ask(f"STREAM.PURGE.{self._stream.name}", {"seq": before_sequence})
        except ApiError as refused:
            raise TransientError(str(refused)) from refused

    def ask_to_step_down(self, why: str) -> None:
        """Have the stream elect another leader, if it reports one."""
        self._start(self._ask_to_step_down(why))

    # ---- inside

    def _result(self, reply: bytes | TransientError, began_us: int) -> AppendResult:
        """What an append has come to."""
        try:
            if isinstance(reply, TransientError):
                raise reply
            answer = decode_answer(reply)
        except TransientError as error:
            if self._watchdog.unanswered(began_us) and self._is_leader() and not self._closed:
                self.ask_to_step_down("it answers no append")
            return UnknownOutcome(str(error))
        self._watchdog.answered()
        refused = answer.get("error")
        if refused is not None:
            full = refused.get("err_code") == _FULL
            return UnknownOutcome("the log is full" if full else f"JetStream refuses a record: {refused}")
        sequence = answer.get("seq")
        if not isinstance(sequence, int) or sequence < FIRST_SEQUENCE or answer.get("stream") != self._stream.name:
            return UnknownOutcome(f"the answer to a record is {answer}")
        self._source.acknowledged = max(self._source.acknowledged, sequence)
        return sequence

    async def _ask_to_step_down(self, why: str) -> None:
        name = self._stream.name
        try:
            leader = ((await stream_info(self._connection, self._stream)).get("cluster") or {}).get("leader")
            if leader:
                _log.warning("stream leader is asked to step down", stream=name, leader=leader, why=why)
                await self._connection.ask(f"STREAM.LEADER.STEPDOWN.{name}")
        except (TransientError, ApiError) as error:
            _log.warning("stream leader cannot be asked to step down", stream=name, why=str(error))

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        if self._closed:
            work.close()
            raise MisuseError(f"the log {self._stream.name} is closed")
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
