"""The pull loop of a reader, on a connection that says what a test wants: gaps, repetitions, silence."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from holdfast.cluster.nats import reader as nats_reader
from holdfast.cluster.nats.connection import Answer, Inbox, NatsConnection, NatsOptions
from holdfast.cluster.nats.link import Received
from holdfast.cluster.nats.protocol import NatsMessage
from holdfast.cluster.nats.reader import LogSource, NatsReading
from holdfast.cluster.nats.streams import INCARNATION, LogStream
from holdfast.durable.ordered_log import LogEntry
from tests.conformance.ordered_logs import Collector

STREAM = LogStream("plant", "control", 1 << 20)
STAMP_NS = 1_700_000_000_123_456_789
HEARTBEAT = b"100 Idle Heartbeat"
EXPIRED = b"408 Request Timeout"
DELETED = b"409 Consumer Deleted"

_Made = TypeVar("_Made")

#: A number is a message with that sequence; bytes are a status.
Said = int | bytes


class ScriptedConnection(NatsConnection):
    """Each pull is answered by the next script. Without a further one there is silence."""

    def __init__(self, *scripts: list[Said], first: int = 1, last: int = 100) -> None:
        super().__init__(NatsOptions(("nats://127.0.0.1:1",), "node", "secret"))
        self.scripts = list(scripts)
        self.first, self.last, self.incarnation = first, last, "one"
        self.stamp_ns = STAMP_NS
        self.starts: list[int] = []
        self.deleted = 0
        self._receive: Received | None = None

    async def ask(self, call: str, body: Answer | None = None) -> Answer:
        if call.startswith("CONSUMER.CREATE."):
            assert body is not None
            config: dict[str, Any] = body["config"]
            assert (config["num_replicas"], config["mem_storage"], config["ack_policy"]) == (1, True, "none")
            self.starts.append(config["opt_start_seq"])
            return {"name": f"c{len(self.starts)}"}
        assert call == f"STREAM.INFO.{STREAM.name}"
        return {
            "config": {"metadata": {INCARNATION: self.incarnation}},
            "state": {"first_seq": self.first, "last_seq": self.last},
        }

    async def subscribe(self, received: Received) -> Inbox:
        self._receive = received

        def end() -> None:
            self._receive = None

        return Inbox("inbox", end)

    async def beat(self, times: int) -> None:
        """Heartbeats, for several times as long as a reader bears silence."""
        for _ in range(times):
            if self._receive is not None:
                self._receive(message(HEARTBEAT))
            await asyncio.sleep(0.01)

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        self.deleted += ".CONSUMER.DELETE." in subject
        if reply and self.scripts:
            assert self._receive is not None
            for said in self.scripts.pop(0):
                self._receive(message(said, self.stamp_ns))


def message(said: Said, stamp_ns: int = STAMP_NS, headers: bytes = b"") -> NatsMessage:
    if isinstance(said, bytes):
        return NatsMessage(b"inbox", 1, b"", b"NATS/1.0 %b\r\n\r\n" % said, b"")
    reply = f"$JS.ACK.{STREAM.name}.c.1.{said}.1.{stamp_ns}.0"
    return NatsMessage(STREAM.subject.encode(), 1, reply.encode(), headers, b"%d" % said)


@pytest.fixture(autouse=True)
def _short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_reader, "_SILENCE_S", 0.05)
    monkeypatch.setattr(nats_reader, "_FIRST_PAUSE_S", 0.0)


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it lets time pass: timeouts and sleeps end in their order, however busy the machine is."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0.0
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only while there is nothing to do."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run(work: Coroutine[Any, Any, _Made]) -> _Made:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def collect(connection: ScriptedConnection, count: int, from_sequence: int = 1) -> Collector:
    """The reader, once it has so many entries, or is stopped if `count` is 0."""

    async def act() -> Collector:
        reader = Collector()
        async with asyncio.TaskGroup() as tasks:
            reading = NatsReading(LogSource(connection, STREAM), from_sequence, "one", reader)
            reading.task = tasks.create_task(reading.run())
            await (reader.until(count) if count else reader.until_stopped())
            reading.close()
        return reader

    return run(act())


def sequences(reader: Collector) -> list[int]:
    return [entry.sequence for entry in reader.found]


def test_an_entry_has_its_sequence_its_stamp_and_its_bytes() -> None:
    [entry] = collect(ScriptedConnection([7]), 1, 7).found
    assert (entry.sequence, entry.stamp_us, entry.record) == (7, 1_700_000_000_123_456, b"7")


def test_the_longer_reply_subject_of_newer_servers_is_understood() -> None:
    reply = b"$JS.ACK._.hash.stream.c.1.7.1.1700000000123456789.0.token"
    entry = nats_reader._decode(NatsMessage(STREAM.subject.encode(), 1, reply, b"", b"x"))
    assert (entry.sequence, entry.stamp_us) == (7, 1_700_000_000_123_456)


def test_a_stored_message_is_no_heartbeat_whatever_its_headers_say() -> None:
    assert not nats_reader._is_heartbeat(message(7, headers=message(HEARTBEAT).headers))
    assert nats_reader._is_heartbeat(message(HEARTBEAT))


def test_a_gap_makes_the_consumer_again_from_the_last_entry_on() -> None:
    connection = ScriptedConnection([1, 2, 4, 5], [2, 3, 4, 5])
    assert sequences(collect(connection, 5)) == [1, 2, 3, 4, 5]
    assert connection.starts == [1, 2]


def test_a_sequence_that_was_given_already_is_passed_over() -> None:
    assert sequences(collect(ScriptedConnection([1, 2, 2, 1, 3]), 3)) == [1, 2, 3]


def test_silence_makes_the_consumer_again_and_removes_the_old_one() -> None:
    connection = ScriptedConnection([1, HEARTBEAT], [1, 2])
    assert sequences(collect(connection, 2)) == [1, 2]
    assert connection.starts == [1, 1]
    assert connection.deleted == 2  # and the last one, when the reading was closed


@pytest.mark.parametrize(("acknowledged", "consumers"), [(1, 2), (0, 1)])
def test_heartbeats_keep_a_consumer_unless_a_record_that_was_acknowledged_does_not_come(
    acknowledged: int, consumers: int
) -> None:
    connection = ScriptedConnection([], [1])

    async def act() -> None:
        reader = Collector()
        source = LogSource(connection, STREAM)
        source.acknowledged = acknowledged
        async with asyncio.TaskGroup() as tasks:
            reading = NatsReading(source, 1, "one", reader)
            reading.task = tasks.create_task(reading.run())
            await connection.beat(30)
            reading.close()
        assert len(reader.found) == acknowledged

    run(act())
    assert len(connection.starts) == consumers


def test_a_pull_that_ended_by_time_is_followed_by_the_next_one_on_the_same_consumer() -> None:
    connection = ScriptedConnection([1, EXPIRED], [HEARTBEAT, 2])
    assert sequences(collect(connection, 2)) == [1, 2]
    assert connection.starts == [1]


def test_a_consumer_that_was_deleted_is_made_again() -> None:
    connection = ScriptedConnection([1, DELETED], [1, 2])
    assert sequences(collect(connection, 2)) == [1, 2]
    assert connection.starts == [1, 1]


def test_a_log_that_lost_its_end_and_has_grown_again_stops_the_reading() -> None:
    """A19: the ends are as they should be, and the last entry is another one."""
    connection = ScriptedConnection([1, 2, DELETED], [2, 3])
    reader = Collector()

    async def act() -> None:
        async with asyncio.TaskGroup() as tasks:
            reading = NatsReading(LogSource(connection, STREAM), 1, "one", reader)
            reading.task = tasks.create_task(reading.run())
            await reader.until(2)
            connection.stamp_ns += 1_000_000
            await reader.until_stopped()

    run(act())
    assert sequences(reader) == [1, 2]
    assert "sequence 2 is another record than before" in reader.why


def test_a_reading_goes_on_if_the_last_entry_was_trimmed() -> None:
    connection = ScriptedConnection([1, 2, DELETED], [3, 4])
    reader = Collector()

    async def act() -> None:
        async with asyncio.TaskGroup() as tasks:
            reading = NatsReading(LogSource(connection, STREAM), 1, "one", reader)
            reading.task = tasks.create_task(reading.run())
            await reader.until(2)
            connection.first = 3
            await reader.until(4)
            reading.close()

    run(act())
    assert sequences(reader) == [1, 2, 3, 4]


def test_a_reader_that_closes_its_reading_is_not_stopped_as_well() -> None:
    class Closing(Collector):
        def entries(self, entries: list[LogEntry]) -> None:
            super().entries(entries)
            reading.close()

    async def act() -> None:
        async with asyncio.TaskGroup() as tasks:
            reading.task = tasks.create_task(reading.run())

    closing = Closing()
    reading = NatsReading(LogSource(ScriptedConnection([1, 3]), STREAM), 1, "one", closing)
    run(act())
    assert sequences(closing) == [1]
    assert not closing.why


@pytest.mark.parametrize("again", [[4, 5], [2, 4, 5]])
def test_a_record_that_is_missing_in_the_middle_stops_the_reading(again: list[Said]) -> None:
    reader = collect(ScriptedConnection([1, 2, 4], again), 0)
    assert sequences(reader) == [1, 2]
    assert "sequence 3 is missing" in reader.why


def test_a_log_that_was_trimmed_above_the_next_sequence_stops_the_reading() -> None:
    reader = collect(ScriptedConnection([5], first=5), 0, 3)
    assert sequences(reader) == []
    assert "sequence 3 is not in [5, 101]" in reader.why


def test_a_log_of_another_incarnation_stops_the_reading_before_its_first_entry() -> None:
    connection = ScriptedConnection([1])
    connection.incarnation = "two"
    reader = collect(connection, 0)
    assert sequences(reader) == []
    assert "another one" in reader.why
