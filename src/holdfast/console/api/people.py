"""Who is logged in: login, logout, me, audit."""

import asyncio
from typing import Any

import msgspec
import structlog

from holdfast.console.access.identity import Identity
from holdfast.console.cursors import decode_cursor, encode_cursor
from holdfast.console.problems import ProblemError
from holdfast.console.web.endpoints import ANYBODY, CURSOR, LIMIT, Call, Endpoint
from holdfast.model.roles import ADMIN, VIEWER

_log = structlog.get_logger()


class LoginBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Name and password of a console user, or the token of a one-time link."""

    name: str = ""
    password: str = ""
    link: str = ""

    def __repr__(self) -> str:
        return "LoginBody(…)"


class Me(msgspec.Struct, frozen=True):
    """Who is logged in."""

    name: str
    role: str
    #: `link`, `user` or `token`.
    kind: str
    expires_us: int | None


class AuditEntry(msgspec.Struct, frozen=True):
    """A change that somebody made."""

    id: str
    at_us: int
    name: str
    #: `link`, `user` or `token`.
    kind: str
    role: str
    address: str
    what: str
    target: str
    detail: dict[str, Any]
    #: `done`, why it failed, or null if that is not known.
    outcome: str | None


class AuditPage(msgspec.Struct, frozen=True):
    as_of_us: int
    items: list[AuditEntry]
    next_cursor: str | None


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing: `{}`."""


async def log_in(call: Call) -> Me:
    try:
        identity, cookie = await _check(call, call.body)
    except ProblemError as error:
        # Without the name: people type passwords there.
        _log.warning("console login refused", address=call.address, status=error.status)
        raise
    _log.info("console login", name=identity.name, kind=identity.kind, role=identity.role, address=call.address)
    call.set_cookie(cookie)
    return _me(identity)


async def _check(call: Call, body: LoginBody) -> tuple[Identity, str]:
    login = call.console.login
    if body.link:
        if body.name or body.password:
            raise ProblemError(400, "give either link, or name and password", parameter="link")
        if not call.is_local:
            raise ProblemError(403, "a one-time link is good on the machine of the broker only; log in with a password")
        return login.by_link(body.link, call.address)
    if body.name and body.password:
        return await login.by_password(body.name, body.password, call.address)
    raise ProblemError(400, "name and password are needed, or link", parameter="name")


async def log_out(call: Call) -> Empty:
    if call.cookie:
        call.console.login.log_out(call.cookie)
    call.set_cookie("")
    return Empty()


async def me(call: Call) -> Me:
    return _me(call.identity)


async def audit(call: Call) -> dict[str, Any]:
    limit = call.parameters["limit"]
    cursor = call.parameters.get("cursor")
    before = None
    if cursor:
        at_us, id_ = decode_cursor(cursor, int, str)
        before = (at_us, id_)
    # In a thread: the file of a day may be long.
    entries = await asyncio.to_thread(call.console.audit.read, limit + 1, before)
    shown = entries[:limit]
    more = len(entries) > limit
    return {
        "as_of_us": call.console.clock.wall_us(),
        "items": shown,
        "next_cursor": encode_cursor([shown[-1]["at_us"], shown[-1]["id"]]) if more else None,
    }


def _me(identity: Identity) -> Me:
    return Me(identity.name, identity.role, identity.kind, identity.expires_us)


ENDPOINTS = (
    Endpoint(
        "POST",
        "login",
        ANYBODY,
        log_in,
        "Log in by name and password, or by the token of a one-time link; sets a cookie.",
        body=LoginBody,
        answer=Me,
    ),
    Endpoint("POST", "logout", VIEWER, log_out, "Log out; the cookie is not good any more.", body=Empty, answer=Empty),
    Endpoint("GET", "me", VIEWER, me, "Who is logged in, with which role, and until when.", answer=Me),
    Endpoint(
        "GET",
        "audit",
        ADMIN,
        audit,
        "Who changed what, and how it ended; the newest first.",
        (LIMIT, CURSOR),
        answer=AuditPage,
        shows_all_topics=True,
    ),
)
