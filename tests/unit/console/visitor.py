"""Requests to a console in the same process, without a socket in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from holdfast.console.access.credential_files import set_user
from holdfast.console.access.one_time_links import make_link
from holdfast.console.console import Console
from holdfast.console.jobs.jobs import RunJob
from holdfast.console.options import ConsoleOptions
from holdfast.console.web.app import ConsoleApp
from holdfast.files.token_file import add_token
from holdfast.model.clock import Clock
from holdfast.model.roles import ROLES
from holdfast.node.system_clock import SystemClock
from tests.unit.console.fake_broker import FakeBroker, fake_broker

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
CHANGE = {"x-holdfast": "1"}


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Visitor:
    """Somebody with a token, with a cookie, or with neither."""

    app: ConsoleApp
    console: Console
    token: str = ""
    cookie: str = ""
    address: str = "127.0.0.1"
    host: str = "127.0.0.1:18083"

    async def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        sent = {"host": self.host, "content-length": str(len(data))}
        if data:
            sent["content-type"] = "application/json"
        if method != "GET":
            sent |= CHANGE
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        if self.cookie:
            sent |= {"cookie": self.cookie, **SAME_ORIGIN}
        sent |= headers or {}
        path, _sign, query = target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items() if value != "-"],
            "client": (self.address, 50000),
            "server": ("127.0.0.1", 18083),
        }
        answer = Answer()
        received = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if received:
                return received.pop()
            await asyncio.Event().wait()
            return {}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                answer.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def get(self, target: str, **headers: str) -> Answer:
        return await self.ask("GET", target, headers={name.replace("_", "-"): text for name, text in headers.items()})

    async def log_in(self, **body: str) -> "Visitor":
        """The same visitor with the cookie of a login."""
        answer = await self.ask("POST", "/api/v1/login", body, SAME_ORIGIN)
        assert answer.status == 200, answer.body
        return Visitor(self.app, self.console, cookie=answer.headers["set-cookie"].partition(";")[0])

    async def with_link(self) -> "Visitor":
        return await self.log_in(link=make_link(self.console.options.state_folder))


@dataclass
class Place:
    """A console with a fake broker, a token of each role, and one user."""

    visitor: Visitor
    broker: FakeBroker
    folder: Path
    tokens: dict[str, str]

    def as_(self, role: str) -> Visitor:
        return Visitor(self.visitor.app, self.visitor.console, token=self.tokens[role])


PASSWORD = "correct horse battery"


@cache
def _user_file() -> bytes:
    """Made once: a hash is slow by intent."""
    with TemporaryDirectory() as folder:
        set_user(Path(folder) / "users", "eva", "operator", PASSWORD)
        return (Path(folder) / "users").read_bytes()


@asynccontextmanager
async def console_place(
    folder: Path,
    find_history: Callable[[], Awaitable[Path]] | None = None,
    clock: Clock | None = None,
    run_job: RunJob | None = None,
    **options: Any,
) -> AsyncIterator[Place]:
    users, token_file = folder / "users", folder / "tokens"
    if not users.exists():
        users.write_bytes(_user_file())
    tokens = {role: add_token(token_file, role, role=role) for role in ROLES}
    made = ConsoleOptions(
        state_folder=folder / "console",
        user_file=users,
        token_file=token_file,
        control_socket=folder / "s",
        version="1",
        **options,
    )
    async with asyncio.timeout(60), fake_broker(folder / "s") as broker:
        console = Console(made, clock or SystemClock(), find_history, run_job)
        async with console.running():
            await broker.until(lambda: broker.watched.stats)
            yield Place(Visitor(ConsoleApp(console), console), broker, folder, tokens)
