"""The queues of all clients in PostgreSQL (`durable/queues/queue_store.py`)."""

from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from typing import Final

import structlog

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError
from holdfast.storage.postgres import append_transaction
from holdfast.storage.postgres.connection import PostgresConnection
from holdfast.storage.postgres.connection_pool import PostgresPool
from holdfast.storage.postgres.options import PostgresOptions
from holdfast.storage.postgres.rows import check, decode_client, decode_row, encode_client
from holdfast.storage.postgres.statements import Statements

#: The most rows of one DELETE, so that its locks are short.
_BATCH: Final = 1_000
_DROP_BATCH: Final = 10_000

_log = structlog.get_logger()


class PostgresQueues:
    """Survives: what `synchronous_commit` says; with the server's defaults, a power loss."""

    def __init__(self, options: PostgresOptions, clock: Clock) -> None:
        """It connects with the first call, which also makes the tables or migrates them."""
        self._clock: Final = clock
        self._pool: Final = PostgresPool(options)
        self._statements: Final = Statements(options.schema)

    async def append(self, batches: list[AppendBatch]) -> list[Appended | Exception]:
        wanted = [
            AppendBatch(encode_client(batch.client_id), batch.entries, batch.limits)
            for batch in batches
            if _is_text(batch.client_id)
        ]
        bad = [_bad_entries(batch) for batch in wanted]
        now_us = self._clock.wall_us()

        async def work(connection: PostgresConnection) -> list[Appended]:
            return await append_transaction.append(connection, self._statements, wanted, bad, now_us)

        done: Iterator[Appended | Exception]
        try:
            done = iter(await self._pool.run(work))
        except HoldfastError as error:
            done = repeat(error)
        return [next(done) if _is_text(batch.client_id) else _not_text(batch.client_id) for batch in batches]

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        """A message that cannot be read is set aside and logged once; the next read returns the rest."""
        statements, now_us = self._statements, self._clock.wall_us()
        client = encode_client(client_id)

        async def work(connection: PostgresConnection) -> list[QueueEntry] | PermanentError:
            async with connection.transaction():
                state = (await append_transaction.lock_queues(connection, statements, [client])).get(client)
                if state is None:
                    return []
                rows = await connection.fetch(statements.page, client, after, now_us, limit)
                if rows and rows[-1][0] > state.read:
                    # Messages between the last read and this one count as read, too.
                    up_to = rows[-1][0]
                    passed = await connection.fetchrow(statements.passed, client, state.read, up_to)
                    await connection.execute(statements.mark, client, up_to, *passed)
                entries: list[QueueEntry] = []
                damaged: dict[int, str] = {}
                for row in rows:
                    try:
                        entries.append(decode_row(row))
                    except PermanentError as wrong:
                        damaged[row[0]] = str(wrong)
                if damaged:
                    await connection.execute(statements.set_aside, client, list(damaged))
                    told = "; ".join(f"message {serial}: {reason}" for serial, reason in damaged.items())
                    return PermanentError(f"set aside, as rows with serials below 0: {told}")
            return entries

        found = await self._pool.run(work)
        if isinstance(found, PermanentError):
            raise found
        return found

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        runs = [(encode_client(client_id), low, high) for client_id, serials in done for low, high in _runs(serials)]
        if runs:
            await self._pool.run(lambda connection: self._remove(connection, runs))

    async def _remove(self, connection: PostgresConnection, runs: list[tuple[str, int, int]]) -> int:
        """Returns how many were removed."""
        async with connection.transaction():
            states = await append_transaction.lock_queues(connection, self._statements, {run[0] for run in runs})
            gone = await connection.fetch(self._statements.remove, *map(list, zip(*runs, strict=True)))
            changed = append_transaction.take_off(states, gone)
            await append_transaction.save_states(
                connection, self._statements, [states[client_id] for client_id in changed], self._clock.wall_us()
            )
            return len(gone)

    async def release(self, client_id: str, serials: list[int]) -> None:
        client = encode_client(client_id)
        await self._pool.run(lambda connection: connection.execute(self._statements.release, client, serials))

    async def size(self, client_id: str) -> QueueSize:
        client = encode_client(client_id)
        found = await self._pool.run(
            lambda connection: connection.fetchrow(self._statements.size, client, self._clock.wall_us())
        )
        return QueueSize(*found)

    async def last(self, client_id: str) -> tuple[int, int]:
        client = encode_client(client_id)
        found = await self._pool.run(lambda connection: connection.fetch(self._statements.look, [client]))
        state = append_transaction.states_of(found).get(client)
        return (0, 0) if state is None else (state.serial, state.number)

    async def drop(self, client_ids: list[str]) -> None:
        """Messages that arrive for these clients after this call are not removed, even if it is executed later."""
        statements = self._statements
        clients = [encode_client(client_id) for client_id in client_ids if _is_text(client_id)]
        found = await self._pool.run(lambda connection: connection.fetch(statements.look, clients))
        states = append_transaction.states_of(found)
        if not states:
            return
        given = (list(states), [state.number for state in states.values()])

        async def work(connection: PostgresConnection) -> None:
            while True:
                done = await connection.execute(statements.empty, *given, _DROP_BATCH)
                if done == "DELETE 0":
                    break
            await connection.execute(statements.forget, *given)

        await self._pool.run(work)

    async def clients(self) -> AsyncIterator[str]:
        statements = self._statements
        found = await self._pool.run(lambda connection: connection.fetch(statements.first_client, _BATCH))
        while found:
            for (client_id,) in found:
                yield decode_client(client_id)
            last = found[-1][0]
            found = await self._pool.run(
                lambda connection, last=last: connection.fetch(statements.clients, last, _BATCH)  # type: ignore[misc]
            )

    async def sweep(self, now_us: int) -> int:
        found = await self._pool.run(lambda connection: connection.fetch(self._statements.expired, now_us, _BATCH))
        if not found:
            return 0
        runs = [(client_id, serial, serial) for client_id, serial in found]
        return await self._pool.run(lambda connection: self._remove(connection, runs))

    async def close(self) -> None:
        await self._pool.close()


def _is_text(client_id: str) -> bool:
    """Whether it is UTF-8. MQTT has no other client ids."""
    try:
        client_id.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_text(client_id: str) -> PermanentError:
    return PermanentError(f"PostgreSQL cannot store the client id {client_id!r}")


def _bad_entries(batch: AppendBatch) -> set[int]:
    """Indexes of entries that cannot be stored; the rest of the batch is stored."""
    bad: set[int] = set()
    for place, entry in enumerate(batch.entries):
        try:
            check(entry)
        except MisuseError as wrong:
            bad.add(place)
            _log.warning("a message cannot be stored in PostgreSQL", client=batch.client_id, reason=str(wrong))
    return bad


def _runs(serials: list[int]) -> list[tuple[int, int]]:
    """First and last of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for serial in sorted(serials):
        if found and serial <= found[-1][1] + 1:
            found[-1] = (found[-1][0], serial)
        else:
            found.append((serial, serial))
    return found
