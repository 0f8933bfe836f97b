"""`holdfast leases`: how far pipelines have read, and which messages retention keeps for them.

The broker may run or not: leases and the heads of the log are files.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_duration, format_time
from holdfast.cli.storage.command import FolderOptions
from holdfast.model.errors import HoldfastError
from holdfast.storage.rocks.log.leases import BrokenLease, broken_leases, lease_rows, list_leases, remove_lease
from holdfast.storage.rocks.log.published_heads import read_heads


@grouped
def leases(
    options: FolderOptions,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove this lease: retention goes on without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the leases of pipelines, which retention waits for: how far behind each is, and when it was renewed."""
    with exit_on(HoldfastError):
        folder = options.folder()
        heads = read_heads(folder)
        if remove is not None:
            if not remove_lease(folder, remove):
                fail(f"{folder} has no lease {remove!r}; holdfast leases lists those there are", FAILED)
            typer.echo(f"lease {remove}: removed")
            return
        now_us = time.time_ns() // 1000
        broken = broken_leases(folder)
        for lease in broken:
            typer.echo(_describe_broken(lease, folder), err=True)
        if as_json:
            typer.echo(json.dumps(list_leases(folder, heads, now_us, _complain), indent=2))
            return
        rows = lease_rows(folder, heads, now_us, _complain)
    print_table(
        rows,
        TableColumn("lease", lambda row: row.name, least=20),
        TableColumn("shards", lambda row: ", ".join(str(shard) for shard in row.positions), least=10),
        TableColumn("behind", lambda row: format_duration(row.behind_s)),
        TableColumn("renewed", lambda row: f"{format_duration(row.age_s)} ago"),
    )


def _describe_broken(lease: BrokenLease, folder: Path) -> str:
    at = f" on {format_time(lease.broken_us)}" if lease.broken_us else ""
    return (
        f"holdfast: the lease {lease.name!r} was broken{at}: {lease.why}. Retention did not wait for its pipeline, "
        f"which may have lost messages. Run it again, or: holdfast leases --data {folder} --remove {lease.name}"
    )


def _complain(path: Path, why: str) -> None:
    typer.echo(f"holdfast: {path} is no lease that can be read, and holds nothing: {why}", err=True)
