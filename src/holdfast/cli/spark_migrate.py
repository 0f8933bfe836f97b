"""`holdfast spark migrate`: client queues from one home into another, by many tasks at once.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 everything is there, 1 something was left out or it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.queue_options import secret
from holdfast.cli.queue_tbmq import forget_base, keep_base, kept_base
from holdfast.cli.spark_job import Job, job
from holdfast.cli.spark_options import FAILED, Engine
from holdfast.model.errors import SettingsError
from holdfast.node.system_clock import SystemClock
from holdfast.session.state import NEVER
from holdfast.storage.queue_addresses import HomeAddress, parse_home
from holdfast.storage.rocks.folder_lock import FolderLock
from holdfast.storage.tbmq_addresses import parse_tbmq

if TYPE_CHECKING:
    from holdfast.pipeline.migrate_task import Migration, Sums

_STOPPED: Final = "what is copied stays; the same command goes on"


@grouped
def migrate(
    engine: Engine,
    source: Annotated[
        str,
        typer.Option("--from", metavar="HOME", help="Where the queues are; behind tbmq+ a TBMQ.", show_default=False),
    ],
    target: Annotated[str, typer.Option("--to", metavar="HOME", help="Where they are to be.", show_default=False)],
    clients: Annotated[
        str, typer.Option(metavar="PATTERN", help="Of these clients only, with * and ?.", show_default="all")
    ] = "*",
    data: Annotated[
        Path | None,
        typer.Option(
            help="The broker's data folder: when all is there, its sessions look in the new home. For a home of "
            "another kind, and for a TBMQ, whose clients get their sessions there.",
            show_default=False,
        ),
    ] = None,
    from_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of the old home.")] = None,
    from_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of the old home.")] = None,
    to_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of the new home.")] = None,
    to_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of the new home.")] = None,
    resume: Annotated[
        Path, typer.Option(metavar="FILE", help="Of a TBMQ: kept until everything was brought, to go on with.")
    ] = Path("tbmq-import.json"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is, and copy nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Copy client queues into another home, and compare every message. It may be killed at any time and run again.

    No broker may use them meanwhile. The old home stays as it is.
    """
    try:
        old, new = parse_tbmq(source) or parse_home(source), parse_home(target)
        _check_homes(source, target, old, new, engine.master)
        _check_data(data, source, old, new, dry_run=dry_run)
    except SettingsError as error:
        fail(str(error), WRONG_USAGE)
    engine.check()
    from holdfast.pipeline.migrate_task import Migration, look

    absolute = source if old.folder is None else f"journal:{old.folder.absolute()}"
    passwords = secret(from_password_env, from_password_file), secret(to_password_env, to_password_file)
    work = Migration(absolute, target, SystemClock(), clients, *passwords)
    with job("migrate", as_json=as_json, stopped=_STOPPED) as run:
        if dry_run:
            run.begin("looking at queues")
            found = asyncio.run(look(work))
            run.sum_up(*_found(work, found))
        else:
            if parse_tbmq(source) is not None and data is not None:
                found, sessions = _import(work, engine, resume, data, new.kind, run)
            else:
                found, sessions = _move(work, engine, data, run)
            run.sum_up(*_summary(work, found, sessions))
    for reason in [] if as_json else found.reasons:
        typer.echo(f"left out: {reason}", err=True)
    if found.failed:
        raise typer.Exit(FAILED)


def _check_homes(source: str, target: str, old: HomeAddress, new: HomeAddress, master: str | None) -> None:
    if old == new and parse_tbmq(source) is None:
        raise SettingsError("--from and --to are the same home")
    if new.folder is not None:
        raise SettingsError(
            f"--to {target}: a journal has one writer, and Spark would be many; "
            f"holdfast queue migrate --from … --to {target} writes one"
        )
    if old.folder is None:
        return
    if not old.folder.is_dir():
        raise SettingsError(f"{old.folder} is no journal of queues: there is no such folder")
    if master is not None and not master.startswith("local"):
        raise SettingsError(
            f"--from {source} is a folder of this machine, and --master {master} has others; give --master local[*], "
            f"or use holdfast queue migrate"
        )


