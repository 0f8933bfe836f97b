"""`holdfast queue`: client queues outside the log."""

import typer

from holdfast.cli.queue_tbmq import import_tbmq

app = typer.Typer(name="queue", help="Client queues outside the log.", no_args_is_help=True)
app.command("import-tbmq")(import_tbmq)
