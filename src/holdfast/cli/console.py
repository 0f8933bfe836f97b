"""`holdfast console`: serve the console of a folder alone, open the one that runs, and its users.

A password is asked for without echo, or read from standard input. It is never an argument, because arguments are shown
in the list of processes and in the shell's history.
"""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json
from holdfast.cli.options.settings import Assignments, ConfigFile
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.model.roles import ROLES, VIEWER
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags

console = Commands(name="console", help="The web console: serve it alone, open it, and its users.")
user = Commands(name="user", help="People who may log in to the console.")
console.add_typer(user)

Data = Annotated[str | None, typer.Option(help="Folder of the broker's data.")]
Name = Annotated[str, typer.Argument(help="The user name.", show_default=False)]
File = Annotated[Path, typer.Option("--file", "-f", help="The user file: the one that [console] user_file names.")]


@console.callback(invoke_without_command=True)
def serve(
    ctx: typer.Context,
    data: Data = None,
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 picks a free one.", min=0, max=65535, show_default="18083")
    ] = None,
    assignments: Assignments = None,
) -> None:
    """The web console.

    Without a command: serve the console of a data folder whose broker is stopped, or of a restored backup. It shows the
    past and no present, and changes nothing. A running broker has a console already: see `holdfast console open`.
    """
    if ctx.invoked_subcommand is not None:
        return
    from holdfast.node.logs import configure_logs
    from holdfast.node.processes.console_main import serve_console
    from holdfast.node.processes.console_supervisor import STATE_FOLDER, console_start
    from holdfast.node.settings.console_rules import console_problems

    given = {"host": host, "port": port}
    own = [f"console.{key}={value}" for key, value in given.items() if value is not None]
    with exit_on(HoldfastError):
        settings = load(Flags(config=config, data=data, assignments=(*(assignments or ()), *own)), rules=False)
        settings = replace(settings, console=replace(settings.console, enabled=True))
        wrong = [f"{key} {text}" for key, text, *_others in console_problems(settings, "holdfast console")]
        if wrong:
            raise SettingsError("\n".join(wrong))
        folder = settings.storage.data
        if not folder.is_dir():
            raise SettingsError(f"there is no data folder {folder}; name one with --data")
        configure_logs(settings.log.level, settings.log.format)
        start = console_start(settings, folder / STATE_FOLDER, read_only=True)

        async def run() -> None:
            stop = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            await serve_console(start, stop, lambda addresses: typer.echo(addresses.get("link", addresses["url"])))

        asyncio.run(run())


@console.command("open")
def open_(data: Data = None, config: ConfigFile = None, assignments: Assignments = None) -> None:
    """Print a link that logs in once, within an hour, on this machine."""
    from holdfast.console.access.one_time_links import login_address, make_link
    from holdfast.node.processes.console_main import ADDRESS_FILE
    from holdfast.node.processes.console_supervisor import STATE_FOLDER

    with exit_on(HoldfastError):
        settings = load(Flags(config=config, data=data, assignments=assignments), rules=False)
    state = settings.storage.data / STATE_FOLDER
    try:
        url = json.loads((state / ADDRESS_FILE).read_text())["url"]
        token = make_link(state)
    except (OSError, ValueError, KeyError) as error:
        why = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        fail(f"no console has run on {settings.storage.data} ({why}); start one: holdfast serve", FAILED)
    typer.echo(login_address(url, token))


@user.command()
def add(
    name: Name,
    file: File,
    role: Annotated[str, typer.Option(help=f"What the user may do: {', '.join(ROLES)}.")] = VIEWER,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input: one line.")
    ] = False,
) -> None:
    """Add a user, or give one a new role and password. The file is created if there is none."""
    from holdfast.console.access.credential_files import set_user

    with exit_on(HoldfastError):
        is_new = set_user(file, name, role, _read_password() if password_stdin else _ask())
    typer.echo(f"{file}: user {name} {'added' if is_new else 'changed'}, with the role {role}")


@user.command()
def remove(name: Name, file: File) -> None:
    """Remove a user, who is logged out at once."""
    from holdfast.console.access.credential_files import remove_user

    with exit_on(HoldfastError):
        removed = remove_user(file, name)
    if not removed:
        fail(f"{file} has no user {name!r}; see: holdfast console user list --file {file}", FAILED)
    typer.echo(f"{file}: user {name} removed")


@user.command("list")
def list_(file: File, as_json: Json = False) -> None:
    """List the users and their roles."""
    from holdfast.console.access.credential_files import read_users

    with exit_on(HoldfastError):
        users = read_users(file)
    if as_json:
        typer.echo(json.dumps({user.name: user.role for user in users.values()}, ensure_ascii=False))
        return
    for user in users.values():
        typer.echo(f"{user.name}  {user.role}")


def _ask() -> str:
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt="Once more"))


def _read_password() -> str:
    raw: bytes = typer.get_binary_stream("stdin").read()
    try:
        line = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        fail("--password-stdin found bytes that are not UTF-8 on standard input")
    if not line or "\n" in line:
        fail("--password-stdin reads one line; pipe the password alone: printf %s … | holdfast console user add …")
    return line
