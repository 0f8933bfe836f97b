"""Messages for queues, and the clock that tells when they expire."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.durable.queues.queue_store import DROP_OLDEST, AppendBatch, Appended, QueueEntry, QueueLimits, QueueStore
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed

Result = TypeVar("Result")

PLENTY = QueueLimits(1_000_000, 1_000_000_000)
SECOND_US = 1_000_000


def limits(
    max_messages: int, max_bytes: int = 1_000_000_000, ttl_s: int = 0, *, on_full: str = DROP_OLDEST
) -> QueueLimits:
    return QueueLimits(max_messages, max_bytes, ttl_s, on_full=on_full)


def entry(
    number: int,
    payload: bytes | None = None,
    *,
    qos: int = 1,
    expires_us: int = 0,
    topic: bytes = b"plant/7/level",
    properties: bytes = b"",
    received_us: int = 1_700_000_000_000_000,
) -> QueueEntry:
    payload = b"%d" % number if payload is None else payload
    message = Message(
        topic, payload, qos, ClientId("sensor"), received_us, properties=properties, expires_us=expires_us
    )
    return QueueEntry(number, Owed(message, qos, identifiers=(7,) if number % 2 else ()), expires_us)


def entries(*numbers: int) -> list[QueueEntry]:
    return [entry(number) for number in numbers]


async def append(store: QueueStore, client_id: str, given: list[QueueEntry], most: QueueLimits = PLENTY) -> Appended:
    (answer,) = await store.append([AppendBatch(client_id, given, most)])
    if isinstance(answer, Exception):
        raise answer
    return answer


async def payloads(store: QueueStore, client_id: str, after: int = 0, limit: int = 1_000_000) -> list[bytes]:
    return [found.message.payload for found in await store.read(client_id, after, limit)]


async def numbers(store: QueueStore, client_id: str, after: int = 0, limit: int = 1_000_000) -> list[int]:
    return [found.number for found in await store.read(client_id, after, limit)]


class Steps:
    """Runs coroutines on one loop, because a store's connections belong to theirs."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.clock = ManualClock()

    def __call__(self, step: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(step)

    def close(self) -> None:
        self._runner.close()
