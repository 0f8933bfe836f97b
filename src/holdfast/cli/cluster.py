"""`holdfast cluster`: make a cluster, and see how its members are. Both talk to its NATS servers, not to a node."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.node.logs import configure_logs
from holdfast.node.system_clock import SystemClock

if TYPE_CHECKING:
    from holdfast.cluster.membership.cluster_status import ClusterStatus, MemberStatus
    from holdfast.cluster.node_cluster import ClusterOptions

cluster = Commands(name="cluster", help="Several nodes as one broker: make a cluster, and see how it is.")

PatienceS = Annotated[float, typer.Option("--patience-s", help="Seconds to wait for all servers.", min=1)]
Ready = Annotated[
    bool, typer.Option("--ready", help="Exit with status 1 unless every member lives and is ready; say why it is not.")
]

Counts = Annotated[bool, typer.Option("--counts", help="Also print what each node has counted since its start.")]

_Result = TypeVar("_Result")


@cluster.command()
@grouped
def init(options: SettingsOptions, patience_s: PatienceS = 60.0) -> None:
    """Make the streams of a cluster, with all servers there, and found it. One that exists is checked, and stays."""
    described = described_cluster(options)
    from holdfast.cluster.administration import init_cluster

    made = run_in_cluster(init_cluster(described, SystemClock(), patience_s))
    founded = made.founded
    what = "founded" if made.is_new else "was there already"
    typer.echo(
        f"cluster {founded.found.name}: {what}, id {founded.cluster_id.hex()}, {founded.found.vnodes} vnodes, "
        f"{made.streams_made} streams made"
    )


@cluster.command()
@grouped
def status(options: SettingsOptions, ready: Ready = False, counts: Counts = False, as_json: Json = False) -> None:
    """Print the members of the cluster, who leads, and how far each has come in the log of each vnode."""
    described = described_cluster(options)
    from holdfast.cluster.administration import read_status

    found = run_in_cluster(read_status(described, SystemClock()))
    problems = found.problems()
    if as_json:
        typer.echo(json.dumps({**asdict(found), "problems": problems}, indent=2, ensure_ascii=False))
    else:
        _print_status(found)
        if counts:
            _print_counts(found)
    if ready and problems:
        fail(f"cluster {found.name} is not ready: {'; '.join(problems)}", FAILED)


def described_cluster(options: SettingsOptions) -> "ClusterOptions":
    """The cluster of the settings; exits if they have none."""
    settings = options.read_or_fail()
    if not settings.cluster.is_on:
        fail("cluster.name is not set, so these settings are of a single node; see [cluster] in docs/settings.md")
    # Imported here: the driver of NATS may not be installed, which the settings say better.
    from holdfast.node.cluster.cluster_options import cluster_options

    with exit_on(SettingsError):
        return cluster_options(settings)


def run_in_cluster(work: Coroutine[object, object, _Result]) -> _Result:
    """Do something with the servers of a cluster; exits if that fails."""
    configure_logs("warning", "auto")  # standard output is for the answer alone
    with exit_on(SettingsError), exit_on(TransientError, PermanentError, code=FAILED):
        return asyncio.run(work)


def _print_status(found: "ClusterStatus") -> None:
    typer.echo(f"cluster {found.name}, id {found.cluster_id}")
    for text in found.streams:
        typer.echo(text)
    if not found.members:
        typer.echo("no node has joined")
        return
    print_table(
        found.members,
        TableColumn("node", lambda row: str(row.node), right=True),
        TableColumn("name", lambda row: row.name, least=10),
        TableColumn("epoch", lambda row: str(row.epoch), right=True),
        TableColumn("state", lambda row: row.state),
        TableColumn("ready", lambda row: "yes" if row.ready else "no"),
        TableColumn("last beat", _format_beat),
        TableColumn("lag", lambda row: f"{row.lag_s:.1f} s", right=True),
        TableColumn("connections", lambda row: str(row.connections), right=True),
    )
    for member in found.members:
        for reason in member.reasons:
            typer.echo(f"node {member.node} is not ready: {reason}")
    typer.echo("")
    columns = [
        TableColumn[int](f"applied by {member.node}", _applied_by(member), right=True)
        for member in found.members
        if member.state != "left"
    ]
    print_table(
        sorted(found.last),
        TableColumn("vnode", str, right=True),
        TableColumn("leader", lambda vnode: str(found.leader(vnode) or "none"), right=True),
        TableColumn("last", lambda vnode: str(found.last[vnode]), right=True),
        *columns,
    )


def _format_beat(row: "MemberStatus") -> str:
    return "none" if row.beat_age_s is None else f"{row.beat_age_s:.0f} s ago"


def _applied_by(member: "MemberStatus") -> Callable[[int], str]:
    def show(vnode: int) -> str:
        lag_s = member.lags_s.get(vnode, 0.0)
        behind = f" ({lag_s:.0f} s behind)" if lag_s >= 1 else ""
        return f"{member.applied.get(vnode, '-')}{behind}"

    return show


def _print_counts(found: "ClusterStatus") -> None:
    typer.echo("")
    columns = [TableColumn[str](f"node {one.node}", _count_of(one), right=True) for one in found.members]
    print_table(sorted({name for one in found.members for name in one.counts}), TableColumn("count", str), *columns)


def _count_of(member: "MemberStatus") -> Callable[[str], str]:
    return lambda name: str(member.counts.get(name, 0))
