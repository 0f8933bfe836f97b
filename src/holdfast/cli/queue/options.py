"""Options of `holdfast queue`, and how its commands run and fail.

Exit codes: 0 done, 1 something is wrong with the data or a server is away, 2 wrong usage or not possible now,
130 Ctrl-C.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from holdfast.cli.commands import FAILED, INTERRUPTED, exit_on, fail
from holdfast.cli.options.broker import find_password
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.node.logs import configure_logs
from holdfast.node.system_clock import SystemClock
from holdfast.storage.queue_addresses import open_backend, view_backend

Result = TypeVar("Result")

_BACKEND_HELP: Final = (
    "Where the queues are: journal:FOLDER, redis://HOST:PORT/0#PREFIX, rediss://…, redis+cluster://HOST,HOST, "
    "postgresql://USER@HOST/DATABASE#SCHEMA."
)
Backend = Annotated[str, typer.Argument(metavar="BACKEND", help=_BACKEND_HELP, show_default=False)]
Clients = Annotated[
    list[str] | None, typer.Option("--client", help="Of this client only; may be given again.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class PasswordOptions:
    """The password of a backend."""

    password_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Take the backend's password from this variable.")
    ] = None
    password_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the backend's password from this file.")
    ] = None

    def password(self) -> str | None:
        return read_secret(self.password_env, self.password_file)

    def viewed(self, backend: str) -> AbstractAsyncContextManager[QueueStore]:
        """The backend, for reading."""
        return closed_at_end(view_backend(backend, SystemClock(), self.password()))

    def opened(self, backend: str, *, create: bool = False) -> AbstractAsyncContextManager[QueueStore]:
        """The backend, for changes."""
        return closed_at_end(open_backend(backend, SystemClock(), self.password(), create=create))


@asynccontextmanager
async def closed_at_end(opening: Awaitable[QueueStore]) -> AsyncIterator[QueueStore]:
    """Open a store for the length of the block."""
    store = await opening
    try:
        yield store
    finally:
        await store.close()


def read_secret(variable: str | None, file: Path | None) -> str | None:
    if variable is None and file is None:
        return None
    found = find_password("", variable, file)
    return None if found is None else found.decode()


def run(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a command; prints an error and exits if it fails."""
    configure_logs("warning", "auto")
    try:
        with exit_on(HoldfastError, code=FAILED), exit_on(SettingsError):
            return asyncio.run(work())
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on", INTERRUPTED)


async def choose_clients(store: QueueStore, clients: list[str] | None) -> list[str]:
    """The named clients, or all of them, sorted."""
    if clients:
        return sorted(set(clients))
    return sorted([client_id async for client_id in store.clients()])
