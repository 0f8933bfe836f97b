"""`holdfast queue migrate`, `relayout`, `export` and `import`: queues moved to another place.

A command that was interrupted continues when it is run again. A failing `import` leaves no partial queue.
"""

import asyncio
import json
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from holdfast.cli.commands import FAILED, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.file import open_output
from holdfast.cli.output.meter import Meter
from holdfast.cli.queue.options import (
    Backend,
    Clients,
    PasswordOptions,
    choose_clients,
    closed_at_end,
    read_secret,
    run,
)
from holdfast.durable.queues.external_queue import session_of
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.node.system_clock import SystemClock
from holdfast.session.state import NEVER
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.journal.queue_folders import relayout as relayout_journal
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.queue_addresses import open_backend, parse_backend
from holdfast.storage.queue_copy import BackendSource, QueueSource, copy_queue
from holdfast.storage.queue_file import QueueFile, QueueFileWriter
from holdfast.storage.rocks.sessions.session_backends import change_queue_backends
from holdfast.storage.rocks.sessions.session_import import SessionImport

#: The most reasons that are printed one by one.
_SHOWN: Final = 20


class Moved(NamedTuple):
    """The result of moving queues."""

    queues: int
    messages: int
    #: Clients whose queues were not moved, and why.
    failed: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class MovePasswords:
    """The passwords of both backends."""

    from_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of the old backend.")] = (
        None
    )
    from_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of the old backend.")] = None
    to_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of the new backend.")] = None
    to_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of the new backend.")] = None

    def old(self) -> str | None:
        return read_secret(self.from_password_env, self.from_password_file)

    def new(self) -> str | None:
        return read_secret(self.to_password_env, self.to_password_file)


@grouped
def migrate(
    source: Annotated[str, typer.Option("--from", metavar="BACKEND", help="Where the queues are.")],
    target: Annotated[str, typer.Option("--to", metavar="BACKEND", help="Where they are to be.")],
    clients: Clients = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The broker's data folder, for a backend of another kind: its sessions then look in the new backend."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the queues in the old backend, too.")] = False,
    as_json: Json = False,
    *,
    passwords: MovePasswords,
) -> None:
    """Move queues to another backend. Each is compared there, message by message, before it is removed here.

    No broker may use them meanwhile. After an interruption, run it again to continue.
    """

    async def work() -> Moved:
        clock = SystemClock()
        kinds = parse_backend(source).kind, parse_backend(target).kind
        if parse_backend(source) == parse_backend(target):
            raise SettingsError("--from and --to are the same backend")
        if kinds[0] != kinds[1] and data is None and not keep:
            raise SettingsError(
                f"sessions remember that their queues are in {kinds[0]}; name the broker's data folder with --data, so "
                f"that they look in {kinds[1]}, or copy with --keep"
            )
        async with (
            closed_at_end(open_backend(source, clock, passwords.old())) as old,
            closed_at_end(open_backend(target, clock, passwords.new(), create=True)) as new,
        ):
            moved = await _copy_all("migrate", BackendSource(old), new, await choose_clients(old, clients))
            done = {client_id for client_id in await choose_clients(old, clients) if client_id not in moved.failed}
            if data is not None and kinds[0] != kinds[1]:
                # Before the old queues are removed: after an interruption both exist, and sessions use one of them.
                await asyncio.to_thread(change_queue_backends, data, done, *kinds)
            if not keep:
                await old.drop(sorted(done))
            return moved

    _report(run(work), as_json=as_json, verb="moved")


async def _copy_all(
    what: str, source: QueueSource, target: QueueStore, clients: list[str], *, whole: bool = False
) -> Moved:
    """With `whole`, a queue that this call began and did not finish is removed again."""
    clock = SystemClock()
    queues, messages = 0, 0
    failed: dict[str, str] = {}
    with Meter(what) as meter:

        def told(copied: int) -> None:
            if meter.is_due():
                share = (queues + len(failed)) / max(1, len(clients))
                meter.update(share, f"{queues} queues, {messages + copied} messages")

        for client_id in clients:
            is_ours = whole and await target.last(client_id) == (0, 0)
            try:
                messages += (await copy_queue(source, target, client_id, clock.wall_us, told)).messages
                queues += 1
            except (PermanentError, asyncio.CancelledError) as error:
                if is_ours:
                    await target.drop([client_id])
                if isinstance(error, asyncio.CancelledError):
                    raise
                failed[client_id] = str(error)
            told(0)
    return Moved(queues, messages, failed)


