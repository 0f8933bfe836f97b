"""`holdfast config`: what the settings are, where each comes from, and what is wrong with them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.broker.access.passwords import PasswordFile
from holdfast.broker.access.rules import Rules
from holdfast.broker.access.text_file import WrongLines
from holdfast.cli.commands import WRONG_USAGE, Commands, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.settings_options import SettingsOptions
from holdfast.model.errors import SettingsError
from holdfast.node.settings import Security
from holdfast.node.settings_show import effective
from holdfast.node.settings_values import show as as_toml

app = Commands(name="config", help="Check and show settings.")


@app.command()
@grouped
def check(options: SettingsOptions) -> None:
    """Say everything that is wrong with the settings, where, and what would be right."""
    settings = options.read_or_fail()
    _check_access_files(settings.security)
    listeners = "1 listener" if len(settings.listeners) == 1 else f"{len(settings.listeners)} listeners"
    changed = sum(row.source != "default" for row in effective(settings))
    typer.echo(f"The settings are right: {listeners}, {changed} keys that are not at their default.")


def _check_access_files(security: Security) -> None:
    """The files of users and access, line by line: a broker would not start on wrong ones."""
    wrong = WrongLines()
    with wrong.gathered():
        if security.password_file is not None:
            PasswordFile.load(security.password_file)
    with wrong.gathered():
        if security.acl_file is not None:
            Rules.load(security.acl_file)
    try:
        wrong.refuse()
    except SettingsError as error:
        fail(str(error), WRONG_USAGE)


@app.command()
@grouped
def show(
    options: SettingsOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the effective settings, with the source of each."""
    rows = effective(options.read_or_fail(rules=False))
    if as_json:
        plain = [
            {
                "key": row.key,
                "value": str(row.value) if isinstance(row.value, Path) else row.value,
                "source": row.source,
            }
            for row in rows
        ]
        typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))
        return
    table = Table("setting", "value", "source", box=None, pad_edge=False)
    for row in rows:
        style = "dim" if row.source == "default" else "bold"
        table.add_row(Text(row.key), Text(as_toml(row.value)), Text(row.source), style=style)
    Console().print(table)
