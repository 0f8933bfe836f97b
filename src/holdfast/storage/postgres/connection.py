"""The part of asyncpg's connection that is used, as a type: asyncpg has few."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class PostgresConnection(Protocol):
    async def execute(self, query: str, *arguments: Any) -> str: ...

    async def fetch(self, query: str, *arguments: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *arguments: Any) -> Any: ...

    async def fetchval(self, query: str, *arguments: Any) -> Any: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float) -> None: ...  # noqa: ASYNC109
