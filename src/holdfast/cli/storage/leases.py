"""`holdfast leases`: how far pipelines have read, and which messages retention keeps for them.

The broker may run or not: leases and the heads of the log are files.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.storage.command import FolderOptions
from holdfast.model.errors import HoldfastError
from holdfast.model.time import SECOND_US
from holdfast.storage.rocks.log.leases import Lease, read_leases, remove_lease
from holdfast.storage.rocks.log.published_heads import Head, read_heads


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
        rows = [_row(lease, heads, now_us) for lease in read_leases(folder, _complain)]
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print_table(
        rows,
        TableColumn("lease", lambda row: row.name, least=20),
        TableColumn("shards", lambda row: ", ".join(str(shard) for shard in row.positions), least=10),
        TableColumn("behind", lambda row: _ago(row.behind_s)),
        TableColumn("renewed", lambda row: f"{_ago(row.age_s)} ago"),
    )


class LeaseRow(NamedTuple):
    """A lease, as it is listed."""

    name: str
    positions: Mapping[int, int]
    behind_s: float
    renewed_us: int
    age_s: float


def _row(lease: Lease, heads: dict[int, Head], now_us: int) -> LeaseRow:
    behind_us = [heads[shard].position_us - done_us for shard, done_us in lease.positions.items() if shard in heads]
    behind_s = max([0, *behind_us]) / SECOND_US
    return LeaseRow(lease.name, lease.positions, behind_s, lease.renewed_us, lease.age_s(now_us))


def _complain(path: Path, why: str) -> None:
    typer.echo(f"holdfast: {path} is no lease that can be read, and holds nothing: {why}", err=True)


def _ago(seconds: float) -> str:
    """As text: 5 s, 3 min, 2.5 h, 4.0 d."""
    for unit, size, digits in (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
