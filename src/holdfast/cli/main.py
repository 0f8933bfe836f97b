"""`holdfast`: the entry point."""

import os
import sys
from typing import Annotated, Final

import typer

from holdfast.cli.commands import Commands, Lazy
from holdfast.cli.output.standard_output import check_standard_output

#: In the order of `--help`: what a newcomer needs first.
COMMANDS: Final = (
    Lazy("serve", "holdfast.cli.serve:serve", "Run a broker in the foreground."),
    Lazy("pub", "holdfast.cli.pub:pub", "Publish a message, and wait until the broker has it."),
    Lazy("sub", "holdfast.cli.sub:sub", "Subscribe, and print messages until Ctrl-C."),
    Lazy(
        "replay",
        "holdfast.cli.replay:replay",
        "Replay stored messages of a running broker: print them, or publish them again.",
    ),
    Lazy(
        "export",
        "holdfast.cli.history.export:export",
        "Write stored messages to a file, from the data folder itself. The broker may run meanwhile.",
    ),
    Lazy(
        "demo",
        "holdfast.cli.demo:demo",
        "Run a broker with a publisher and a subscriber, and count what is acknowledged, delivered, missing and "
        "doubled.",
    ),
    Lazy(
        "events",
        "holdfast.cli.history.events:events",
        "List what was dropped, refused or ended, and why: the newest last. The broker may be running.",
    ),
    Lazy(
        "explain",
        "holdfast.cli.history.explain:explain",
        "Say of each message what became of it for a client: acknowledged, in flight, owed, dropped, or not for it.",
    ),
    Lazy(
        "history",
        "holdfast.cli.history.command:history",
        "Serve stored messages by Arrow Flight and HTTP, from a data folder, whether a broker runs on it or not.",
    ),
    Lazy(
        "leases",
        "holdfast.cli.storage.leases:leases",
        "List the leases of pipelines, which retention waits for: how far behind each is, and when it was renewed.",
    ),
    Lazy(
        "verify",
        "holdfast.cli.storage.command:verify",
        "Read everything in a data folder and print what is wrong with it; the exit status is 1 if something is.",
    ),
    Lazy("backup", "holdfast.cli.storage.command:backup", "Make a backup of a data folder."),
    Lazy(
        "restore",
        "holdfast.cli.storage.command:restore",
        "Make a data folder from a backup, after checking every byte of it.",
    ),
    Lazy("bench", "holdfast.cli.storage.bench:app", "Measure the log on this machine."),
    Lazy("config", "holdfast.cli.config:app", "Check and show settings."),
    Lazy("queue", "holdfast.cli.queue.command:app", "Client queues outside the log."),
    Lazy("spark", "holdfast.cli.spark.command:app", "Jobs over all of history, on Spark."),
    Lazy("zones", "holdfast.cli.storage.command:zones", "Zones, their generations, and what was learnt."),
    Lazy("token", "holdfast.cli.history.token:app", "Tokens of those who may read the history."),
    Lazy("user", "holdfast.cli.user:app", "Users and their passwords."),
)

app = Commands(name="holdfast", help="A durable MQTT broker.", lazy=COMMANDS, add_completion=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from holdfast.node.build_info import describe

        typer.echo(describe())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print versions and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable MQTT broker."""


def main() -> None:
    if sys.argv[1:2] != ["spark"]:  # other users query the tables that Spark writes
        os.umask(os.umask(0o077) | 0o077)  # files of commands are private to their user
    with check_standard_output():
        app(prog_name="holdfast")
