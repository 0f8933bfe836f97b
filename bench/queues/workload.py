"""Messages for many clients, in calls of bounded size; and what it takes to append and to drain them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueLimits, QueueStore
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed

PAYLOAD_BYTES = 64
#: Messages of one call, as they gather under load.
CALL = 2_000
_LIMITS = QueueLimits(100_000, 1 << 40)
#: Clients that are drained side by side, and messages read at a time.
_SIDE_BY_SIDE = 16
_PAGE = 500
_PAYLOAD = os.urandom(PAYLOAD_BYTES)


def client_name(place: int) -> str:
    return f"device-{place:06d}"


def entry(number: int) -> QueueEntry:
    message = Message(b"plant/hall/7/temperature", _PAYLOAD, 1, ClientId("gateway-1"), 1_700_000_000_000_000)
    return QueueEntry(number, Owed(message, 1))


def calls(clients: int, messages: int, first: int, size: int = CALL) -> Iterator[list[AppendBatch]]:
    """Each client gets its share, in packs that are as large as a call allows."""
    share = max(messages // clients, 1)
    pack = min(share, size)
    number = first
    waiting: list[AppendBatch] = []
    for _ in range(-(-share // pack)):
        for place in range(min(clients, messages)):
            entries = [entry(number + step) for step in range(pack)]
            number += pack
            waiting.append(AppendBatch(client_name(place), entries, _LIMITS))
            if len(waiting) * pack >= size:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


async def append_all(store: QueueStore, prepared: list[list[AppendBatch]]) -> float:
    """Messages per second, call after call: a client's packs come in their order."""
    began_s = time.perf_counter()
    for packs in prepared:
        _check(await store.append(packs))
    took_s = time.perf_counter() - began_s
    return sum(len(pack.entries) for packs in prepared for pack in packs) / took_s


def _check(answers: list[Appended | Exception]) -> None:
    for answer in answers:
        if not isinstance(answer, Appended):
            raise answer


async def drain(store: QueueStore, clients: int) -> float:
    """Messages per second, until the queues of these clients are empty."""
    waiting = [client_name(place) for place in range(clients)]
    drained = 0

    async def one() -> None:
        nonlocal drained
        while waiting:
            client_id = waiting.pop()
            after = 0
            while found := await store.read(client_id, after, _PAGE):
                after = found[-1].owed.serial
                await store.acknowledge([(client_id, [each.owed.serial for each in found])])
                drained += len(found)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_SIDE_BY_SIDE):
            group.create_task(one())
    return drained / (time.perf_counter() - began_s)
