"""Appends, ends and trims, on a connection that answers what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.cluster.nats.connection import Answer, NatsConnection, NatsOptions, Replied
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import INCARNATION, LogStream
from holdfast.durable.ordered_log import AppendResult, UnknownOutcome
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError, TransientError
from tests.conformance.ordered_logs import append

STREAM = LogStream("plant", "control", 1 << 20)


class AnsweringConnection(NatsConnection):
    """Answers each append with what the test has put there; without that it is silent."""

    def __init__(self, *answers: object) -> None:
        super().__init__(NatsOptions(("nats://127.0.0.1:1",), "node", "secret"))
        self.answers = list(answers)
        self.first, self.last = 0, 0
        self.purged: list[Answer | None] = []

    def post(self, subject: str, payload: bytes, replied: Replied, timeout_s: float = 0.0) -> None:
        assert subject == STREAM.subject
        if self.answers:
            answer = self.answers.pop(0)
            known = answer if isinstance(answer, (bytes, TransientError)) else json.dumps(answer).encode()
            asyncio.get_running_loop().call_soon(replied, known)

    async def ask(self, call: str, body: Answer | None = None) -> Answer:
        if call.startswith("STREAM.PURGE."):
            self.purged.append(body)
            return {"success": True}
        state = {"first_seq": self.first, "last_seq": self.last}
        return {"config": {"metadata": {INCARNATION: "one"}}, "state": state}


def run(connection: AnsweringConnection, act: Callable[[NatsOrderedLog], Awaitable[None]]) -> None:
    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            log = NatsOrderedLog(connection, STREAM, tasks, ManualClock(), "one", 100, lambda: True)
            await act(log)
            await log.close()

    asyncio.run(both())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (TransientError("no answer in 2 s"), "no answer in 2 s"),
        ({"error": {"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}}, "the log is full"),
        ({"error": {"code": 400, "err_code": 10060, "description": "other"}}, "JetStream refuses a record"),
        (b"no JSON", "no JSON"),
        ({"stream": "another", "seq": 7}, "the answer to a record is"),
        ({"stream": STREAM.name, "seq": 0}, "the answer to a record is"),
        ({"stream": STREAM.name}, "the answer to a record is"),
    ],
)
def test_whatever_is_no_sequence_is_an_unknown_outcome(answer: Any, why: str) -> None:
    async def act(log: NatsOrderedLog) -> None:
        result = await append(log, b"a")
        assert isinstance(result, UnknownOutcome)
        assert why in result.why

    run(AnsweringConnection(answer), act)


def test_an_acknowledgement_of_the_stream_is_a_sequence() -> None:
    async def act(log: NatsOrderedLog) -> None:
        assert await append(log, b"a") == 7

    run(AnsweringConnection({"stream": STREAM.name, "seq": 7}), act)


@pytest.mark.parametrize("started", [True, False])
def test_an_append_that_a_close_interrupts_is_answered_once_as_unknown(*, started: bool) -> None:
    answers: list[AppendResult] = []

    async def act(log: NatsOrderedLog) -> None:
        log.append(b"a", answers.append)
        if started:
            await asyncio.sleep(0)
        await log.close()
        assert answers == [UnknownOutcome("the log was closed")]
        with pytest.raises(MisuseError):
            log.append(b"a", answers.append)

    run(AnsweringConnection(), act)
    assert len(answers) == 1


def test_a_trim_purges_below_a_sequence_that_is_there_and_nothing_else() -> None:
    connection = AnsweringConnection()
    connection.first, connection.last = 3, 9

    async def act(log: NatsOrderedLog) -> None:
        for unchanged in (0, 1, 3):
            await log.trim(unchanged)
        assert connection.purged == []
        for above in (10, 11):
            with pytest.raises(MisuseError):
                await log.trim(above)
        assert connection.purged == []
        await log.trim(9)
        assert connection.purged == [{"seq": 9}]

    run(connection, act)


@pytest.mark.parametrize(("first", "last", "ends"), [(0, 0, (1, 0)), (1, 5, (1, 5)), (6, 5, (6, 5))])
def test_the_ends_of_an_empty_stream_are_those_of_an_empty_log(first: int, last: int, ends: tuple[int, int]) -> None:
    connection = AnsweringConnection()
    connection.first, connection.last = first, last

    async def act(log: NatsOrderedLog) -> None:
        found = await log.ends()
        assert (found.first, found.last, found.incarnation) == (*ends, "one")

    run(connection, act)
