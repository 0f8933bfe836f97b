"""`holdfast token`: who may read the history.

A token is printed once, when it is made. The file holds only its hash.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json
from holdfast.history.tokens import add_token, read_tokens, remove_token
from holdfast.model.errors import HoldfastError

token = Commands(name="token", help="Tokens of those who may read the history.")

Name = Annotated[str, typer.Argument(help="Whose token it is.", show_default=False)]
File = Annotated[Path, typer.Option("--file", "-f", help="The token file: the one that [history] token_file names.")]


@token.command()
def add(name: Name, file: File) -> None:
    """Make a token and print it. It replaces a token of the same name. Creates the file if there is none."""
    with exit_on(HoldfastError):
        token = add_token(file, name)
    typer.echo(token)
    typer.echo(f"{file}: this is the token of {name}; it is shown only now", err=True)


@token.command()
def remove(name: Name, file: File) -> None:
    """Remove a token. It is refused from now on."""
    with exit_on(HoldfastError):
        removed = remove_token(file, name)
    if not removed:
        fail(f"{file} has no token of {name}", FAILED)
    typer.echo(f"{file}: token of {name} removed")


@token.command("list")
def list_(file: File, as_json: Json = False) -> None:
    """List the names of all tokens."""
    with exit_on(HoldfastError):
        names = list(read_tokens(file))
    typer.echo(json.dumps(names) if as_json else "\n".join(names))