def _report(moved: Moved, *, as_json: bool, verb: str) -> None:
    if as_json:
        typer.echo(json.dumps(moved._asdict(), ensure_ascii=False))
    else:
        typer.echo(f"{moved.queues} queues {verb}, {moved.messages} messages; all were compared")
        for client_id, why in list(moved.failed.items())[:_SHOWN]:
            typer.echo(f"not {verb}: {client_id!r}: {why}", err=True)
    if moved.failed:
        raise typer.Exit(FAILED)


@grouped
def relayout(
    backend: Backend,
    fragments: Annotated[
        str, typer.Option(metavar="LENGTHS", help="Letters of each folder on the way to a queue, such as 2,2,2,2.")
    ],
) -> None:
    """Move the queues of a journal into folders of other names. Its broker is stopped meanwhile."""
    folder = parse_backend(backend).folder if backend.startswith("journal:") else None
    if folder is None or not folder.is_dir():
        fail(f"{backend} is no journal: relayout is for journal:FOLDER")
    try:
        lengths = tuple(int(part) for part in fragments.split(","))
    except ValueError:
        fail(f"--fragments {fragments}: numbers with commas between them, such as 2,2,2,2")

    async def work() -> int:
        # Opening and closing it recovers the changes that a killed broker has left.
        await (await JournalStore.open(folder, SystemClock())).close()
        lock = FolderLock.acquire(folder)
        try:
            with Meter("relayout") as meter:
                return relayout_journal(
                    folder, lengths, lambda moved: meter.update(None, f"{moved} queues") if meter.is_due() else None
                )
        finally:
            lock.release()

    typer.echo(f"{run(work)} queues moved; folders have {fragments} letters now")


@grouped
def export(
    backend: Backend,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to be made.")],
    clients: Clients = None,
    *,
    options: PasswordOptions,
) -> None:
    """Write queues to a file, which any backend can import. The file appears when it is complete."""

    async def work() -> QueueFileWriter:
        async with options.viewed(backend) as store:
            source = BackendSource(store)
            with open_output(output) as file, Meter("export") as meter:
                writer = QueueFileWriter(file)
                for client_id in await choose_clients(store, clients):
                    writer.queue(client_id, *await source.last(client_id))
                    async for entry in source.entries(client_id):
                        writer.message(entry)
                    if meter.is_due():
                        meter.update(None, f"{writer.queues} queues, {writer.messages} messages")
                writer.end()
            return writer

    written = run(work)
    typer.echo(f"{output}: {written.queues} queues, {written.messages} messages, {os.stat(output).st_size} bytes")


@grouped
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that export made.")],
    backend: Backend,
    clients: Clients = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The data folder of the broker, which is stopped: clients without a session get one there. A client "
            "that has none when it connects begins without a queue."
        ),
    ] = None,
    as_json: Json = False,
    *,
    options: PasswordOptions,
) -> None:
    """Import queues from a file into a backend. A client that has another queue there is skipped, and named.

    After an interruption, run it again to continue.
    """

    async def work() -> Moved:
        source = QueueFile(file)
        unknown = [client_id for client_id in clients or [] if client_id not in source.queues]
        if unknown:
            raise SettingsError(f"{file} has no queue of {unknown[0]!r}")
        async with options.opened(backend, create=True) as store:
            wanted = sorted(set(clients)) if clients else sorted(source.queues)
            if data is None:
                return await _copy_all("import", source, store, wanted, whole=True)
            with closing(SessionImport.open(data, SystemClock(), parse_backend(backend).kind, NEVER)) as sessions:
                return await _import_with_sessions(source, store, wanted, sessions)

    _report(run(work), as_json=as_json, verb="imported")


async def _import_with_sessions(
    source: QueueSource, store: QueueStore, wanted: list[str], sessions: SessionImport
) -> Moved:
    """Queues of clients that have a session, or get one; the others are skipped."""
    obstacles = {name: why for name in wanted if (why := sessions.obstacle(session_of(name)))}
    moved = await _copy_all("import", source, store, [name for name in wanted if name not in obstacles], whole=True)
    for name in wanted:
        if name not in obstacles and name not in moved.failed and not sessions.has(session_of(name)):
            sessions.make(session_of(name), 1, [])
    return moved._replace(failed={**obstacles, **moved.failed})
