"""`holdfast sessions`: end a session, empty its queue, and in a cluster close a connection or see who took over."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from holdfast.cli.clients import Client, MountPoint, session_id
from holdfast.cli.cluster import described_cluster, run_in_cluster
from holdfast.cli.commands import FAILED, Commands, fail
from holdfast.cli.options.control_client import RunningBroker
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.control.words import Nothing, Purged, SessionRequest
from holdfast.model.time import SECOND_US
from holdfast.node.system_clock import SystemClock

if TYPE_CHECKING:
    from holdfast.cluster.registry.claim_history import PastClaim

sessions = Commands(
    name="sessions", help="Sessions of clients: end one, empty its queue; in a cluster, see who took over."
)


@sessions.command()
@grouped
def end(client: Client, broker: RunningBroker, mount_point: MountPoint = "", as_json: Json = False) -> None:
    """End a session of a running broker, connected or not: its subscriptions and all that it is owed go with it."""
    with broker.connected() as control:
        control.ask("end_session", SessionRequest(session_id(client, mount_point)), Nothing)
    typer.echo(json.dumps({"client": client, "ended": True}) if as_json else f"ended the session of {client}")


@sessions.command()
@grouped
def purge(client: Client, broker: RunningBroker, mount_point: MountPoint = "", as_json: Json = False) -> None:
    """Drop all messages that wait in the queue of a session now. What is in flight, and what comes later, stays."""
    with broker.connected() as control:
        purged = control.ask("purge_queue", SessionRequest(session_id(client, mount_point)), Purged)
    if as_json:
        typer.echo(json.dumps({"client": client, "purged_at_most": purged.messages}))
    else:
        typer.echo(f"emptied the queue of {client}: at most {purged.messages} messages were dropped")


@sessions.command()
@grouped
def kick(client: Client, options: SettingsOptions, mount_point: MountPoint = "", as_json: Json = False) -> None:
    """Close the connection of a client, on whichever node it is. Its session stays; MQTT 5 clients are told 0x98."""
    described = described_cluster(options)
    from holdfast.cluster.session_administration import kick_session

    found = run_in_cluster(kick_session(described, SystemClock(), session_id(client, mount_point)))
    if as_json:
        typer.echo(json.dumps({"client": client, **asdict(found)}, ensure_ascii=False))
    else:
        for node, address in found.closed.items():
            typer.echo(f"node {node}: closed the connection of {client} from {address}")
    if not found.closed:
        silent = f"; no answer from node {', '.join(map(str, found.silent))}" if found.silent else ""
        fail(f"client id {client!r} has no connection{silent}", FAILED)


@sessions.command()
@grouped
def claims(client: Client, options: SettingsOptions, mount_point: MountPoint = "", as_json: Json = False) -> None:
    """List the last 16 connections of a client id that were decided, of a day at most, the newest last."""
    described = described_cluster(options)
    from holdfast.cluster.session_administration import read_claims

    found = run_in_cluster(read_claims(described, SystemClock(), session_id(client, mount_point)))
    if as_json:
        typer.echo(json.dumps({"client": client, **asdict(found)}, indent=2, ensure_ascii=False))
        return
    if not found.claims:
        fail(f"no node knows of a connection of client id {client!r} since its start", FAILED)
    print_table(
        found.claims,
        TableColumn("time", lambda row: _format_time(row.at_us)),
        TableColumn("node", lambda row: str(row.node), right=True),
        TableColumn("connection", lambda row: str(row.connection), right=True),
        TableColumn("version", lambda row: row.version),
        TableColumn("outcome", _format_outcome),
    )


def _format_time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / SECOND_US, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def _format_outcome(claim: "PastClaim") -> str:
    if claim.accepted:
        return f"registered, in place of {claim.other}" if claim.other else "registered"
    return f"refused, because of {claim.other}" if claim.other else "refused"
