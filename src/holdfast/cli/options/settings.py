"""Options of the commands that read settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import exit_on
from holdfast.model.errors import SettingsError
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Settings

ConfigFile = Annotated[Path | None, typer.Option(help="Settings file; without it ./holdfast.toml if there is one.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting. May be repeated.")
]


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(Flags):
    """The sources of settings besides the environment."""

    config: ConfigFile = None
    host: Annotated[str | None, typer.Option(help="Address of the default listener.")] = None
    port: Annotated[
        int | None, typer.Option(help="Port of the default listener; 0 picks a free one.", min=0, max=65535)
    ] = None
    data: Annotated[str | None, typer.Option(help="Folder of the broker's data.")] = None
    assignments: Assignments = None

    def read(self, *, rules: bool = True) -> Settings:
        """The effective settings; SettingsError if they are wrong."""
        return load(self, rules=rules)

    def read_or_fail(self, *, rules: bool = True) -> Settings:
        """The effective settings; prints their problems and exits if there are any."""
        with exit_on(SettingsError):
            return self.read(rules=rules)
