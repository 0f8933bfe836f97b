"""Changes to several clients at once.

1. The caller names the clients, and how many of them the change will meet (`expect`). If that has changed since, the
   answer is 409 and nothing is done.
2. A client that goes while the change runs is counted as missing; it is no failure.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.console.api.blocks import BlockTerms, until_us
from holdfast.console.api.clients import check_reason
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import MAX_LIMIT, Call, Endpoint, Parameter
from holdfast.control.block_batches import block_batches
from holdfast.control.words import BlockRequest, KickRequest, SessionRequest
from holdfast.files.block_file import CLIENT, Block, checked_block
from holdfast.model.errors import SettingsError
from holdfast.model.roles import OPERATOR

_EXPECT = Parameter("expect", "How many clients it will meet.", "integer", None, 1, MAX_LIMIT, required=True)
_NOT_FOUND = 404


class KickSelectionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Clients by the names of their sessions; those that are connected are met."""

    ids: list[str] = []
    #: What MQTT 5 clients are told.
    reason: str = ""


class EndSelectionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Sessions by name, connected or not."""

    ids: list[str] = []


class BlockSelectionBody(BlockTerms, forbid_unknown_fields=True):
    """Clients by the names of their sessions, connected or not, that are not let in any more."""

    ids: list[str] = msgspec.field(default_factory=list)


class Selected(msgspec.Struct, frozen=True):
    """What a change met."""

    #: How many were changed.
    changed: int
    #: Those that went meanwhile.
    missing: list[str]


async def kick_selection(call: Call) -> Selected:
    body: KickSelectionBody = call.body
    check_reason(body.reason)
    ids = await _met(call, body.ids, connected=True)

    async def kick(name: str) -> object:
        return await call.console.link.request("kick", KickRequest(name, body.reason))

    return await _change(call, "kick clients", ids, kick, reason=body.reason)


async def end_selection(call: Call) -> Selected:
    body: EndSelectionBody = call.body
    ids = await _met(call, body.ids, connected=False)

    async def end(name: str) -> object:
        return await call.console.link.request("end_session", SessionRequest(name))

    return await _change(call, "end sessions", ids, end)


async def block_selection(call: Call) -> Selected:
    body: BlockSelectionBody = call.body
    end_us = until_us(call, body.seconds, body.reason)
    ids = await _met(call, body.ids, connected=False)
    targets = [_checked_target(name) for name in ids]

    async def change() -> Selected:
        done = 0
        for batch in block_batches(targets):
            request = BlockRequest(batch, end_us, body.reason, call.identity.name)
            try:
                await call.console.link.request("block", request)
            except ProblemError as error:
                text = f"{done} of {len(ids)} clients were blocked before: {error.detail}" if done else error.detail
                raise ProblemError(error.status, text, headers=error.headers) from error
            done += len(batch)
        return Selected(done, [])

    detail = {"ids": ids, "seconds": body.seconds, "reason": body.reason}
    try:
        blocked: Selected = await call.audited("block clients", f"{len(ids)} clients", change, **detail)
    finally:
        call.console.blocks.forget()
    return blocked


def _checked_target(name: str) -> tuple[str, str]:
    try:
        return checked_block(Block(CLIENT, name)).key
    except SettingsError as error:
        raise bad_parameter("ids", f"has a name that cannot be blocked: {error}") from None


async def _met(call: Call, given: list[str], *, connected: bool) -> list[str]:
    """Those of the clients that there are. ProblemError (409) if they are not as many as the caller expects."""
    names = list(dict.fromkeys(given))
    if not 0 < len(names) <= MAX_LIMIT:
        raise bad_parameter("ids", f"names {len(names)} clients; it must be 1 to {MAX_LIMIT}")
    found = await call.console.clients.find(names, is_connected=call.console.link.is_connected)
    met = [name for name in names if name in found and (found[name] or not connected)]
    expected = call.parameters["expect"]
    if len(met) != expected:
        what = "are connected" if connected else "have a session"
        detail = f"{len(met)} of these clients {what} now, and not {expected}; nothing was changed"
        raise ProblemError(409, detail, parameter="expect", extra={"found": len(met)})
    return met


async def _change(
    call: Call, what: str, ids: list[str], one: Callable[[str], Awaitable[object]], **detail: object
) -> Selected:
    async def change() -> Selected:
        missing: list[str] = []
        for number, name in enumerate(ids):
            try:
                await one(name)
            except ProblemError as error:
                if error.status != _NOT_FOUND:
                    done = f"{number - len(missing)} of {len(ids)} clients were met before: "
                    raise ProblemError(error.status, done + error.detail, headers=error.headers) from error
                missing.append(name)
        return Selected(len(ids) - len(missing), missing)

    changed: Selected = await call.audited(what, f"{len(ids)} clients", change, ids=ids, **detail)
    return changed


def _endpoint(path: str, handler: Any, summary: str, body: type[msgspec.Struct]) -> Endpoint:
    conflicts = "Another number than `expect` would be met; nothing was changed."
    return Endpoint(
        "POST", path, OPERATOR, handler, summary, (_EXPECT,), body=body, answer=Selected, conflicts=conflicts
    )


ENDPOINTS = (
    _endpoint("clients/kick", kick_selection, "End the connections of several clients.", KickSelectionBody),
    _endpoint(
        "clients/block", block_selection, "Do not let in several clients, and disconnect them.", BlockSelectionBody
    ),
    _endpoint("sessions/end", end_selection, "End several sessions and their connections.", EndSelectionBody),
)
