"""`holdfast queue`: client queues outside the log. A running broker lets them be read; changes need it stopped."""

import base64
import json
from typing import Annotated, NamedTuple

import typer

from holdfast.cli.commands import FAILED, Commands, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.queue.move import export, import_, migrate, relayout
from holdfast.cli.queue.options import Backend, Clients, PasswordOptions, choose_clients, run
from holdfast.cli.queue.tbmq import import_tbmq
from holdfast.durable.queues.queue_store import QueueEntry, QueueStore
from holdfast.model.errors import PermanentError
from holdfast.storage.journal.quarantine import quarantined
from holdfast.storage.queue_addresses import parse_backend

queue = Commands(name="queue", help="Client queues outside the log.")

_PAGE = 500


@queue.command("list")
@grouped
def list_(backend: Backend, clients: Clients = None, as_json: Json = False, *, options: PasswordOptions) -> None:
    """List the queues of a backend: what each holds, and its last serial and number."""
    rows = run(lambda: _rows(options, backend, clients))
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2, ensure_ascii=False))
        return
    print_table(
        rows,
        TableColumn("client", lambda row: row.client, least=20),
        TableColumn("messages", lambda row: str(row.messages), right=True),
        TableColumn("size", lambda row: format_size(row.bytes), right=True),
        TableColumn("last serial", lambda row: str(row.serial), right=True),
        TableColumn("last number", lambda row: str(row.number), right=True),
        TableColumn("damage", lambda row: row.damage or "", least=20),
    )


class QueueRow(NamedTuple):
    """A queue, as it is listed."""

    client: str
    messages: int = 0
    bytes: int = 0
    serial: int = 0
    number: int = 0
    damage: str | None = None


async def _rows(options: PasswordOptions, backend: str, clients: list[str] | None) -> list[QueueRow]:
    async with options.viewed(backend) as store:
        return [await _row(store, client_id) for client_id in await choose_clients(store, clients)]


async def _row(store: QueueStore, client_id: str) -> QueueRow:
    try:
        held = await store.size(client_id)
        return QueueRow(client_id, held.messages, held.size_bytes, *await store.last(client_id))
    except PermanentError as error:
        return QueueRow(client_id, damage=str(error))


@queue.command()
@grouped
def stats(backend: Backend, as_json: Json = False, *, options: PasswordOptions) -> None:
    """Sum up a backend: queues, messages, bytes, the longest queue, and what was set aside as damaged."""
    rows = run(lambda: _rows(options, backend, None))
    folder = parse_backend(backend).folder
    longest = max(rows, key=lambda row: row.messages, default=None)
    messages, size_bytes = sum(row.messages for row in rows), sum(row.bytes for row in rows)
    empty, damaged = sum(not row.messages for row in rows), sum(row.damage is not None for row in rows)
    set_aside = quarantined(folder) if folder is not None else []
    if as_json:
        summary = {
            "queues": len(rows),
            "empty": empty,
            "messages": messages,
            "bytes": size_bytes,
            "longest": None if longest is None else longest._asdict(),
            "damaged": damaged,
            "set_aside": set_aside,
        }
        typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{len(rows)} queues, {empty} of them empty: {messages} messages, {format_size(size_bytes)}")
    if longest is not None:
        typer.echo(f"the longest is of {longest.client!r}: {longest.messages} messages")
    if damaged:
        typer.echo(f"{damaged} queues cannot be read; list tells why")
    for one in set_aside:
        typer.echo(f"set aside: {one['place']}: {one.get('why', 'no report')}")


@queue.command()
@grouped
def peek(
    backend: Backend,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client id.")],
    limit: Annotated[int, typer.Option(help="So many messages.", min=1)] = 10,
    after: Annotated[int, typer.Option(help="Those behind this serial.", min=0)] = 0,
    as_json: Json = False,
    *,
    options: PasswordOptions,
) -> None:
    """Show the first messages that wait for a client. They stay where they are."""

    async def work() -> list[QueueEntry]:
        async with options.viewed(backend) as store:
            return await store.read(client, after, limit)

    for entry in run(work):
        typer.echo(json.dumps(_plain(entry), ensure_ascii=False) if as_json else _line(entry))


def _plain(entry: QueueEntry) -> dict[str, object]:
    message = entry.message
    try:
        payload, encoding = message.payload.decode(), "utf-8"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(message.payload).decode(), "base64"
    return {
        "serial": entry.owed.serial,
        "number": entry.number,
        "received": format_time(message.received_us),
        "expires": format_time(entry.expires_us) if entry.expires_us else None,
        "topic": message.topic.decode(errors="replace"),
        "qos": entry.owed.qos,
        "released": entry.released,
        "publisher": message.publisher,
        "payload": payload,
        "payload_encoding": encoding,
    }


def _line(entry: QueueEntry) -> str:
    plain = _plain(entry)
    note = " (PUBREC came)" if entry.released else ""
    return f"{plain['serial']} {plain['received']} {plain['topic']} {plain['payload']}{note}"


@queue.command()
@grouped
def purge(
    backend: Backend,
    clients: Clients = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all clients.")] = False,
    *,
    options: PasswordOptions,
) -> None:
    """Remove what waits for clients. Their queues stay, and go on with the next serial."""
    if not clients and not everything:
        fail("name the clients with --client, or say --all")

    async def work() -> tuple[int, int, list[str]]:
        messages, queues, damaged = 0, 0, []
        async with options.opened(backend) as store:
            for client_id in await choose_clients(store, clients):
                try:
                    messages += await _empty(store, client_id)
                    queues += 1
                except PermanentError as error:
                    damaged.append(str(error))
        return messages, queues, damaged

    messages, queues, damaged = run(work)
    typer.echo(f"{messages} messages of {queues} queues removed")
    if damaged:
        fail("; ".join(damaged), FAILED)


async def _empty(store: QueueStore, client_id: str) -> int:
    messages = 0
    while page := await store.read(client_id, 0, _PAGE):
        await store.acknowledge([(client_id, [entry.owed.serial for entry in page])])
        messages += len(page)
    return messages


queue.command()(migrate)
queue.command()(relayout)
queue.command()(export)
queue.command("import")(import_)
queue.command("import-tbmq")(import_tbmq)
