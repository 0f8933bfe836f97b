"""`holdfast`: the entry point."""

import asyncio
from typing import Annotated

import typer

from holdfast.model.errors import SettingsError
from holdfast.node.build_info import describe
from holdfast.node.lifecycle import serve as serve_node
from holdfast.node.logs import configure_logs

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
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; loopback only for now.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port; 0 picks a free one.", min=0, max=65535)] = 1883,
) -> None:
    """Run a broker in the foreground."""
    configure_logs()
    try:
        asyncio.run(serve_node(host, port))
    except SettingsError as error:
        typer.echo(f"holdfast: {error}", err=True)
        raise typer.Exit(2) from None


def main() -> None:
    app()
