"""Options that every verb with a connection to a broker shares, and how such a verb runs and fails.

A password never stands on a command line, where every user of the machine can read it: it comes from a variable, from a
file, or from a prompt.

Exit codes: 0 done, 1 refused by the broker or no broker there, 2 wrong usage.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from holdfast.cli.client_errors import LostError, RefusedError
from holdfast.model.protocol import V5, V311

REFUSED: Final = 1
WRONG_USAGE: Final = 2


class Version(StrEnum):
    """Protocol versions, as people call them."""

    V3 = "3"
    V5 = "5"

    @property
    def level(self) -> int:
        return V5 if self is Version.V5 else V311


HostOption = Annotated[str, typer.Option(help="The broker's address.")]
PortOption = Annotated[int, typer.Option(help="The broker's port.", min=1, max=65535)]
VersionOption = Annotated[Version, typer.Option("-V", "--mqtt-version", help="MQTT version: 3 means 3.1.1.")]
QosOption = Annotated[int, typer.Option("-q", "--qos", help="Quality of service.", min=0, max=2)]
UserOption = Annotated[
    str | None, typer.Option(help="User name. Without a password option, the password is asked for.")
]
PasswordEnvOption = Annotated[
    str | None, typer.Option(metavar="VARIABLE", help="Take the password from this variable.")
]
PasswordFileOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Take the password from this file.")]
IdOption = Annotated[str, typer.Option("--id", help="Client id; without it, the broker makes one up.")]


def fail(message: str, code: int) -> NoReturn:
    """Tell a person what went wrong, and leave."""
    typer.echo(f"holdfast: {message}", err=True)
    raise typer.Exit(code)


def find_password(user: str | None, variable: str | None, file: Path | None) -> bytes | None:
    """The password for `user`, from where the options say."""
    if variable is not None and file is not None:
        fail("--password-env and --password-file are both given; use one of them", WRONG_USAGE)
    if user is None:
        if variable is not None or file is not None:
            fail("a password is given, and no user name; add --user NAME", WRONG_USAGE)
        return None
    if variable is not None:
        if variable not in os.environ:
            fail(f"--password-env {variable}: there is no such variable; export it", WRONG_USAGE)
        return os.environ[variable].encode()
    if file is not None:
        try:
            return file.read_bytes().rstrip(b"\r\n")
        except OSError as error:
            fail(f"--password-file {file}: {error.strerror}", WRONG_USAGE)
    if sys.stdin.isatty():
        entered: str = typer.prompt("Password", hide_input=True, default="", show_default=False, err=True)
        return entered.encode()
    return None


def run(verb: Coroutine[Any, Any, None]) -> None:
    """Run a verb to its end; what the broker refuses becomes a message and an exit code."""
    try:
        asyncio.run(verb)
    except (RefusedError, LostError) as error:
        fail(str(error), REFUSED)
