"""`holdfast history`: serve the stored messages of a data folder, with or without a running broker."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from holdfast.cli.commands import exit_on
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.settings import Assignments, ConfigFile
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.node.logs import configure_logs
from holdfast.node.processes.history_main import serve_history, stop_on_signals
from holdfast.node.settings.loader import load
from holdfast.node.settings.section_rules import history_problems
from holdfast.node.settings.sources import Flags

_PROGRAM = "holdfast history"


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Sources of the history settings besides the environment; options win."""

    config: ConfigFile = None
    data: Annotated[str | None, typer.Option(help="Folder of the broker's data.")] = None
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None
    flight_port: Annotated[
        int | None, typer.Option(help="Port of Arrow Flight.", min=0, max=65535, show_default="18815")
    ] = None
    http_port: Annotated[int | None, typer.Option(help="Port of HTTP.", min=0, max=65535, show_default="18084")] = None
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Who may read; `holdfast token add` writes it.")
    ] = None
    assignments: Assignments = None

    def flags(self) -> Flags:
        given = {"host": self.host, "flight_port": self.flight_port, "http_port": self.http_port}
        given["token_file"] = self.token_file
        own = [f"history.{key}={value}" for key, value in given.items() if value is not None]
        return Flags(config=self.config, data=self.data, assignments=(*(self.assignments or ()), *own))


@grouped
def history(options: HistoryOptions) -> None:
    """Serve stored messages by Arrow Flight and HTTP, from a data folder, whether a broker runs on it or not."""
    with exit_on(HoldfastError):
        settings = load(options.flags(), rules=False)
        settings = replace(settings, history=replace(settings.history, enabled=True))
        wrong = [f"{key} {text}" for key, text, *_others in history_problems(settings, _PROGRAM)]
        if wrong:
            raise SettingsError("\n".join(wrong))
        configure_logs(settings.log.level, settings.log.format)
        serve_history(settings.storage.data, settings.history, stop_on_signals())
