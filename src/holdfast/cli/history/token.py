"""`holdfast token`: programs that may read the history or use the console.

A token is printed once, when it is made. The file holds only its hash.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json
from holdfast.cli.options.times import parse_expiry
from holdfast.files.token_file import add_token, read_token_file, remove_token
from holdfast.model.errors import HoldfastError, PeerError
from holdfast.model.roles import READER, ROLES
from holdfast.model.time import SECOND_US
from holdfast.topics.filters import parse_filter

token = Commands(name="token", help="Tokens of those who may read the history.")

Name = Annotated[str, typer.Argument(help="Whose token it is.", show_default=False)]
File = Annotated[
    Path,
    typer.Option(
        "--file", "-f", help="The token file: the one that [history] token_file names, or [console] token_file."
    ),
]


@token.command()
def add(
    name: Name,
    file: File,
    role: Annotated[str, typer.Option(help=f"What it may do: {', '.join(ROLES)}.")] = READER,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 30d, 12h, or a time such as 2027-01-01.", show_default="never")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="FILTER", help="These topics only, in the console. May be repeated."),
    ] = None,
) -> None:
    """Make a token and print it. It replaces a token of the same name. Creates the file if there is none."""
    with exit_on(HoldfastError, PeerError):
        for text in filters or ():
            if (parsed := parse_filter(text.encode())).group or parsed.since:
                fail(f"--filter {text} names a subscription; write its filter alone, without $share or $replay")
        expires_s = None if expires is None else parse_expiry(expires) // SECOND_US
        token = add_token(file, name, role=role, expires_s=expires_s, filters=filters or ())
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
    """List the names of all tokens, with what differs from a token that reads everything without end."""
    with exit_on(HoldfastError):
        entries = read_token_file(file)
    if as_json:
        typer.echo(json.dumps(list(entries)))
        return
    for entry in entries.values():
        words = [] if entry.role == READER else [entry.role]
        if entry.expires_s is not None:
            words.append(f"until {datetime.fromtimestamp(entry.expires_s, UTC):%Y-%m-%d %H:%M} UTC")
        words += entry.filters
        typer.echo("  ".join((entry.name, *words)))
