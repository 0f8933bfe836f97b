"""`holdfast alarms` and `holdfast audit`: what a running console has noticed, and who changed what by it."""

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from holdfast.cli.commands import Commands
from holdfast.cli.options.console_client import RunningConsole
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_time, printable

alarms = Commands(name="alarms", help="Alarms of a running console: list and mute.")


@alarms.command("list")
@grouped
def list_alarms(console: RunningConsole, as_json: Json = False) -> None:
    """List the alarms that are active, then those that have ended; the newest first."""
    with console.connected() as client:
        found: list[dict[str, Any]] = client.ask("GET", "alarms")["items"]
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if found:
        print_table(
            found,
            TableColumn("alarm", lambda alarm: alarm["alarm"]),
            TableColumn("since (UTC)", lambda alarm: format_time(alarm["since_us"])[:19]),
            TableColumn("until", _describe_end),
            TableColumn("detail", lambda alarm: printable(alarm["detail"]), least=20),
            TableColumn("runbook", lambda alarm: alarm["runbook"], dispensable=1),
        )
    active = sum(alarm["until_us"] is None for alarm in found)
    typer.echo(f"{active} alarms are active, {len(found) - active} have ended")


@alarms.command()
@grouped
def mute(
    alarm: Annotated[str, typer.Argument(metavar="ALARM", help="Its name; `holdfast alarms list` has it.")],
    console: RunningConsole,
    seconds: Annotated[int, typer.Option(help="For how long; 0 ends it.", min=0)] = 3600,
    as_json: Json = False,
) -> None:
    """Mute an alarm that is active: it stays on the page and in the metrics, and does not ring the bell."""
    with console.connected() as client:
        muted = client.ask("POST", f"alarms/{quote(alarm, safe='')}/mute", {"seconds": seconds})
    if as_json:
        typer.echo(json.dumps(muted, indent=2, ensure_ascii=False))
    elif muted["muted_until_us"]:
        typer.echo(f"{alarm} is muted until {format_time(muted['muted_until_us'])[:19]} (UTC)")
    else:
        typer.echo(f"{alarm} is not muted")


@grouped
def audit(
    console: RunningConsole,
    limit: Annotated[int, typer.Option(help="The newest so many.", min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List who changed what by a running console, from where, and how it ended; the newest first."""
    with console.connected() as client:
        found: list[dict[str, Any]] = client.ask("GET", f"audit?limit={limit}")["items"]
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif found:
        print_table(
            found,
            TableColumn("time (UTC)", lambda entry: format_time(entry["at_us"])[:19]),
            TableColumn("who", lambda entry: printable(entry["name"])),
            TableColumn("from", lambda entry: printable(entry["address"]), dispensable=1),
            TableColumn("what", lambda entry: printable(entry["what"])),
            TableColumn("target", lambda entry: printable(entry["target"]), least=12),
            TableColumn("outcome", lambda entry: printable(entry["outcome"] or "not known"), least=8),
        )
    else:
        typer.echo("nothing was changed")


def _describe_end(alarm: dict[str, Any]) -> str:
    if alarm["until_us"] is not None:
        return format_time(alarm["until_us"])[:19]
    return "active, muted" if alarm["muted_until_us"] else "active"
