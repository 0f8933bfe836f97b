"""What an endpoint of the API is: its address, its role, its parameters and its body, declared in one place.

The table of all endpoints (`api.ENDPOINTS`) answers requests, checks them, and makes the OpenAPI document. An endpoint
without a role cannot be declared: `role` is one of `model.roles.ROLES`, or ANYBODY, which has to be written.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import structlog

from holdfast.console.access.identity import Identity
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.model.errors import MisuseError
from holdfast.model.roles import ROLES

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.console.console import Console

_log = structlog.get_logger()

JSON: Final = "application/json"

#: In place of a role: no login is needed.
ANYBODY: Final = "anybody"

MAX_LIMIT: Final = 1000
#: Longest value of a parameter: the longest text of MQTT, percent-encoded by a client that encodes every byte.
_MAX_TEXT: Final = 65_535

Kind = Literal["text", "integer", "flag"]


@dataclass(frozen=True)
class Parameter:
    """A query parameter."""

    name: str
    meaning: str
    kind: Kind = "text"
    default: str | int | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    #: Whether it may be given several times, and how often.
    most: int = 1

    def parse(self, text: str) -> str | int:
        """The value. ProblemError (400) says what would be right."""
        if self.kind == "integer":
            return self._parse_integer(text)
        if self.kind == "flag" and text not in ("0", "1"):
            raise bad_parameter(self.name, f"is {_cut(text)}; it must be 0 or 1")
        if self.choices and text not in self.choices:
            raise bad_parameter(self.name, f"is {_cut(text)}; it must be one of {', '.join(self.choices)}")
        if len(text.encode()) > _MAX_TEXT:
            raise bad_parameter(self.name, f"has {len(text.encode())} bytes; at most {_MAX_TEXT} are taken")
        return text

    def _parse_integer(self, text: str) -> int:
        low, high = self.minimum, self.maximum
        bounds = f"a whole number from {low} to {high}"
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            raise bad_parameter(self.name, f"is {_cut(text)}; it must be {bounds}")
        value = int(text)
        if (low is not None and value < low) or (high is not None and value > high):
            raise bad_parameter(self.name, f"is {value}; it must be {bounds}")
        return value


LIMIT: Final = Parameter("limit", "Entries of a page.", "integer", 100, 1, MAX_LIMIT)
CURSOR: Final = Parameter("cursor", "Where to go on: `next_cursor` of the page before.")
#: A parameter of every call.
NODE: Final = Parameter(
    "node", "In a cluster: the node that is asked, which is that of the console.", "integer", None, 1, 2**32 - 1
)


@dataclass
class Call:
    """A request that was found to be right."""

    console: "Console"
    request: "Request"
    #: Who asks; None where anybody may.
    caller: Identity | None
    address: str
    #: Parts of the path by name.
    path: dict[str, str]
    #: Values of parameters that were given or have a default; lists where they may be repeated.
    parameters: dict[str, Any]
    #: As they were given, to be passed on.
    given: list[tuple[str, str]]
    body: Any = None
    #: The cookie that came with the request.
    cookie: str = ""
    #: Whether the request comes from this machine, and through no proxy.
    is_local: bool = False
    #: The cookie to set with the answer; empty to remove it, None to leave it.
    new_cookie: str | None = None
    #: Who asks, by what came with the request; asked again by streams, which may outlive a login.
    identify: Callable[[], Identity | None] = lambda: None

    @property
    def identity(self) -> Identity:
        if self.caller is None:
            raise MisuseError("an endpoint for anybody asked who its caller is")
        return self.caller

    def set_cookie(self, cookie: str) -> None:
        """Set the cookie of the login with the answer; an empty one removes it."""
        self.new_cookie = cookie

    def is_still_allowed(self) -> bool:
        """Whether the login that the request came with is still good."""
        return self.identify() == self.caller

    async def audited(self, what: str, target: str, change: Callable[[], Awaitable[Any]], **detail: object) -> Any:
        """Make a change, which stands in the audit file before it is made; its result.

        An outcome that cannot be written is a line of the log: the change is made.
        """
        audit = self.console.audit
        entry = await asyncio.to_thread(audit.begin, self.identity, self.address, what, target, detail)
        outcome = "interrupted"
        try:
            result = await change()
            outcome = "done"
            return result
        except ProblemError as error:
            outcome = f"failed: {error.detail}"
            raise
        finally:
            try:
                await asyncio.to_thread(audit.end, entry, outcome)
            except OSError as error:
                _log.error(
                    "the outcome of a change is not in the audit file",
                    what=what,
                    target=target,
                    outcome=outcome,
                    why=error.strerror,
                )


Handler = Callable[[Call], Awaitable["dict[str, Any] | msgspec.Struct | Response"]]


@dataclass(frozen=True)
class Endpoint:
    """A call of the API."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    #: Below `/api/v1/`; a part in braces has a name and takes any text.
    path: str
    role: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    #: The struct of its answer, where it is one.
    answer: type[msgspec.Struct] | None = None
    #: The parameter that names what is read: a restricted token has to give it, and it has to lie within its filters.
    topics: str = ""
    #: Whether payloads, topics or filters are shown that no parameter restricts: refused to a restricted token.
    shows_all_topics: bool = False
    #: What the answer may be; of JSON, whether it is a list.
    content_types: tuple[str, ...] = (JSON,)
    is_list: bool = False
    #: When it answers 409; empty for never.
    conflicts: str = ""
    #: When it answers 404, beside names in its path and another node.
    missing: str = ""

    def __post_init__(self) -> None:
        if self.role not in (*ROLES, ANYBODY):
            raise MisuseError(f"{self.method} {self.path} has no role")

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


def _cut(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "…")