def _check_data(data: Path | None, source: str, old: HomeAddress, new: HomeAddress, *, dry_run: bool) -> None:
    if parse_tbmq(source) is not None:
        if data is None and not dry_run:
            raise SettingsError(
                f"--from {source}: name the data folder of the broker, which is stopped, with --data: the clients get "
                f"their sessions there, and without one a client's first connection would remove its queue"
            )
        if data is not None and data.is_dir():
            FolderLock.acquire(data).release()
        return
    if data is None:
        return
    if old.kind == new.kind:
        raise SettingsError(f"--data goes with homes of two kinds: sessions look in {new.kind} already")
    if not (data / "rocks" / "CURRENT").is_file():
        raise SettingsError(f"--data {data}: this is no data folder of a broker: it has no database in it")
    # Better now than when everything is copied.
    FolderLock.acquire(data).release()


def _move(work: "Migration", engine: Engine, data: Path | None, run: Job) -> tuple["Sums", int | None]:
    """Queues of Holdfast; and how many sessions look in the new home, if that was asked for."""
    from holdfast.pipeline.migrate import change_sessions, run_migrate

    done = run_migrate(work, engine.master, run.begin, run.progress)
    return done, None if data is None or done.failed else change_sessions(data, work)


def _import(
    work: "Migration", engine: Engine, resume: Path, data: Path, kind: str, run: Job
) -> tuple["Sums", int | None]:
    """Queues of a TBMQ; and how many sessions were made for them. The data folder is held meanwhile."""
    from holdfast.pipeline.migrate import make_sessions, run_migrate
    from holdfast.pipeline.migrate_task import tbmq_base, tbmq_obstacles
    from holdfast.storage.rocks.session_import import SessionImport

    sessions = SessionImport.open(data, work.clock, kind, NEVER)
    try:
        base = kept_base(resume, work.target)
        if base is None:
            run.begin("listing clients")
            base = asyncio.run(tbmq_base(work))
            keep_base(resume, work.target, base)
        work = replace(work, base=base, obstacles=asyncio.run(tbmq_obstacles(work, sessions.obstacle)))
        done = run_migrate(work, engine.master, run.begin, run.progress)
        made = make_sessions(done, base, sessions)
    finally:
        sessions.close()
    if not done.failed:
        forget_base(resume)
    return done, made


def _found(work: "Migration", found: "Sums") -> tuple[dict[str, object], str]:
    row: dict[str, object] = {"from": work.source, "to": work.target, "queues": found.queues}
    if parse_tbmq(work.source) is not None:
        return row | {"messages": None}, f"{work.source}: {found.queues:,} queues; nothing was copied"
    words = f"{work.source}: {found.queues:,} queues, {found.messages:,} messages; nothing was copied"
    return row | {"messages": found.messages}, words


def _summary(work: "Migration", done: "Sums", sessions: int | None) -> tuple[dict[str, object], str]:
    is_tbmq = parse_tbmq(work.source) is not None
    row: dict[str, object] = {
        "from": work.source,
        "to": work.target,
        "queues": done.copied,
        "messages": done.messages,
        "checksum": None if is_tbmq else f"{done.checksum:032x}",
        "expired": done.expired if is_tbmq else None,
        "sessions": sessions,
        "failed": done.failed,
        "reasons": done.reasons,
    }
    parts = [f"{done.copied:,} queues, {done.messages:,} messages"]
    parts.append(f"{done.expired:,} had expired" if is_tbmq else f"all compared, checksum {done.checksum:032x}")
    if done.failed:
        parts.append(f"{done.failed:,} left out")
    if sessions is not None:
        parts.append(f"{sessions:,} sessions {'made' if is_tbmq else 'look in the new home'}")
    return row, f"{work.source} → {work.target}: {', '.join(parts)}"
