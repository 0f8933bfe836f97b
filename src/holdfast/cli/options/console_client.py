"""How commands ask a running console: by its API, logged in with a one-time link of their own.

Whoever may write to the data folder may make a link. Where the console listens on an address that is not loopback,
links are refused, and a token is needed.
"""

import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.settings import ConfigFile
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags

_TIMEOUT_S: Final = 30.0
#: What a page of the console sends along, and a change needs.
_HEADERS: Final = {"X-Holdfast": "1", "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}


class NoConsoleError(TransientError):
    """No console answers."""


class ConsoleRefusedError(PermanentError):
    """The console did nothing, and says why."""


class ConsoleClient:
    """Calls of the API of one console."""

    def __init__(self, url: str, token: str = "") -> None:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port
        if address.scheme == "https":
            # It is this machine's own console, found by a private file: its certificate is for the names of others.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        self._url: Final = url
        self._headers: Final = {**_HEADERS, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._has_cookie = False

    def log_in(self, link: str) -> None:
        """Use a one-time link. NoConsoleError, ConsoleRefusedError."""
        _answer, headers = self._call("POST", "login", {"link": link})
        cookie = headers.get("Set-Cookie", "").partition(";")[0]
        self._headers["Cookie"] = cookie
        self._has_cookie = bool(cookie)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a call below `/api/v1/`. NoConsoleError, ConsoleRefusedError."""
        return self._call(method, path, None if method == "GET" else body or {})[0]

    def close(self) -> None:
        if self._has_cookie:
            with suppress(NoConsoleError, ConsoleRefusedError):
                self._call("POST", "logout", {})
        self._connection.close()

    def _call(self, method: str, path: str, body: object) -> tuple[Any, http.client.HTTPMessage]:
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, f"/api/v1/{path}", data, self._headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoConsoleError(f"no console answers at {self._url}: {error}") from error
        try:
            answer = json.loads(content)
        except ValueError:
            raise NoConsoleError(f"what answers at {self._url} is no console") from None
        if response.status != http.client.OK:
            raise ConsoleRefusedError(str(answer.get("detail") or f"status {response.status}"))
        return answer, response.headers


@dataclass(frozen=True, kw_only=True)
class RunningConsole:
    """Which running console: by the data folder of its broker."""

    data: Annotated[
        Path | None, typer.Option(help="The data folder of the broker; without it the one of the settings.")
    ] = None
    config: ConfigFile = None
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE", help="The variable with a token of the console, where it is not on a loopback address."
        ),
    ] = None

    def state_folder(self) -> Path:
        from holdfast.node.processes.console_supervisor import STATE_FOLDER

        if self.data is not None:
            return self.data / STATE_FOLDER
        with exit_on(SettingsError):
            return load(Flags(config=self.config), rules=False).storage.data / STATE_FOLDER

    @contextmanager
    def connected(self) -> Iterator[ConsoleClient]:
        """The console for the length of the block; without one, or if it refuses, the program ends."""
        with exit_on(NoConsoleError, ConsoleRefusedError, code=FAILED), self._connect() as client:
            yield client

    @contextmanager
    def _connect(self) -> Iterator[ConsoleClient]:
        from holdfast.console.access.one_time_links import make_link
        from holdfast.node.processes.console_main import ADDRESS_FILE

        folder = self.state_folder()
        try:
            url = json.loads((folder / ADDRESS_FILE).read_text())["url"]
        except (OSError, ValueError, KeyError):
            advice = "name the broker's folder with --data, or start it with `holdfast serve`"
            raise NoConsoleError(f"no console has run on {folder.parent}; {advice}") from None
        client = ConsoleClient(url, self._token())
        try:
            if self.token_env is None:
                try:
                    link = make_link(folder)
                except OSError as error:
                    raise ConsoleRefusedError(f"{folder} cannot be written: {error.strerror}; use its user") from error
                client.log_in(link)
            yield client
        finally:
            client.close()

    def _token(self) -> str:
        if self.token_env is None:
            return ""
        token = os.environ.get(self.token_env)
        if not token:
            fail(f"--token-env {self.token_env}: there is no such variable, or it is empty")
        return token
