"""`holdfast spark`: jobs over all of history, on Spark."""

import typer

from holdfast.cli.spark_archive import archive

app = typer.Typer(name="spark", help="Jobs over all of history, on Spark.", no_args_is_help=True)

app.command()(archive)
