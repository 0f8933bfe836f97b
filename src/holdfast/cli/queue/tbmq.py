"""`holdfast queue import-tbmq`: import the queues of a TBMQ into a queue backend of this broker.

Exit codes: 0 all was imported, 1 something was skipped or a server is away, 2 wrong usage, 130 Ctrl-C.

A small file keeps the base number of the import until all is imported, so that the same command continues after an
interruption.
"""

import asyncio
import json
from contextlib import AsyncExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.commands import FAILED, INTERRUPTED, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.node.queue_stores import OPENERS, open_queue_stores
from holdfast.node.settings.tree import Settings
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.sessions.session_import import SessionImport
from holdfast.storage.tbmq import ImportReport, TbmqSource, choose_base, import_queues

#: The most reasons that are printed one by one; the JSON has them all.
_SHOWN: Final = 20


@grouped
def import_tbmq(
    to: Annotated[str, typer.Option(help=f"The backend that gets the queues: {', '.join(OPENERS)}.")],
    from_postgres: Annotated[str | None, typer.Option(metavar="URL", help="The database of a TBMQ 1.x.")] = None,
    from_redis: Annotated[
        str | None, typer.Option(metavar="URL", help="The Redis of a TBMQ 2.x; members with commas.")
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="It is a Redis Cluster.")] = False,
    resume: Annotated[
        Path, typer.Option(metavar="FILE", help="Kept until everything was brought, to go on with.")
    ] = Path("tbmq-import.json"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    *,
    options: SettingsOptions,
) -> None:
    """Import the queues of a TBMQ, and make the sessions that read them. TBMQ's data is not changed.

    Both brokers must be stopped. Subscriptions are not imported: clients subscribe when they connect.
    """
    if (from_postgres is None) == (from_redis is None):
        fail("one of --from-postgres and --from-redis says where TBMQ's queues are")
    if to not in OPENERS:
        fail(f"there is no backend {to!r}; right would be {', '.join(OPENERS)}")
    settings = options.read_or_fail()
    try:
        report = asyncio.run(_run(settings, to, from_postgres, from_redis, resume, cluster=cluster))
    except SettingsError as error:
        fail(str(error))
    except HoldfastError as error:
        fail(f"{error}; the same command goes on ({resume})", FAILED)
    except KeyboardInterrupt:
        fail(f"interrupted; the same command goes on ({resume})", INTERRUPTED)
    if as_json:
        typer.echo(json.dumps(asdict(report), ensure_ascii=False))
    else:
        _print(report)
    if not report.complete():
        raise typer.Exit(FAILED)


async def _run(
    settings: Settings, to: str, from_postgres: str | None, from_redis: str | None, resume: Path, *, cluster: bool
) -> ImportReport:
    clock = SystemClock()
    async with AsyncExitStack() as opened:
        source = await _open_source(from_postgres, from_redis, clock, cluster=cluster)
        opened.push_async_callback(source.close)
        target = (await open_queue_stores(settings, clock, {to}))[to]
        opened.push_async_callback(target.close)
        expiry_s = settings.mqtt.max_session_expiry_s
        sessions = opened.enter_context(closing(SessionImport.open(settings.storage.data, clock, to, expiry_s)))
        base = load_base(resume, to)
        if base is None:
            base = await choose_base(source, clock)
            save_base(resume, to, base)
        report = await import_queues(source, target, clock, base, sessions, _tell)
        report.sessions = sessions.made
        # Only when all is imported: a queue that was skipped may be imported later.
        if not (report.refused or report.miscounted):
            remove_base(resume)
        return report


def save_base(resume: Path, to: str, base: int) -> None:
    """Store the base, with which an interrupted import continues."""
    try:
        resume.write_text(json.dumps({"to": to, "base": base}) + "\n", encoding="utf-8")
    except OSError as wrong:
        raise SettingsError(f"{resume} cannot be written ({wrong.strerror}); name another file by --resume") from wrong


def remove_base(resume: Path) -> None:
    """Remove the file: all is imported."""
    resume.unlink()


def load_base(resume: Path, to: str) -> int | None:
    """The stored base; None if no import was begun."""
    if not resume.exists():
        return None
    try:
        kept = json.loads(resume.read_text(encoding="utf-8"))
        base, backend = int(kept["base"]), kept["to"]
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise SettingsError(f"{resume} is not what an import has left ({wrong}); remove it to begin again") from wrong
    if backend != to:
        raise SettingsError(
            f"{resume} is of an import into {backend}; finish that one, or name another file by --resume"
        )
    return base


async def _open_source(
    from_postgres: str | None, from_redis: str | None, clock: SystemClock, *, cluster: bool
) -> TbmqSource:
    try:
        if from_postgres is not None:
            from holdfast.storage.postgres.tbmq import TbmqPostgres

            return await TbmqPostgres.open(from_postgres)
        from holdfast.storage.redis.options import RedisOptions
        from holdfast.storage.redis.tbmq import TbmqRedis
    except ImportError as error:
        kind = "postgres" if from_postgres is not None else "redis"
        raise SettingsError(f"{error.name} is not installed; install it: pip install 'holdfast[{kind}]'") from error
    assert from_redis is not None
    return TbmqRedis(RedisOptions(tuple(from_redis.split(",")), cluster=cluster), clock)


def _tell(report: ImportReport) -> None:
    """Print progress now and then."""
    if report.clients and report.clients % 10_000 == 0:
        typer.echo(f"{report.clients:,} queues, {report.messages:,} messages", err=True)


def _print(report: ImportReport) -> None:
    typer.echo(
        f"{report.clients:,} queues, {report.messages:,} messages, {report.sessions:,} sessions made; "
        f"{report.expired:,} had expired and were left out"
    )
    reasons = [
        *[f"{client}: {reason}" for client, reason in [*report.refused, *report.unreadable, *report.shortened]],
        *[f"{client}: {wanted} messages were brought, {held} are there" for client, wanted, held in report.miscounted],
    ]
    for line in reasons[:_SHOWN]:
        typer.echo(line, err=True)
    if len(reasons) > _SHOWN:
        typer.echo(f"and {len(reasons) - _SHOWN} more: --json lists them", err=True)
