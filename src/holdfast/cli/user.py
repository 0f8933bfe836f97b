"""`holdfast user`: the users of a password file.

A password is asked for without echo, or read from standard input. It is never an argument, because arguments are shown
in the list of processes and in the shell's history.
"""

import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from holdfast.broker.access.passwords import PasswordFile, check_user_name, list_users, remove_user, set_password
from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json
from holdfast.model.errors import HoldfastError

user = Commands(name="user", help="Users and their passwords.")

Name = Annotated[str, typer.Argument(help="The user name.", show_default=False)]
File = Annotated[
    Path | None, typer.Option("--file", "-f", help="The password file: the one that [security] password_file names.")
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input: one line.")
]


@user.command()
def add(name: Name, file: File = None, password_stdin: PasswordStdin = False) -> None:
    """Add a user, or give one a new password. The file is created if there is none."""
    path = _required(file, f"add {name}")
    with exit_on(HoldfastError):
        check_user_name(name)
        new = set_password(path, name, _read_password() if password_stdin else _ask(twice=True))
    typer.echo(f"{path}: user {name} added" if new else f"{path}: user {name} has a new password")


@user.command()
def remove(name: Name, file: File = None) -> None:
    """Remove a user."""
    path = _required(file, f"remove {name}")
    with exit_on(HoldfastError):
        removed = remove_user(path, name)
    if not removed:
        _fail_unknown(path, name)
    typer.echo(f"{path}: user {name} removed")


@user.command("list")
def list_(file: File = None, as_json: Json = False) -> None:
    """List the users."""
    path = _required(file, "list")
    with exit_on(HoldfastError):
        users = list_users(path)
    if as_json:
        typer.echo(json.dumps(users, ensure_ascii=False))
        return
    for user in users:
        typer.echo(user)


@user.command()
def check(name: Name, file: File = None, password_stdin: PasswordStdin = False) -> None:
    """Check a user's password; the exit status is 0 if it is right, 1 if not."""
    path = _required(file, f"check {name}")
    with exit_on(HoldfastError):
        passwords = PasswordFile.load(path)
        if name not in passwords:
            _fail_unknown(path, name)
        right = passwords.verify(name, _read_password() if password_stdin else _ask(twice=False))
    if not right:
        typer.echo(f"{path}: this is not the password of user {name}", err=True)
        raise typer.Exit(FAILED)
    typer.echo(f"{path}: this is the password of user {name}")


def _required(file: Path | None, verb: str) -> Path:
    if file is None:
        fail(f"which password file? Name the one of [security] password_file: holdfast user {verb} --file <path>")
    return file


def _ask(*, twice: bool) -> bytes:
    typed = str(typer.prompt("Password", hide_input=True, confirmation_prompt="Once more" if twice else False))
    # The bytes of the terminal, even if they are not UTF-8: a client would send the same.
    return typed.encode(errors="surrogateescape")


def _read_password() -> bytes:
    raw: bytes = typer.get_binary_stream("stdin").read()
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line:
        fail("--password-stdin reads one line, and more came; pipe the password alone")
    if not line:
        fail("--password-stdin found no password on standard input; pipe it in: printf %s … | holdfast user …")
    return line


def _fail_unknown(path: Path, name: str) -> NoReturn:
    fail(f"{path} has no user {name!r}; see: holdfast user list --file {path}")
