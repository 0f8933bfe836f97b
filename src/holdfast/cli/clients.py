"""`holdfast clients` and `holdfast subscriptions`: who is connected to a running broker, and who gets what."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer

from holdfast.cli.commands import Commands, fail
from holdfast.cli.options.control_client import ControlClient, RunningBroker
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import describe_session, format_time, printable
from holdfast.control.frames import decode_body
from holdfast.control.words import (
    CLIENTS,
    CLIENTS_AGAIN,
    EARLIEST_US,
    LISTED,
    ClientDetail,
    ClientRow,
    ClientRows,
    Kicked,
    KickRequest,
    Nothing,
    SessionRequest,
    SubscriptionInfo,
    Subscriptions,
    SubscriptionsRequest,
    Watch,
)

clients = Commands(name="clients", help="Clients that are connected to a running broker: list, show and disconnect.")

Client = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The client id.", show_default=False)]
MountPoint = Annotated[str, typer.Option(help="That of the client's listener, if it has one.", show_default=False)]

_VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5.0"}
_NEVER: Final = 0xFFFFFFFF


class Order(StrEnum):
    """What a list of clients is sorted by."""

    CLIENT = "client"
    SINCE = "since"
    OWED = "owed"
    INFLIGHT = "inflight"


_KEYS: Final[dict[Order, Callable[[ClientRow], tuple[int, str]]]] = {
    Order.CLIENT: lambda row: (0, row.session_id),
    Order.SINCE: lambda row: (-row.since_us, row.session_id),
    Order.OWED: lambda row: (-row.owed, row.session_id),
    Order.INFLIGHT: lambda row: (-row.inflight, row.session_id),
}


@clients.command("list")
@grouped
def list_clients(
    broker: RunningBroker,
    search: Annotated[str, typer.Option(help="Those with this in client id, user or address.")] = "",
    user: Annotated[str | None, typer.Option(help="Those of this user.")] = None,
    listener: Annotated[str | None, typer.Option(help="Those of this listener.")] = None,
    behind: Annotated[bool, typer.Option("--behind", help="Those with messages that wait in their queue.")] = False,
    sort: Annotated[Order, typer.Option(help="What comes first: by name, the newest, or the largest.")] = Order.CLIENT,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """List connected clients. What is owed is an upper bound; offline sessions are in the data folder."""
    with broker.connected() as client:
        found = _snapshot(client)
    total = len(found)
    found = [
        row
        for row in found
        if (not search or any(search in text for text in (row.client_id, row.user, row.address)))
        and (user is None or row.user == user)
        and (listener is None or row.listener == listener)
        and (not behind or row.behind)
    ]
    found.sort(key=_KEYS[sort])
    shown = found[:limit]
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(shown), indent=2, ensure_ascii=False))
        return
    if shown:
        print_table(
            shown,
            TableColumn("client", lambda row: describe_session(row.session_id), least=16),
            TableColumn("user", lambda row: printable(row.user), least=8),
            TableColumn("address", lambda row: f"{row.address}:{row.port}", dispensable=1),
            TableColumn("listener", lambda row: row.listener, dispensable=2),
            TableColumn("since (UTC)", lambda row: format_time(row.since_us)[:19], dispensable=3),
            TableColumn("subscriptions", lambda row: str(row.subscriptions), right=True, dispensable=4),
            TableColumn("in flight", lambda row: str(row.inflight), right=True),
            TableColumn("owed", lambda row: f"≤ {row.owed}" if row.behind else "0", right=True),
        )
    more = "" if len(shown) == len(found) else f", the first {len(shown)} are shown; see --limit"
    typer.echo(f"{len(found)} of {total} connected clients{more}")


@clients.command()
@grouped
def show(client: Client, broker: RunningBroker, mount_point: MountPoint = "", as_json: Json = False) -> None:
    """Show the session of a client: its connection, subscriptions, and what is in flight."""
    with broker.connected() as control:
        detail = control.ask("client", SessionRequest(session_id(client, mount_point)), ClientDetail)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(detail), indent=2, ensure_ascii=False))
        return
    row = detail.connection
    if row is None:
        typer.echo(f"{client}: offline since {format_time(detail.disconnected_us)}")
    else:
        version = _VERSIONS.get(row.version, str(row.version))
        typer.echo(
            f"{client}: {row.address}:{row.port} by {row.listener} ({row.transport}), MQTT {version}, keep alive "
            f"{row.keep_alive_s} s, since {format_time(row.since_us)}"
        )
    expiry = "never ends" if detail.expiry_s == _NEVER else f"outlives its connection by {detail.expiry_s} s"
    will = "has a will" if detail.has_will else "no will"
    typer.echo(f"user {printable(detail.user) or 'none'} · session {expiry} · {will} · owed ≤ {detail.owed}")
    if detail.subscriptions:
        typer.echo(f"\n{detail.subscription_count} subscriptions")
        _print_subscriptions(detail.subscriptions)
    if detail.inflight:
        typer.echo(f"\n{detail.inflight_count} in flight")
        print_table(
            detail.inflight,
            TableColumn("packet id", lambda one: str(one.packet_id), right=True),
            TableColumn("qos", lambda one: str(one.qos), right=True),
            TableColumn("waits for", lambda one: one.waits_for.upper()),
            TableColumn("topic", lambda one: printable(one.topic), least=20),
        )


@clients.command()
@grouped
def kick(
    client: Client,
    broker: RunningBroker,
    reason: Annotated[str, typer.Option(help="What an MQTT 5 client is told.")] = "",
    mount_point: MountPoint = "",
    as_json: Json = False,
) -> None:
    """Close the connection of a client. Its session stays; MQTT 5 clients are told 0x98."""
    with broker.connected() as control:
        kicked = control.ask("kick", KickRequest(session_id(client, mount_point), reason), Kicked)
    if as_json:
        typer.echo(json.dumps({"client": client, "address": kicked.address}, ensure_ascii=False))
    else:
        typer.echo(f"closed the connection of {client} from {kicked.address}")


@grouped
def subscriptions(
    broker: RunningBroker,
    topic: Annotated[str, typer.Option(help="Those that a message on this topic is delivered by.")] = "",
    under: Annotated[str, typer.Option(metavar="FILTER", help="Those whose filter lies within this filter.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = LISTED,
    as_json: Json = False,
) -> None:
    """List who gets a topic, or which subscriptions lie within a filter: of sessions in the broker's memory."""
    if bool(topic) == bool(under):
        fail("give --topic TOPIC (who gets it), or --under FILTER (which subscriptions lie within it)")
    with broker.connected() as control:
        found = _all_subscriptions(control, SubscriptionsRequest(topic, under), limit)
    if as_json:
        shown = {"items": msgspec.to_builtins(found.items), "more": found.more}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    if found.items:
        _print_subscriptions(found.items)
    typer.echo(f"{len(found.items)} subscriptions" + (", and more; see --limit" if found.more else ""))


