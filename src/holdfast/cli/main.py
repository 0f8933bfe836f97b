"""`holdfast`: the entry point."""

import os
import sys
from typing import Annotated, Final

import typer

from holdfast.cli.commands import Commands
from holdfast.cli.output.standard_output import check_standard_output

#: In the order of `--help`: what a newcomer needs first.
COMMANDS: Final = {
    "serve.serve": "Run a broker in the foreground.",
    "pub.pub": "Publish a message, and wait until the broker has it.",
    "sub.sub": "Subscribe, and print messages until Ctrl-C.",
    "replay.replay": "Replay stored messages of a running broker: print them, or publish them again.",
    "history.export.export": (
        "Write stored messages to a file, from the data folder itself. The broker may run meanwhile."
    ),
    "demo.demo": (
        "Run a broker with a publisher and a subscriber, and count what is acknowledged, delivered, missing and "
        "doubled."
    ),
    "status.status": ("Print how a running broker is: its state, rates of the last second, clients, commits and disk."),
    "status.health": "Exit with status 0 if a broker runs and takes messages, with 1 if it does not; say why.",
    "clients.clients": "Clients that are connected to a running broker: list, show and disconnect.",
    "clients.subscriptions": (
        "List who gets a topic, or which subscriptions lie within a filter: of sessions in the broker's memory."
    ),
    "sessions.sessions": "Sessions of clients: end one, empty its queue; in a cluster, see who took over.",
    "blocks.blocks": "Clients, users and addresses that a broker does not let in: list, add and remove.",
    "status.reload": (
        "Have a running broker read settings, passwords, access rules, blocks and certificates again; say what changed."
    ),
    "history.events.events": (
        "List what was dropped, refused or ended, and why: the newest last. The broker may be running."
    ),
    "history.explain.explain": (
        "Say of each message what became of it for a client: acknowledged, in flight, owed, dropped, or not for it."
    ),
    "history.state.state": (
        "Print the newest message of each topic at a moment, or what has changed since another one."
    ),
    "history.state.density": (
        "Print how many messages of a filter there were in each part of a range; every number is exact."
    ),
    "history.command.history": (
        "Serve stored messages by Arrow Flight and HTTP, from a data folder, whether a broker runs on it or not."
    ),
    "console.console": "The web console: serve it alone, open it, and its users.",
    "jobs.jobs": "Jobs of a running console: list, show and stop.",
    "alarms.alarms": "Alarms of a running console: list and mute.",
    "alarms.audit": "List who changed what by a running console, from where, and how it ended; the newest first.",
    "storage.leases.leases": (
        "List the leases of pipelines, which retention waits for: how far behind each is, and when it was renewed."
    ),
    "storage.command.verify": (
        "Read everything in a data folder and print what is wrong with it; the exit status is 1 if something is."
    ),
    "storage.command.backup": "Make a backup of a data folder.",
    "storage.command.restore": "Make a data folder from a backup, after checking every byte of it.",
    "storage.bench.bench": "Measure the log on this machine.",
    "cluster.cluster": "Several nodes as one broker: make a cluster, and see how it is.",
    "config.config": "Check and show settings.",
    "queue.command.queue": "Client queues outside the log.",
    "spark.command.spark": "Jobs over all of history, on Spark.",
    "storage.command.zones": "Zones, their generations, and what was learnt.",
    "history.token.token": "Tokens of those who may read the history.",
    "user.user": "Users and their passwords.",
}

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
