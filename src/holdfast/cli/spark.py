"""`holdfast spark`: jobs over all of history, on Spark."""

import typer

from holdfast.cli.spark_archive import archive
from holdfast.cli.spark_audit import audit
from holdfast.cli.spark_learn import learn
from holdfast.cli.spark_load import load
from holdfast.cli.spark_migrate import migrate
from holdfast.cli.spark_relayout import relayout
from holdfast.cli.spark_replay import replay
from holdfast.cli.spark_report import report
from holdfast.cli.spark_retain import retain
from holdfast.cli.spark_run import run
from holdfast.cli.spark_sql import sql

app = typer.Typer(name="spark", help="Jobs over all of history, on Spark.", no_args_is_help=True)

app.command()(archive)
app.command()(audit)
app.command()(learn)
app.command()(load)
app.command()(migrate)
app.command()(relayout)
app.command()(replay)
app.command()(report)
app.command()(retain)
app.command()(run)
app.command()(sql)
