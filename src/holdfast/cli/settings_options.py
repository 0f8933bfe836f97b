"""Options of the verbs that read settings."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.broker_options import WRONG_USAGE, fail
from holdfast.model.errors import SettingsError
from holdfast.node.settings import Settings
from holdfast.node.settings_load import load
from holdfast.node.settings_sources import Flags

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file; without it ./holdfast.toml if there is one.")
]
ListenHostOption = Annotated[str | None, typer.Option("--host", help="Address of the default listener.")]
ListenPortOption = Annotated[
    int | None, typer.Option("--port", help="Port of the default listener; 0 picks a free one.", min=0, max=65535)
]
DataOption = Annotated[str | None, typer.Option("--data", help="Folder of the broker's data.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting. May be repeated.")
]


def load_or_fail(
    config: Path | None,
    host: str | None,
    port: int | None,
    data: str | None,
    assignments: list[str] | None,
    *,
    rules: bool = True,
) -> Settings:
    """The effective settings; what is wrong with them is printed, and ends the program."""
    flags = Flags(config=config, host=host, port=port, data=data, assignments=tuple(assignments or ()))
    try:
        return load(flags, rules=rules)
    except SettingsError as error:
        fail(str(error), WRONG_USAGE)