def _all_subscriptions(control: ControlClient, wanted: SubscriptionsRequest, limit: int) -> Subscriptions:
    """The first `limit` of them, in as many pages as they need."""
    items: list[SubscriptionInfo] = []
    while True:
        request = msgspec.structs.replace(wanted, limit=min(limit - len(items), LISTED))
        page = control.ask("subscriptions", request, Subscriptions)
        items += page.items
        if not page.more or not page.in_order or len(items) >= limit:
            return msgspec.structs.replace(page, items=tuple(items))
        wanted = msgspec.structs.replace(wanted, after=(items[-1].session_id, items[-1].filter))


def _print_subscriptions(items: tuple[SubscriptionInfo, ...]) -> None:
    print_table(
        items,
        TableColumn("filter", lambda one: printable(one.filter), least=20),
        TableColumn("client", lambda one: describe_session(one.session_id), least=16),
        TableColumn("qos", lambda one: str(one.qos), right=True),
        TableColumn("since (UTC)", lambda one: _since(one.since_us), dispensable=2),
        TableColumn("replayed to (UTC)", lambda one: _since(one.replayed_us), dispensable=1),
        TableColumn("members", lambda one: str(one.members) if one.group else "", right=True),
    )


def _since(at_us: int) -> str:
    return "earliest" if at_us == EARLIEST_US else _second(at_us)


def _second(at_us: int) -> str:
    """Nothing for no time."""
    return format_time(at_us)[:19] if at_us else ""


def _snapshot(client: ControlClient) -> list[ClientRow]:
    """All connected clients as they are now."""
    client.ask("watch", Watch(clients=True), Nothing)
    rows: list[ClientRow] = []
    for push in client.pushes():
        if push.topic == CLIENTS_AGAIN:
            rows.clear()
        elif push.topic == CLIENTS:
            part = decode_body(push.body, ClientRows)
            rows += part.rows
            if part.last:
                break
    return rows


def session_id(client: str, mount_point: str) -> str:
    """The name of a session: the client id, behind a mount point with that in front."""
    return f"{mount_point}\0{client}" if mount_point else client
