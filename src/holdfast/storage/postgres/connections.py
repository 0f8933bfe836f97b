"""Connections to PostgreSQL. A piece of work is done on one of them, and again on another if that was lost.

1. Every piece of work may be done twice: what it does the second time is nothing.
2. A connection on which something went wrong is cut off, never used again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.storage.postgres import schema
from holdfast.storage.postgres.connection import Connection
from holdfast.storage.postgres.options import PostgresOptions

Result = TypeVar("Result")

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

#: What passes: the server is away, stops, is full or has become a copy; somebody else was faster.
_PASSING: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.PostgresSystemError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.UniqueViolationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


class Connections:
    """At most so many, made when they are needed."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options: Final = options
        self._room: Final = asyncio.Semaphore(options.connections)
        self._idle: Final[list[Connection]] = []
        self._prepared = False

    async def run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """TransientError: a try failed and `give_up_s` have passed. PermanentError: PostgreSQL refuses it for good."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self._options.give_up_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._try(work, self._options.timeout_s)
            except _PASSING as error:
                reason = str(error) or f"no answer in {self._options.timeout_s:.3g} s"
                left_s = until_s - now_s()
                if left_s <= pause_s:
                    raise TransientError(f"PostgreSQL: {reason}") from error
            except asyncpg.PostgresError as error:
                raise PermanentError(f"PostgreSQL refused it: {error}") from error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _try(self, work: Callable[[Connection], Awaitable[Result]], timeout_s: float) -> Result:
        connection: Connection | None = None
        async with self._room:
            try:
                async with asyncio.timeout(timeout_s):
                    connection = self._idle.pop() if self._idle else await self._connect(timeout_s)
                    if not self._prepared:
                        await schema.prepare(connection, self._options.schema)
                        self._prepared = True
                    result = await work(connection)
            except BaseException:
                # Those that are idle are likely to be of a server that has gone.
                self._idle.extend([] if connection is None else [connection])
                self._cut_off()
                raise
            self._idle.append(connection)
            return result

    async def _connect(self, timeout_s: float) -> Connection:
        options = self._options
        chosen = {"application_name": "holdfast"}
        if options.synchronous_commit:
            chosen["synchronous_commit"] = options.synchronous_commit
        try:
            connection: Connection = await asyncpg.connect(
                options.url, timeout=timeout_s, server_settings=chosen, target_session_attrs="read-write"
            )
        except OSError:
            raise  # before the next: a certificate that is not trusted is a ValueError, too
        except (ValueError, asyncpg.ClientConfigurationError) as wrong:
            raise SettingsError(f"the URL of PostgreSQL: {wrong}") from wrong
        return connection

    def _cut_off(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=self._options.timeout_s)
            except _PASSING:
                connection.terminate()
