"""A request on its way: Host, headers, path, login, role, parameters, body, and the answer with its headers.

    /api/v1/…           the table of endpoints (`api.ENDPOINTS`)
    /metrics            for tokens and logins, or for all (`console.open_metrics`)
    /healthz /readyz    for anybody: a status, and no secrets
    /static/…           files of the page
    / /clients …        the page

An ASGI application. Every answer, also to what is refused or fails, has the headers that keep browsers careful.
"""

import ipaddress
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.console.access.identity import Identity
from holdfast.console.access.login import COOKIE_LIFETIME_US
from holdfast.console.api import ENDPOINTS
from holdfast.console.console import Console
from holdfast.console.live.metrics_text import OPENMETRICS_TYPE, PROMETHEUS_TYPE, accepts_openmetrics, render_metrics
from holdfast.console.problems import ProblemError
from holdfast.console.web.endpoints import ANYBODY, NODE, Call, Endpoint
from holdfast.console.web.openapi import make_document
from holdfast.console.web.request_checks import (
    check_headers,
    check_host,
    check_node,
    check_origin,
    parse_parameters,
    read_body,
)
from holdfast.console.web.static_files import StaticFiles, is_page
from holdfast.model.roles import VIEWER
from holdfast.model.time import SECOND_US

_log = structlog.get_logger()

API: Final = "/api/v1/"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_STREAM: Final = "text/event-stream"
_json: Final = msgspec.json.Encoder()


