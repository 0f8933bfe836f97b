"""`holdfast spark`: jobs over all of history, on Spark."""

import typer

from holdfast.cli.spark_archive import archive
from holdfast.cli.spark_load import load
from holdfast.cli.spark_relayout import relayout
from holdfast.cli.spark_report import report
from holdfast.cli.spark_sql import sql

app = typer.Typer(name="spark", help="Jobs over all of history, on Spark.", no_args_is_help=True)

app.command()(archive)
app.command()(load)
app.command()(relayout)
app.command()(report)
app.command()(sql)
