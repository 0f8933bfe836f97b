"""Many packs in one transaction: lock, make room, give serials, insert.

1. All packs of a call are stored, or none of them is.
2. What was given before is not stored again: the last number is kept with the serial, in the same transaction.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from holdfast.durable.queue_store import Appended, Pack
from holdfast.storage.postgres.connection import Connection
from holdfast.storage.postgres.limits import Placement, QueueState, is_tight, place
from holdfast.storage.postgres.rows import row
from holdfast.storage.postgres.statements import Statements

#: How many of the oldest are looked at beyond those that surely have to go, if it is bytes that are too many.
_LOOK_AT: Final = 100


async def locked(connection: Connection, statements: Statements, clients: Iterable[str]) -> dict[str, QueueState]:
    """The state of queues that are there, locked until the transaction ends."""
    return states_of(await connection.fetch(statements.lock, list(clients)))


def states_of(rows: list[Any]) -> dict[str, QueueState]:
    found: dict[str, QueueState] = {}
    for client_id, serial, number, read, waiting, waiting_bytes, full in rows:
        state = found[client_id] = QueueState(client_id)
        state.is_new = False
        state.serial, state.number, state.read = serial, number, read
        state.waiting, state.waiting_bytes, state.full = waiting, waiting_bytes, full
    return found


def take_off(states: dict[str, QueueState], gone: list[Any]) -> set[str]:
    """Count messages that were removed no more; whose."""
    changed: set[str] = set()
    for client_id, serial, size_bytes in gone:
        state = states.get(client_id)
        if state is not None and serial > state.read:
            state.waiting -= 1
            state.waiting_bytes -= size_bytes
            changed.add(client_id)
    return changed


async def save(connection: Connection, statements: Statements, states: Iterable[QueueState], now_us: int) -> None:
    rows = [(s.client_id, s.serial, s.number, s.read, s.waiting, s.waiting_bytes, s.full, s.is_new) for s in states]
    if rows:
        await connection.execute(statements.save, now_us // 1000, *map(list, zip(*rows, strict=True)))


async def append(
    connection: Connection, statements: Statements, packs: list[Pack], bad: list[set[int]], now_us: int
) -> list[Appended]:
    """`bad` are the places of entries that cannot be stored, for each pack."""
    async with connection.transaction():
        states = await locked(connection, statements, [pack.client_id for pack in packs])
        for pack in packs:
            states.setdefault(pack.client_id, QueueState(pack.client_id))
        tight = [pack.client_id for pack in packs if is_tight(states[pack.client_id], pack.entries, pack.limits)]
        if tight:
            take_off(states, await connection.fetch(statements.prune, now_us, tight))
        placements = [
            place(states[pack.client_id], pack.entries, pack.limits, now_us, wrong)
            for pack, wrong in zip(packs, bad, strict=True)
        ]
        await _find_repeated(connection, statements, packs, placements)
        await _make_room(connection, statements, placements)
        rows = [row(each.state.client_id, placed, now_us) for each in placements for placed in each.stored]
        if rows:
            await connection.execute(statements.insert, *map(list, zip(*rows, strict=True)))
        await save(connection, statements, [each.state for each in placements], now_us)
    return [Appended(each.serials, each.dropped, each.refused) for each in placements]


async def _find_repeated(
    connection: Connection, statements: Statements, packs: list[Pack], placements: list[Placement]
) -> None:
    """Where messages are that were given before."""
    wanted: dict[tuple[str, int], tuple[Placement, int]] = {}
    runs: list[tuple[str, int, int]] = []
    for pack, placement in zip(packs, placements, strict=True):
        numbers = [pack.entries[index].number for index in placement.repeated]
        wanted.update({(pack.client_id, pack.entries[i].number): (placement, i) for i in placement.repeated})
        if numbers:
            runs.append((pack.client_id, min(numbers), max(numbers)))
    if runs:
        for client_id, number, serial in await connection.fetch(statements.find, *map(list, zip(*runs, strict=True))):
            if (client_id, number) in wanted:
                placement, index = wanted[client_id, number]
                placement.serials[index] = serial


async def _make_room(connection: Connection, statements: Statements, placements: list[Placement]) -> None:
    """Drop the oldest: of what was there before, then of the packs themselves."""
    going = {each.state.client_id: each for each in placements if each.over()}
    #: The last serial that goes, for each client.
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