class ConsoleApp:
    """The HTTP side of a console."""

    def __init__(self, console: Console) -> None:
        self._console: Final = console
        options = console.options
        self._static: Final = StaticFiles()
        self._document: Final = _json.encode(make_document(ENDPOINTS, options.version))
        prefix = "__Host-" if options.secure_cookies else ""
        # With the port: cookies are for all ports of a host, and another node may have another port.
        self._cookie: Final = f"{prefix}holdfast-{options.port}"
        self._headers: Final = dict(_HEADERS)
        if options.secure_cookies:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        began_s = self._console.now_s
        try:
            response = await self._answer(request)
        except ProblemError as problem:
            response = problem_answer(problem)
        except ClientDisconnect:
            return
        except Exception:
            _log.exception("a request to the console failed", method=request.method, path=scope["path"][:200])
            response = problem_answer(ProblemError(500, "the console failed to answer; its log says why"))
        route = _route(scope["path"])
        seconds: float | None = None
        try:
            await response(scope, receive, self._with_headers(send))
            is_stream = response.headers.get("content-type", "").startswith(_STREAM)
            seconds = self._console.now_s - began_s if route in TIMED_ROUTES and not is_stream else None
        except ProblemError as problem:
            # The history process ended half-way. The answer has no last chunk, so its reader notices.
            _log.warning("an answer of the console was cut off", path=scope["path"][:200], why=problem.detail)
            raise
        except Exception:
            _log.exception("an answer of the console failed half-way", path=scope["path"][:200])
            raise
        finally:
            # Also one that was cut off, by its status and without a time.
            self._console.numbers.answered(route, response.status_code, seconds)

    async def refuse(self, problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a problem, whatever is asked for."""
        self.refused(problem)
        await problem_answer(problem)(scope, receive, self._with_headers(send))

    def refused(self, problem: ProblemError) -> None:
        """Count a request that was answered without being looked at."""
        self._console.numbers.answered(_UNKNOWN, problem.status, None)

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _value in message["headers"]}
                wanted = {**self._headers, "Cache-Control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in wanted.items() if _raw(name) not in present),
                ]
            await send(message)

        return sent

    async def _answer(self, request: Request) -> Response:
        check_headers(request)
        check_host(request, self._console.options.allowed_hosts)
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        if raw_path.startswith(API.encode()):
            return await self._answer_api(request, raw_path[len(API) :])
        path = request.url.path
        if request.method not in ("GET", "HEAD"):
            raise ProblemError(405, f"{request.method} is not possible here", headers={"Allow": "GET, HEAD"})
        if path == "/healthz":
            return self._health(self._console.is_up)
        if path == "/readyz":
            return self._health(self._console.state == "taking")
        if path == "/metrics":
            return self._metrics(request)
        if path.startswith("/static/"):
            found = self._static.answer(request, path.removeprefix("/static/"))
        else:
            found = self._static.answer(request, "index.html") if is_page(path) else None
        if found is None:
            raise ProblemError(404, "there is no such page or file")
        return found

    # ---- the API

    async def _answer_api(self, request: Request, raw_path: bytes) -> Response:
        if raw_path == b"openapi.json" and request.method == "GET":
            return Response(self._document, media_type="application/json")
        endpoint, path = _find(request.method, raw_path)
        cookie = request.cookies.get(self._cookie, "")
        has_token = "authorization" in request.headers
        check_origin(request, is_change=endpoint.method != "GET", has_cookie=bool(cookie) and not has_token)

        def identify() -> Identity | None:
            return self._identify(request)

        caller = None if endpoint.role == ANYBODY else _require(identify(), endpoint.role)
        parameters, given = parse_parameters(request, endpoint)
        if (node := parameters.pop(NODE.name, None)) is not None:
            check_node(node, self._console.node_number)
        _check_topics(endpoint, caller, parameters)
        body = None if endpoint.body is None else await read_body(request, endpoint.body)
        call = Call(
            console=self._console,
            request=request,
            caller=caller,
            address=self._address(request),
            path=path,
            parameters=parameters,
            given=given,
            body=body,
            cookie=cookie,
            is_local=self._is_local(request),
            identify=identify,
        )
        result = await endpoint.handler(call)
        response = result if isinstance(result, Response) else Response(_json.encode(result), media_type=_JSON)
        if call.new_cookie is not None:
            self._set_cookie(response, call.new_cookie)
        return response

    def _identify(self, request: Request) -> Identity | None:
        login = self._console.login
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _blank, token = authorization.partition(" ")
            return login.of_token(token.strip()) if scheme.lower() == "bearer" else None
        cookie = request.cookies.get(self._cookie, "")
        return login.of_cookie(cookie) if cookie else None

    def _set_cookie(self, response: Response, cookie: str) -> None:
        response.set_cookie(
            self._cookie,
            cookie,
            max_age=COOKIE_LIFETIME_US // SECOND_US if cookie else 0,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._console.options.secure_cookies,
        )

    def _address(self, request: Request) -> str:
        """Where a request comes from: the proxy's word if there is one, else the peer's address."""
        peer = request.client.host if request.client is not None else ""
        if self._console.options.behind_proxy and (forwarded := request.headers.get("x-forwarded-for")):
            last = forwarded.rpartition(",")[2].strip()
            return last[:100] if last.isprintable() else peer
        return peer

    def _is_local(self, request: Request) -> bool:
        if any(name in request.headers for name in ("x-forwarded-for", "forwarded", "x-real-ip")):
            return False
        try:
            return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
        except ValueError:
            return False

    # ---- beside the API

    def _health(self, is_well: bool) -> Response:
        console = self._console
        content = {"ok": is_well, "state": console.state, "frame_age_s": console.live.age_s(console.now_s)}
        return Response(_json.encode(content), 200 if is_well else 503, media_type=_JSON)

    def _metrics(self, request: Request) -> Response:
        if not self._console.options.open_metrics:
            _require(self._identify(request), VIEWER)
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
        text = render_metrics((self._console.live.last, self._console.own_frame()), openmetrics=openmetrics)
        return Response(text, headers={"Content-Type": OPENMETRICS_TYPE if openmetrics else PROMETHEUS_TYPE})


_JSON: Final = "application/json"


def problem_answer(problem: ProblemError) -> Response:
    """The answer of RFC 9457."""
    headers = {"WWW-Authenticate": "Bearer", **problem.headers} if problem.status == 401 else problem.headers
    return Response(_json.encode(problem.body()), problem.status, headers, "application/problem+json")


_API_ROUTES: Final = frozenset(endpoint.segments[0] for endpoint in ENDPOINTS)
_OTHER_ROUTES: Final = {
    "/metrics": "metrics",
    "/healthz": "health",
    "/readyz": "health",
    f"{API}openapi.json": "openapi",
}
_UNKNOWN: Final = "unknown"
#: Values of the label `route`.
ROUTES: Final = _API_ROUTES | {*_OTHER_ROUTES.values(), "static", "page", _UNKNOWN}
#: Those whose times are kept, nine series each: what can be slow.
TIMED_ROUTES: Final = _API_ROUTES - {"stream"} | {"metrics"}


def _route(path: str) -> str:
    """The part of the console that a path leads to. A closed set, whatever is asked for: it labels metrics."""
    if path in _OTHER_ROUTES:
        return _OTHER_ROUTES[path]
    if path.startswith(API):
        area = path.removeprefix(API).partition("/")[0]
        return area if area in _API_ROUTES else _UNKNOWN
    if path.startswith("/static/"):
        return "static"
    return "page" if is_page(path) else _UNKNOWN


def _find(method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]]:
    """The endpoint of a path, and the named parts of it. ProblemError: 404 or 405.

    Parts are split before they are decoded: a client id may contain a slash, percent-encoded.
    """
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")]
    except UnicodeDecodeError:
        raise ProblemError(404, "there is no such call; the path is not UTF-8") from None
    allowed: list[str] = []
    for endpoint in ENDPOINTS:
        path = _match(endpoint.segments, parts)
        if path is None:
            continue
        if endpoint.method == method:
            return endpoint, path
        allowed.append(endpoint.method)
    if allowed:
        raise ProblemError(405, f"{method} is not possible here", headers={"Allow": ", ".join(allowed)})
    raise ProblemError(404, "there is no such call; see /api/v1/openapi.json")


def _match(segments: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    if len(segments) != len(parts):
        return None
    path: dict[str, str] = {}
    for segment, part in zip(segments, parts, strict=True):
        if segment.startswith("{"):
            path[segment[1:-1]] = part
        elif segment != part:
            return None
    return path


def _require(caller: Identity | None, role: str) -> Identity:
    if caller is None:
        raise ProblemError(401, "log in, or send a token: Authorization: Bearer TOKEN")
    caller.require(role)
    return caller


def _check_topics(endpoint: Endpoint, caller: Identity | None, parameters: dict[str, Any]) -> None:
    """Filters are readable, and within those of a restricted token."""
    if endpoint.topics and caller is not None:
        named = parameters.get(endpoint.topics, [])
        caller.require_topics([named] if isinstance(named, str) else named, endpoint.topics)
    elif endpoint.shows_all_topics and caller is not None and caller.filters:
        raise ProblemError(403, f"this shows all topics, and {caller.name} may read {', '.join(caller.filters)} only")


def _raw(name: str) -> bytes:
    return name.lower().encode()
