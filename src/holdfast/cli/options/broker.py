"""Options of every command that connects to a broker, and how such a command runs and fails.

A password never stands on a command line, where every user of the machine can read it: it comes from a variable, from a
file, or from a prompt.
"""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import (
    PLAIN_PORT,
    TLS_PORT,
    BrokerAddress,
    ConnectionOptions,
    OptionNames,
    parse_address,
    read_password,
    tls_context,
)
from holdfast.model.protocol import MAX_U16, V5, V311

_LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = OptionNames(
    ca="--ca",
    cert="--cert",
    password_env="--password-env",
    password_file="--password-file",
    version_3="-V 3",
    version_5="-V 5",
    use_tls="--tls",
    trust="name the authority that signed it with --ca FILE",
    or_insecure=", or have nothing checked with --insecure",
    identify="--cert FILE and --key FILE",
)


class Version(StrEnum):
    """Protocol versions, as people call them."""

    V3 = "3"
    V5 = "5"

    @property
    def level(self) -> int:
        return V5 if self is Version.V5 else V311


QosOption = Annotated[int, typer.Option("-q", "--qos", help="Quality of service.", min=0, max=2)]


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """Which broker, how to reach it, and as whom."""

    url: Annotated[
        str | None,
        typer.Option(
            "-L",
            "--url",
            help="The broker's address instead of --host and --port: mqtt://HOST, mqtts://HOST (TLS), ws://HOST or "
            "wss://HOST (WebSocket), with :PORT and /PATH as needed.",
        ),
    ] = None
    host: Annotated[str | None, typer.Option("-h", "--host", help="The broker's host.", show_default=_LOOPBACK)] = None
    port: Annotated[
        int | None,
        typer.Option(
            "-p",
            "--port",
            help="The broker's port.",
            min=1,
            max=65535,
            show_default=f"{PLAIN_PORT}, or {TLS_PORT} with TLS",
        ),
    ] = None
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Use TLS, as mqtts:// and wss:// do. --ca, --cert, --key and --insecure imply it."),
    ] = False
    ca: Annotated[
        Path | None,
        typer.Option("--ca", "--cafile", metavar="FILE", help="Trust these authorities instead of the machine's; PEM."),
    ] = None
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate, PEM.")] = None
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of --cert, PEM.")] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Do not check who the broker is. Any machine in between can read along.")
    ] = False
    version: Annotated[Version, typer.Option("-V", "--mqtt-version", help="MQTT version: 3 means 3.1.1.")] = Version.V5
    user: Annotated[
        str | None,
        typer.Option("-u", "--user", help="User name. Without a password option, the password is asked for."),
    ] = None
    password_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Take the password from this variable.")
    ] = None
    password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Take the password from this file.")] = None
    client_id: Annotated[str, typer.Option("-i", "--id", help="Client id; without it, the broker makes one up.")] = ""

    def target(self, *, clean_start: bool = True, session_expiry_s: int = 0, named: str = "--url") -> ConnectionOptions:
        """The connection that the options ask for; contradictions among them end the program.

        `named` is the option that the address was given by.
        """
        address = self._address(named)
        if self._asks_for_tls() and not address.secure:
            fail(f"{named} {self.url} is without TLS; write {address.secured()}://, or no options of TLS")
        if self.key is not None and self.cert is None:
            fail("--key is given, and no certificate that it belongs to; add --cert FILE")
        context = None
        if address.secure:
            with exit_on(ValueError):
                context = tls_context(self.ca, self.cert, self.key, insecure=self.insecure, names=_NAMES)
        if self.user is not None and address.user is not None:
            fail(f"--user is given, and a user name in {named} as well; use one of them")
        user = self.user if self.user is not None else address.user
        password = find_password(user, self.password_env, self.password_file)
        fields = {"client id": self.client_id.encode(), "user name": (user or "").encode(), "password": password or b""}
        for field, value in fields.items():
            if len(value) > MAX_U16:
                fail(f"the {field} has {len(value)} bytes; MQTT carries {MAX_U16} at most")
        return ConnectionOptions(
            host=address.host,
            port=address.port,
            path=address.path,
            tls=context,
            version=self.version.level,
            client_id=self.client_id,
            user_name=user,
            password=password,
            clean_start=clean_start,
            session_expiry_s=session_expiry_s,
            names=_NAMES,
        )

    def _asks_for_tls(self) -> bool:
        return self.tls or self.insecure or any((self.ca, self.cert, self.key))

    def _address(self, named: str) -> BrokerAddress:
        if self.url is None:
            secure = self._asks_for_tls()
            port = self.port or (TLS_PORT if secure else PLAIN_PORT)
            return BrokerAddress("mqtts" if secure else "mqtt", self.host or _LOOPBACK, port, None, None)
        if self.host is not None or self.port is not None:
            fail("--url is given, and --host or --port as well; use one way to say where the broker is")
        with exit_on(ValueError, named=f"{named} {self.url}"):
            return parse_address(self.url, "--password-env or --password-file")


def find_password(user: str | None, variable: str | None, file: Path | None) -> bytes | None:
    """The password for `user`, from where the options say."""
    if variable is not None and file is not None:
        fail("--password-env and --password-file are both given; use one of them")
    if user is None:
        if variable is not None or file is not None:
            fail("a password is given, and no user name; add --user NAME")
        return None
    with exit_on(ValueError):
        password = read_password(variable, file, _NAMES)
    if password is None and sys.stdin.isatty():
        entered: str = typer.prompt("Password", hide_input=True, default="", show_default=False, err=True)
        return entered.encode()
    return password


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end. An error of the connection becomes a message and an exit code."""
    with exit_on(RefusedError, LostError, code=FAILED):
        asyncio.run(work)
