"""A pool of connections to PostgreSQL. Work that loses its connection is repeated on another.

1. All work is idempotent.
2. A connection with an error is closed and not used again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.storage.postgres import schema
from holdfast.storage.postgres.connection import PostgresConnection
from holdfast.storage.postgres.options import PostgresOptions

Result = TypeVar("Result")

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

#: Temporary errors: the server is away, stopping, full or a replica now, or a transaction has conflicted.
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


class PostgresPool:
    """At most `connections`, made when they are needed."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options: Final = options
        self._room: Final = asyncio.Semaphore(options.connections)
        self._idle: Final[list[PostgresConnection]] = []
        self._prepared = False

    async def run(self, work: Callable[[PostgresConnection], Awaitable[Result]]) -> Result:
        """TransientError: it failed for `give_up_s`. PermanentError: PostgreSQL refuses it for good."""
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

    async def _try(self, work: Callable[[PostgresConnection], Awaitable[Result]], timeout_s: float) -> Result:
        connection: PostgresConnection | None = None
        async with self._room:
            try:
                async with asyncio.timeout(timeout_s):
                    connection = self._idle.pop() if self._idle else await self._connect(timeout_s)
                    if not self._prepared:
                        await schema.prepare(connection, self._options.schema)
                        self._prepared = True
                    result = await work(connection)
            except BaseException:
                # Idle connections probably lead to the same server that is gone.
                for lost in [*self._idle, connection]:
                    if lost is not None:
                        lost.terminate()
                self._idle.clear()
                raise
            self._idle.append(connection)
            return result

    async def _connect(self, timeout_s: float) -> PostgresConnection:
        options = self._options
        chosen = {"application_name": "holdfast"}
        if options.synchronous_commit:
            chosen["synchronous_commit"] = options.synchronous_commit
        try:
            connection: PostgresConnection = await asyncpg.connect(
                options.url, timeout=timeout_s, server_settings=chosen, target_session_attrs="read-write"
            )
        except OSError:
            raise  # before the next clause: an untrusted certificate is a ValueError, too
        except (ValueError, asyncpg.ClientConfigurationError) as wrong:
            raise SettingsError(f"the URL of PostgreSQL: {wrong}") from wrong
        return connection

    async def close(self) -> None:
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=self._options.timeout_s)
            except _PASSING:
                connection.terminate()
