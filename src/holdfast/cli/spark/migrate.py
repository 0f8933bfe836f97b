"""`holdfast spark migrate`: client queues from one backend into another, by many tasks at once.

Exit codes: 0 everything is there, 1 something was left out or it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import FAILED, exit_on
from holdfast.cli.options.groups import grouped
from holdfast.cli.queue.options import read_secret
from holdfast.cli.queue.tbmq import load_base, remove_base, save_base
from holdfast.cli.spark.job_output import JobOutput, job_output
from holdfast.cli.spark.options import SparkMaster, check_data_folder
from holdfast.model.errors import SettingsError
from holdfast.node.system_clock import SystemClock
from holdfast.session.state import NEVER
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.queue_addresses import BackendAddress, parse_backend, parse_tbmq

if TYPE_CHECKING:
    from holdfast.pipeline.migrate.task import MigrateJob, MigrateSums

_STOPPED: Final = "what is copied stays; the same command goes on"


@dataclass(frozen=True, kw_only=True)
class MigrateOptions:
    """Which queues go where."""

    source: Annotated[str, typer.Option("--from", metavar="BACKEND", help="Where the queues are; behind tbmq+ a TBMQ.")]
    target: Annotated[str, typer.Option("--to", metavar="BACKEND", help="Where they are to be.")]
    clients: Annotated[
        str, typer.Option(metavar="PATTERN", help="Of these clients only, with * and ?.", show_default="all")
    ] = "*"
    data: Annotated[
        Path | None,
        typer.Option(
            help="The broker's data folder: when all is there, its sessions look in the new backend. For a backend of "
            "another kind, and for a TBMQ, whose clients get their sessions there."
        ),
    ] = None
    from_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of --from.")] = None
    from_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of --from.")] = None
    to_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Password of --to.")] = None
    to_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Password of --to.")] = None
    resume: Annotated[
        Path, typer.Option(metavar="FILE", help="Of a TBMQ: progress of an import, kept until everything is there.")
    ] = Path("tbmq-import.json")

    def check(self, master: str | None, *, dry_run: bool) -> None:
        """Anything wrong ends the program."""
        with exit_on(SettingsError):
            self._check_backends(master)
            self._check_data(dry_run=dry_run)

    @property
    def is_tbmq(self) -> bool:
        return parse_tbmq(self.source) is not None

    @property
    def _old(self) -> BackendAddress:
        return parse_tbmq(self.source) or parse_backend(self.source)

    def job(self) -> "MigrateJob":
        from holdfast.pipeline.migrate.task import MigrateJob

        folder = self._old.folder
        source = self.source if folder is None else f"journal:{folder.absolute()}"
        source_password = read_secret(self.from_password_env, self.from_password_file)
        target_password = read_secret(self.to_password_env, self.to_password_file)
        return MigrateJob(source, self.target, SystemClock(), self.clients, source_password, target_password)

    def _check_backends(self, master: str | None) -> None:
        old, new = self._old, parse_backend(self.target)
        if old == new and not self.is_tbmq:
            raise SettingsError("--from and --to are the same backend")
        if new.folder is not None:
            raise SettingsError(
                f"--to {self.target}: a journal has one writer, and Spark would be many; "
                f"holdfast queue migrate --from … --to {self.target} writes one"
            )
        if old.folder is None:
            return
        if not old.folder.is_dir():
            raise SettingsError(f"{old.folder} is no journal of queues: there is no such folder")
        if master is not None and not master.startswith("local"):
            raise SettingsError(
                f"--from {self.source} is a folder of this machine, and --master {master} has others; "
                f"give --master local[*], or use holdfast queue migrate"
            )

    def _check_data(self, *, dry_run: bool) -> None:
        if self.is_tbmq:
            if self.data is None and not dry_run:
                raise SettingsError(
                    f"--from {self.source}: name the data folder of the broker, which is stopped, with --data: the "
                    f"clients get their sessions there, and without one a client's first connection would remove its "
                    f"queue"
                )
            if self.data is not None and self.data.is_dir():
                FolderLock.acquire(self.data).release()
            return
        if self.data is None:
            return
        kind = parse_backend(self.target).kind
        if self._old.kind == kind:
            raise SettingsError(f"--data goes with backends of two kinds: sessions look in {kind} already")
        check_data_folder(self.data)
        # Better now than when everything is copied.
        FolderLock.acquire(self.data).release()


@grouped
def migrate(
    spark: SparkMaster,
    options: MigrateOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is, and copy nothing.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Copy client queues into another backend, compared message by message. It may be killed and run again.

    No broker may use them meanwhile. The old backend stays as it is.
    """
    options.check(spark.master, dry_run=dry_run)
    spark.check()
    work = options.job()
    with job_output("migrate", as_json=as_json, stopped=_STOPPED) as job:
        if dry_run:
            from holdfast.pipeline.migrate.task import preview_queues

            job.progress.say("looking at queues")
            done = asyncio.run(preview_queues(work))
            job.summarize(*_dry_summary(work, done))
        else:
            if options.is_tbmq and options.data is not None:
                done, sessions = _import(work, spark, options.resume, options.data, job)
            else:
                done, sessions = _move(work, spark, options.data, job)
            job.summarize(*_summary(work, done, sessions))
    for reason in [] if as_json else done.reasons:
        typer.echo(f"left out: {reason}", err=True)
    if done.failed:
        raise typer.Exit(FAILED)


