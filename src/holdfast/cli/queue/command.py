"""`holdfast queue`: client queues outside the log. A running broker lets them be read; changes need it stopped."""

import base64
import json
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.commands import FAILED, Commands, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.queue.move import export, import_, migrate, relayout
from holdfast.cli.queue.options import Backend, Clients, Json, PasswordOptions, choose_clients, run
from holdfast.cli.queue.tbmq import import_tbmq
from holdfast.model.errors import PermanentError
from holdfast.storage.journal.quarantine import quarantined
from holdfast.storage.queue_addresses import parse_backend

if TYPE_CHECKING:
    from holdfast.durable.queues.queue_store import QueueEntry, QueueStore

app = Commands(name="queue", help="Client queues outside the log.")

_PAGE = 500


@app.command("list")
@grouped
def list_(backend: Backend, clients: Clients = None, as_json: Json = False, *, options: PasswordOptions) -> None:
    """List the queues of a backend: what each holds, and its last serial and number."""

    async def work() -> list[dict[str, object]]:
        async with options.viewed(backend) as store:
            return [await _row(store, client_id) for client_id in await choose_clients(store, clients)]

    rows = run(work)
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    print_table(
        (
            TableColumn("client", least=20),
            TableColumn("messages", right=True),
            TableColumn("size", right=True),
            TableColumn("last serial", right=True),
            TableColumn("last number", right=True),
            TableColumn("damage", least=20),
        ),
        [
            (
                str(row["client"]),
                str(row["messages"]),
                format_size(int(str(row["bytes"]))),
                str(row["serial"]),
                str(row["number"]),
                str(row["damage"] or ""),
            )
            for row in rows
        ],
    )


async def _row(store: "QueueStore", client_id: str) -> dict[str, object]:
    size, last, damage = (0, 0), (0, 0), None
    try:
        held = await store.size(client_id)
        size, last = (held.messages, held.size_bytes), await store.last(client_id)
    except PermanentError as error:
        damage = str(error)
    row: dict[str, object] = {"client": client_id, "messages": size[0], "bytes": size[1]}
    return {**row, "serial": last[0], "number": last[1], "damage": damage}


@app.command()
@grouped
def stats(backend: Backend, as_json: Json = False, *, options: PasswordOptions) -> None:
    """Sum up a backend: queues, messages, bytes, the longest queue, and what was set aside as damaged."""

    async def work() -> list[dict[str, object]]:
        async with options.viewed(backend) as store:
            return [await _row(store, client_id) for client_id in await choose_clients(store, None)]

    rows = run(work)
    folder = parse_backend(backend).folder
    longest = max(rows, key=lambda row: int(str(row["messages"])), default=None)
    summary = {
        "queues": len(rows),
        "empty": sum(not row["messages"] for row in rows),
        "messages": sum(int(str(row["messages"])) for row in rows),
        "bytes": sum(int(str(row["bytes"])) for row in rows),
        "longest": longest,
        "damaged": sum(row["damage"] is not None for row in rows),
        "set_aside": quarantined(folder) if folder is not None else [],
    }
    if as_json:
        typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    held = f"{summary['messages']} messages, {format_size(int(str(summary['bytes'])))}"
    typer.echo(f"{summary['queues']} queues, {summary['empty']} of them empty: {held}")
    if longest is not None:
        typer.echo(f"the longest is of {longest['client']!r}: {longest['messages']} messages")
    if summary["damaged"]:
        typer.echo(f"{summary['damaged']} queues cannot be read; list tells why")
    for one in quarantined(folder) if folder is not None else []:
        typer.echo(f"set aside: {one['place']}: {one.get('why', 'no report')}")


@app.command()
@grouped
def peek(
    backend: Backend,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client id.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", help="So many messages.", min=1)] = 10,
    after: Annotated[int, typer.Option("--after", help="Those behind this serial.", min=0)] = 0,
    as_json: Json = False,
    *,
    options: PasswordOptions,
) -> None:
    """Show the first messages that wait for a client. They stay where they are."""

    async def work() -> "list[QueueEntry]":
        async with options.viewed(backend) as store:
            return await store.read(client, after, limit)

    for entry in run(work):
        typer.echo(json.dumps(_plain(entry), ensure_ascii=False) if as_json else _line(entry))


def _plain(entry: "QueueEntry") -> dict[str, object]:
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


def _line(entry: "QueueEntry") -> str:
    plain = _plain(entry)
    note = " (PUBREC came)" if entry.released else ""
    return f"{plain['serial']} {plain['received']} {plain['topic']} {plain['payload']}{note}"


@app.command()
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


async def _empty(store: "QueueStore", client_id: str) -> int:
    messages = 0
    while page := await store.read(client_id, 0, _PAGE):
        await store.acknowledge([(client_id, [entry.owed.serial for entry in page])])
        messages += len(page)
    return messages


app.command()(migrate)
app.command()(relayout)
app.command()(export)
app.command("import")(import_)
app.command("import-tbmq")(import_tbmq)
