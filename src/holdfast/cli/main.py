"""`holdfast`: the entry point."""

from typing import Annotated

import typer

from holdfast.cli import bench, config, queue, spark, storage, token, user
from holdfast.cli.broker_options import WRONG_USAGE, fail
from holdfast.cli.demo import demo
from holdfast.cli.events import events
from holdfast.cli.explain import explain
from holdfast.cli.export import export
from holdfast.cli.history import history
from holdfast.cli.leases import leases
from holdfast.cli.option_groups import grouped
from holdfast.cli.pub import pub
from holdfast.cli.replay import replay
from holdfast.cli.settings_options import SettingsOptions
from holdfast.cli.sub import sub
from holdfast.model.errors import PermanentError, PoisonedError, SettingsError
from holdfast.node.build_info import describe
from holdfast.node.lifecycle import run as run_node
from holdfast.node.logs import configure_logs

#: What the data folder holds cannot be read, or nothing can be written to it any more.
CANNOT_GO_ON = 1

app = typer.Typer(name="holdfast", help="A durable MQTT broker.", no_args_is_help=True, add_completion=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(describe())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print versions and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable MQTT broker."""


@app.command()
@grouped
def serve(options: SettingsOptions) -> None:
    """Run a broker in the foreground."""
    settings = options.read_or_fail()
    configure_logs(settings.log.level, settings.log.format)
    try:
        run_node(settings, options.read)
    except SettingsError as error:
        fail(str(error), WRONG_USAGE)
    except (PermanentError, PoisonedError) as error:
        fail(f"the broker cannot go on: {error}", CANNOT_GO_ON)


app.command()(pub)
app.command()(sub)
app.command()(replay)
app.command()(export)
app.command()(demo)
app.command()(events)
app.command()(explain)
app.command()(history)
app.command()(leases)
app.command()(storage.verify)
app.command()(storage.backup)
app.command()(storage.restore)
app.add_typer(bench.app, name="bench")
app.add_typer(config.app, name="config")
app.add_typer(queue.app, name="queue")
app.add_typer(spark.app, name="spark")
app.add_typer(storage.zones, name="zones")
app.add_typer(token.app, name="token")
app.add_typer(user.app, name="user")


def main() -> None:
    app()
