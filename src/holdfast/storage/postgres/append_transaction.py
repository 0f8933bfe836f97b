"""Many batches in one transaction: lock, make room, give serials, insert.

1. All batches of a call are stored, or none of them is.
2. A number is not stored twice: the last number is kept with the serial, in the same transaction.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from holdfast.durable.queues.queue_store import AppendBatch, Appended
from holdfast.storage.postgres.connection import PostgresConnection
from holdfast.storage.postgres.limits import Placement, PostgresQueueState, is_tight, place
from holdfast.storage.postgres.rows import row
from holdfast.storage.postgres.statements import Statements

#: How many more of the oldest messages are read when a limit of bytes is exceeded.
_LOOK_AT: Final = 100


async def lock_queues(
    connection: PostgresConnection, statements: Statements, clients: Iterable[str]
) -> dict[str, PostgresQueueState]:
    """Lock the queues that exist until the transaction ends; their states, by client."""
    return states_of(await connection.fetch(statements.lock, list(clients)))


def states_of(rows: list[Any]) -> dict[str, PostgresQueueState]:
    return {row[0]: PostgresQueueState(*row, is_new=False) for row in rows}


def take_off(states: dict[str, PostgresQueueState], gone: list[Any]) -> set[str]:
    """Subtract removed messages from the counts; returns the clients."""
    changed: set[str] = set()
    for client_id, serial, size_bytes in gone:
        state = states.get(client_id)
        if state is not None and serial > state.read:
            state.waiting -= 1
            state.waiting_bytes -= size_bytes
            changed.add(client_id)
    return changed


async def save_states(
    connection: PostgresConnection, statements: Statements, states: Iterable[PostgresQueueState], now_us: int
) -> None:
    rows = [(s.client_id, s.serial, s.number, s.read, s.waiting, s.waiting_bytes, s.full, s.is_new) for s in states]
    if rows:
        await connection.execute(statements.save, now_us // 1000, *map(list, zip(*rows, strict=True)))


async def append(
    connection: PostgresConnection, statements: Statements, batches: list[AppendBatch], bad: list[set[int]], now_us: int
) -> list[Appended]:
    """`bad` are the indexes of entries that cannot be stored, for each batch."""
    async with connection.transaction():
        states = await lock_queues(connection, statements, [batch.client_id for batch in batches])
        for batch in batches:
            states.setdefault(batch.client_id, PostgresQueueState(batch.client_id))
        tight = [batch.client_id for batch in batches if is_tight(states[batch.client_id], batch.entries, batch.limits)]
        if tight:
            take_off(states, await connection.fetch(statements.prune, now_us, tight))
        placements = [
            place(states[batch.client_id], batch.entries, batch.limits, now_us, wrong)
            for batch, wrong in zip(batches, bad, strict=True)
        ]
        await _find_repeated(connection, statements, batches, placements)
        await _make_room(connection, statements, placements)
        rows = [row(each.state.client_id, placed, now_us) for each in placements for placed in each.stored]
        if rows:
            await connection.execute(statements.insert, *map(list, zip(*rows, strict=True)))
        await save_states(connection, statements, [each.state for each in placements], now_us)
    return [Appended(each.serials, each.dropped, each.refused) for each in placements]


async def _find_repeated(
    connection: PostgresConnection, statements: Statements, batches: list[AppendBatch], placements: list[Placement]
) -> None:
    """Find the serials of messages that were stored before."""
    wanted: dict[tuple[str, int], tuple[Placement, int]] = {}
    runs: list[tuple[str, int, int]] = []
    for batch, placement in zip(batches, placements, strict=True):
        numbers = [batch.entries[index].number for index in placement.repeated]
        wanted.update({(batch.client_id, batch.entries[i].number): (placement, i) for i in placement.repeated})
        if numbers:
            runs.append((batch.client_id, min(numbers), max(numbers)))
    if runs:
        for client_id, number, serial in await connection.fetch(statements.find, *map(list, zip(*runs, strict=True))):
            if (client_id, number) in wanted:
                placement, index = wanted[client_id, number]
                placement.serials[index] = serial


async def _make_room(connection: PostgresConnection, statements: Statements, placements: list[Placement]) -> None:
    """Drop the oldest messages: first older ones, then those of the batches."""
    going = {each.state.client_id: each for each in placements if each.over()}
    #: The last serial that is dropped, for each client.
    after = {client_id: each.state.read for client_id, each in going.items()}
    looking = dict(going)
    while looking:
        asked = [
            (client_id, after[client_id], max(each.state.waiting - each.limits.max_messages, 0) + _LOOK_AT)
            for client_id, each in looking.items()
        ]
        pages: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for client_id, serial, size_bytes in await connection.fetch(
            statements.oldest, *map(list, zip(*asked, strict=True))
        ):
            pages[client_id].append((serial, size_bytes))
        for client_id, _, most in asked:
            each = looking[client_id]
            for serial, size_bytes in pages[client_id]:
                if not each.over():
                    break
                each.state.waiting -= 1
                each.state.waiting_bytes -= size_bytes
                each.dropped += 1
                after[client_id] = serial
            if not each.over() or len(pages[client_id]) < most:
                del looking[client_id]
    runs = [
        (client_id, each.state.read + 1, after[client_id])
        for client_id, each in going.items()
        if after[client_id] > each.state.read
    ]
    if runs:
        await connection.fetch(statements.remove, *map(list, zip(*runs, strict=True)))
    for each in going.values():
        each.drop_own()
