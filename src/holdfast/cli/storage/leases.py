"""`holdfast leases`: how far pipelines have read, and which messages retention keeps for them.

The broker may run or not: leases and the heads of the log are files.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.storage.command import FolderOptions, Json
from holdfast.model.errors import HoldfastError
from holdfast.model.time import SECOND_US
from holdfast.storage.rocks.log.leases import Lease, read_leases, remove_lease
from holdfast.storage.rocks.log.published_heads import Head, read_heads


@grouped
def leases(
    options: FolderOptions,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Remove this lease: retention goes on without it.")
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
        typer.echo(json.dumps(rows, indent=2))
        return
    print_table(
        (
            TableColumn("lease", least=20),
            TableColumn("shards", least=10),
            TableColumn("behind"),
            TableColumn("renewed"),
        ),
        [
            (
                str(row["name"]),
                ", ".join(str(shard) for shard in row["positions"]),  # type: ignore[attr-defined]
                _ago(row["behind_s"]),
                f"{_ago(row['age_s'])} ago",
            )
            for row in rows
        ],
    )


def _row(lease: Lease, heads: dict[int, Head], now_us: int) -> dict[str, object]:
    behind_us = [heads[shard].position_us - done_us for shard, done_us in lease.positions.items() if shard in heads]
    return {
        "name": lease.name,
        "positions": lease.positions,
        "behind_s": max([0, *behind_us]) / SECOND_US,
        "renewed_us": lease.renewed_us,
        "age_s": lease.age_s(now_us),
    }


def _complain(path: Path, why: str) -> None:
    typer.echo(f"holdfast: {path} is no lease that can be read, and holds nothing: {why}", err=True)


def _ago(seconds: object) -> str:
    """As text: 5 s, 3 min, 2.5 h, 4.0 d."""
    value = float(str(seconds))
    for unit, size, digits in (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if value >= 2 * size:
            return f"{value / size:.{digits}f} {unit}"
    return f"{value:.0f} s"
