"""`holdfast config`: what the settings are, where each comes from, and what is wrong with them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.broker.access.passwords import PasswordFile
from holdfast.broker.access.rules import Rules
from holdfast.broker.access.text_file import WrongLines
from holdfast.cli.commands import WRONG_USAGE, Commands, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.settings_options import SettingsOptions
from holdfast.cli.tables import Column, print_table
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
    print_table(
        (Column("setting", least=30), Column("value", least=20), Column("source", least=12)),
        [(row.key, as_toml(row.value), row.source) for row in rows],
        ["dim" if row.source == "default" else "bold" for row in rows],
    )