def _move(
    work: "MigrateJob", spark: SparkMaster, data: Path | None, job: JobOutput
) -> tuple["MigrateSums", int | None]:
    """Queues of Holdfast; and how many sessions look in the new backend, if that was asked for."""
    from holdfast.pipeline.migrate.job import change_sessions, run_migrate

    done = run_migrate(work, spark.master, job.progress)
    return done, None if data is None or done.failed else change_sessions(data, work)


def _import(
    work: "MigrateJob", spark: SparkMaster, resume: Path, data: Path, job: JobOutput
) -> tuple["MigrateSums", int | None]:
    """Queues of a TBMQ; and how many sessions were made for them. The data folder is held meanwhile."""
    from holdfast.pipeline.migrate.job import make_sessions, run_migrate
    from holdfast.pipeline.migrate.task import tbmq_base, tbmq_obstacles
    from holdfast.storage.rocks.sessions.session_import import SessionImport

    with closing(SessionImport.open(data, work.clock, parse_backend(work.target).kind, NEVER)) as sessions:
        base = load_base(resume, work.target)
        if base is None:
            job.progress.say("listing clients")
            base = asyncio.run(tbmq_base(work))
            save_base(resume, work.target, base)
        work = replace(work, base=base, obstacles=asyncio.run(tbmq_obstacles(work, sessions.obstacle)))
        done = run_migrate(work, spark.master, job.progress)
        made = make_sessions(done, base, sessions)
    if not done.failed:
        remove_base(resume)
    return done, made


def _dry_summary(work: "MigrateJob", found: "MigrateSums") -> tuple[dict[str, object], str]:
    row: dict[str, object] = {"from": work.source, "to": work.target, "queues": found.queues}
    if parse_tbmq(work.source) is not None:
        return row | {"messages": None}, f"{work.source}: {found.queues:,} queues; nothing was copied"
    words = f"{work.source}: {found.queues:,} queues, {found.messages:,} messages; nothing was copied"
    return row | {"messages": found.messages}, words


def _summary(work: "MigrateJob", done: "MigrateSums", sessions: int | None) -> tuple[dict[str, object], str]:
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
        parts.append(f"{sessions:,} sessions {'made' if is_tbmq else 'look in the new backend'}")
    return row, f"{work.source} → {work.target}: {', '.join(parts)}"
