"""What a request must be before it is looked at: its host, its origin, its size, its parameters and its body.

1. Host is an address, `localhost`, or a name that the settings allow. So a page of a foreign name that resolves to this
   machine (DNS rebinding) reaches nothing.
2. A change carries the header `X-Holdfast` and JSON, which no form of a foreign page can send. With a cookie it comes
   from our own page (`Sec-Fetch-Site: same-origin`).
3. A parameter or field that is not known is refused by name; so is a value out of range.
"""

import asyncio
import ipaddress
import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
from starlette.requests import Request

from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import NODE, Endpoint

MAX_BODY_BYTES: Final = 1 << 20
MAX_HEADER_BYTES: Final = 16 << 10
ARRIVAL_S: Final = 30.0
_MAX_PARAMETERS: Final = 64

#: How msgspec names the field that is wrong.
_FIELD: Final = re.compile(r"field `([^`]+)`|`\$\.([A-Za-z_]+)")


def check_host(request: Request, allowed: Collection[str]) -> None:
    """Rule 1. ProblemError (403)."""
    host = request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname if _is_host(host) else None
    if name is None or not (name == "localhost" or name in allowed or _is_address(name)):
        detail = "this host name is not allowed; add it to console.allowed_hosts, or use the address of the machine"
        raise ProblemError(403, detail)


def check_headers(request: Request) -> None:
    """ProblemError (431) if they are too long."""
    if sum(len(name) + len(value) + 4 for name, value in request.headers.raw) > MAX_HEADER_BYTES:
        raise ProblemError(431, f"the headers have more than {MAX_HEADER_BYTES} bytes")


def check_origin(request: Request, *, is_change: bool, has_cookie: bool) -> None:
    """Rule 2. ProblemError (403)."""
    site = request.headers.get("sec-fetch-site", "")
    if site not in ("", "same-origin", "none"):
        raise ProblemError(403, "this request was made by a page of another origin")
    if not is_change:
        return
    if request.headers.get("x-holdfast") != "1":
        raise ProblemError(403, "a change needs the header X-Holdfast: 1")
    if has_cookie and site != "same-origin":
        raise ProblemError(403, "a change with a cookie needs the header Sec-Fetch-Site: same-origin; use a token")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise ProblemError(403, "this request was made by a page of another origin")


async def read_body(request: Request, kind: type[msgspec.Struct]) -> Any:
    """The body as a struct; an empty one counts as `{}`. ProblemError: 400, 408, 413 or 415."""
    data = await _receive(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and content_type != "application/json":
        raise ProblemError(415, "the body must be JSON, with the header Content-Type: application/json")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        # msgspec names fields and types, never values, so no password gets here.
        named = _FIELD.search(str(error))
        parameter = "" if named is None else named[1] or named[2]
        raise ProblemError(400, f"the body is wrong: {error}", parameter=parameter) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ProblemError(400, "the body is not JSON") from None


async def _receive(request: Request) -> bytes:
    too_long = ProblemError(413, f"the body has more than {MAX_BODY_BYTES} bytes", headers={"Connection": "close"})
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > MAX_BODY_BYTES:
        raise too_long
    data = bytearray()
    try:
        async with asyncio.timeout(ARRIVAL_S):
            async for part in request.stream():
                data += part
                if len(data) > MAX_BODY_BYTES:
                    raise too_long
    except TimeoutError:
        detail = f"the request took more than {ARRIVAL_S:g} s to arrive"
        raise ProblemError(408, detail, headers={"Connection": "close"}) from None
    return bytes(data)


def parse_parameters(request: Request, endpoint: Endpoint) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Values by name, with defaults, and all as they were given but `node`, which is for the console itself.

    ProblemError (400) names the wrong one.
    """
    try:
        query = request.scope["query_string"].decode("ascii")
        given = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except (ValueError, UnicodeError):
        raise ProblemError(400, "the query cannot be read; it must be name=value, percent-encoded UTF-8") from None
    known = {parameter.name: parameter for parameter in (*endpoint.parameters, NODE)}
    values: dict[str, Any] = {}
    for name, text in given:
        parameter = known.get(name)
        if parameter is None:
            names = ", ".join(known)
            raise bad_parameter(name[:100], f"is no parameter of this call; it has: {names}")
        if text == "" and not parameter.required:
            continue
        value = parameter.parse(text)
        if parameter.most > 1:
            values.setdefault(name, []).append(value)
            if len(values[name]) > parameter.most:
                raise bad_parameter(name, f"was given {len(values[name])} times; at most {parameter.most} are taken")
        elif name in values:
            raise bad_parameter(name, "was given twice")
        else:
            values[name] = value
    for parameter in endpoint.parameters:
        if parameter.required and not values.get(parameter.name):
            raise bad_parameter(parameter.name, f"is needed: {parameter.meaning}")
        if parameter.default is not None:
            values.setdefault(parameter.name, parameter.default)
    return values, [(name, text) for name, text in given if text != "" and name != NODE.name]


def check_node(wanted: int, own: int | None) -> None:
    """A console answers for its own node, which is None without a cluster. ProblemError (404) for another one."""
    if wanted == own:
        return
    if own is None:
        detail = f"is {wanted}; this broker is no node of a cluster, or not known yet: leave it out"
    else:
        detail = f"is {wanted}; this console answers for node {own}: ask the console of node {wanted}"
    raise ProblemError(404, f"{NODE.name} {detail}", parameter=NODE.name)


def _is_host(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9._-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?", text))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
