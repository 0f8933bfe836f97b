"""`holdfast config`: the settings, the source of each, and their problems."""

import json
from dataclasses import asdict

import typer

from holdfast.broker.access.passwords import PasswordFile
from holdfast.broker.access.rules import Rules
from holdfast.broker.access.text_file import WrongLines
from holdfast.cli.commands import Commands, exit_on
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.model.errors import SettingsError
from holdfast.node.settings.loader import effective_settings
from holdfast.node.settings.tree import Security
from holdfast.node.settings.values import format_toml

config = Commands(name="config", help="Check and show settings.")


@config.command()
@grouped
def check(options: SettingsOptions) -> None:
    """Print every problem of the settings: where it is, and what would be right."""
    settings = options.read_or_fail()
    _check_access_files(settings.security)
    listeners = "1 listener" if len(settings.listeners) == 1 else f"{len(settings.listeners)} listeners"
    changed = sum(row.source != "default" for row in effective_settings(settings))
    typer.echo(f"The settings are right: {listeners}, {changed} keys that are not at their default.")


def _check_access_files(security: Security) -> None:
    """Check the password and ACL files line by line: a broker does not start with wrong ones."""
    wrong = WrongLines()
    with wrong.gathered():
        if security.password_file is not None:
            PasswordFile.load(security.password_file)
    with wrong.gathered():
        if security.acl_file is not None:
            Rules.load(security.acl_file)
    with exit_on(SettingsError):
        wrong.refuse()


@config.command()
@grouped
def show(options: SettingsOptions, as_json: Json = False) -> None:
    """Print the effective settings, with the source of each."""
    rows = effective_settings(options.read_or_fail(rules=False))
    if as_json:
        # Paths are written as text.
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False, default=str))
        return
    print_table(
        rows,
        TableColumn("setting", lambda row: row.key, least=30),
        TableColumn("value", lambda row: format_toml(row.value), least=20),
        TableColumn("source", lambda row: row.source, least=12),
        styles=["dim" if row.source == "default" else "bold" for row in rows],
    )
