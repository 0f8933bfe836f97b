"""`holdfast jobs`: what a running console runs, and has run."""

import json
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from holdfast.cli.commands import FAILED, Commands, fail
from holdfast.cli.options.console_client import RunningConsole
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_time, printable

jobs = Commands(name="jobs", help="Jobs of a running console: list, show and stop.")

Id = Annotated[str, typer.Argument(metavar="JOB", help="The job's id; `holdfast jobs list` has it.")]

_SAME_TOPICS: Final = "the topics themselves"


@jobs.command("list")
@grouped
def list_jobs(console: RunningConsole, as_json: Json = False) -> None:
    """List jobs that run, and the last hundred that ended; the newest first."""
    with console.connected() as client:
        found: list[dict[str, Any]] = client.ask("GET", "jobs")["items"]
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if found:
        print_table(
            found,
            TableColumn("job", lambda job: job["id"]),
            TableColumn("state", lambda job: job["state"]),
            TableColumn("done", _describe_share, right=True),
            TableColumn("messages", lambda job: str(job["messages"]), right=True),
            TableColumn("what", _describe_what, least=20),
            TableColumn("began (UTC)", lambda job: format_time(job["began_us"])[:19], dispensable=1),
            TableColumn("by", lambda job: printable(job["by"]), dispensable=2),
        )
    running = sum(job["state"] == "running" for job in found)
    typer.echo(f"{len(found)} jobs, {running} of them running")


@jobs.command()
@grouped
def show(job: Id, console: RunningConsole, as_json: Json = False) -> None:
    """Show a job: what it does, how far it is, its command, and why it ended."""
    with console.connected() as client:
        found = next((one for one in client.ask("GET", "jobs")["items"] if one["id"] == job), None)
    if found is None:
        fail(f"there is no job {job!r}; see: holdfast jobs list", FAILED)
    _print_job(found, as_json=as_json)


@jobs.command()
@grouped
def stop(job: Id, console: RunningConsole, as_json: Json = False) -> None:
    """Stop a job. Its place is kept, and the console can resume it there."""
    with console.connected() as client:
        stopped = client.ask("POST", f"jobs/{quote(job, safe='')}/stop")
    _print_job(stopped, as_json=as_json)


def _print_job(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(job, indent=2, ensure_ascii=False))
        return
    ended = f", ended {format_time(job['ended_us'])[:19]}" if job["ended_us"] else ""
    typer.echo(f"{job['id']}: {job['kind']} {_describe_what(job)}")
    typer.echo(f"{job['state']}, {_describe_share(job)}, {job['messages']} messages, {job['bytes']} bytes")
    typer.echo(f"began {format_time(job['began_us'])[:19]}{ended} (UTC), by {printable(job['by'])}")
    if job["detail"]:
        typer.echo(printable(job["detail"]))
    typer.echo(printable(job["command"]))


def _describe_what(job: dict[str, Any]) -> str:
    replay = job["replay"]
    return printable(f"{replay['filter']} → {replay['prefix'] + '…' if replay['prefix'] else _SAME_TOPICS}")


def _describe_share(job: dict[str, Any]) -> str:
    return "?" if job["share"] is None else f"{100 * job['share']:.0f} %"
