"""Blocks: clients, users and addresses that the broker does not let in."""

from typing import Annotated, Final

import msgspec

from holdfast.console.api.people import Empty
from holdfast.console.cursors import decode_cursor, encode_cursor
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import CURSOR, LIMIT, Call, Endpoint
from holdfast.control.words import Blocked, BlockInfo, BlockRequest, Unblocked, UnblockRequest
from holdfast.files.block_file import KINDS, MAX_REASON, Block, checked_block
from holdfast.model.errors import SettingsError
from holdfast.model.roles import OPERATOR, VIEWER
from holdfast.model.time import DAY_S, SECOND_US

#: Ten years.
MAX_BLOCK_S: Final = 3650 * DAY_S


class BlockTerms(msgspec.Struct, forbid_unknown_fields=True):
    """How long, and why."""

    #: From now on; 0: without end. The bounds are those of the document: `until_us` checks them and says what is wrong.
    seconds: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": MAX_BLOCK_S})] = 0
    #: For those who see the list; clients are not told.
    reason: str = ""


class ClientBlocked(msgspec.Struct, frozen=True):
    block: BlockInfo
    #: Connections that were closed.
    disconnected: int


class BlockPage(msgspec.Struct, frozen=True):
    as_of_us: int
    total: int
    matched: int
    #: What is wrong with the block file; empty if nothing is.
    problem: str
    #: Whether blocks outlive the broker.
    kept: bool
    items: list[BlockInfo]
    next_cursor: str | None


def until_us(call: Call, seconds: int, reason: str) -> int:
    """When a block ends; 0 for never. ProblemError (400) if a field is wrong."""
    if not 0 <= seconds <= MAX_BLOCK_S:
        raise bad_parameter("seconds", f"is {seconds}; it must be from 0, without end, to {MAX_BLOCK_S}")
    if len(reason) > MAX_REASON:
        raise bad_parameter("reason", f"has {len(reason)} characters; at most {MAX_REASON} are taken")
    return call.console.clock.wall_us() + seconds * SECOND_US if seconds else 0


async def blocks(call: Call) -> BlockPage:
    known = await call.console.blocks.current()
    limit = call.parameters["limit"]
    items = known.items
    if cursor := call.parameters.get("cursor"):
        since_us, kind, value = decode_cursor(cursor, int, str, str)
        behind = (-since_us, kind, value)
        items = [one for one in items if (-one.since_us, one.kind, one.value) > behind]
    shown = items[:limit]
    last = shown[-1] if len(items) > limit else None
    return BlockPage(
        as_of_us=known.as_of_us,
        total=len(known.items),
        matched=len(known.items),
        problem=known.problem,
        kept=known.kept,
        items=shown,
        next_cursor=None if last is None else encode_cursor([last.since_us, last.kind, last.value]),
    )


async def block(call: Call) -> ClientBlocked:
    body: BlockTerms = call.body
    kind, value = _target(call)
    request = BlockRequest(((kind, value),), until_us(call, body.seconds, body.reason), body.reason, call.identity.name)

    async def change() -> msgspec.Struct:
        return await call.console.link.request("block", request)

    blocked = await call.audited("block", f"{kind} {value}", change, seconds=body.seconds, reason=body.reason)
    call.console.blocks.forget()
    assert isinstance(blocked, Blocked)
    return ClientBlocked(blocked.blocks[0], blocked.disconnected)


async def unblock(call: Call) -> BlockInfo:
    kind, value = _target(call)

    async def change() -> msgspec.Struct:
        return await call.console.link.request("unblock", UnblockRequest(((kind, value),)))

    removed = await call.audited("unblock", f"{kind} {value}", change)
    call.console.blocks.forget()
    assert isinstance(removed, Unblocked)
    return removed.blocks[0]


def _target(call: Call) -> tuple[str, str]:
    """Kind and value of a block, as it is kept. ProblemError (404, 400)."""
    kind, value = call.path["kind"], call.path["value"]
    if kind not in KINDS:
        raise ProblemError(404, f"there are no blocks by {kind[:100]!r}; there are those by {', '.join(KINDS)}")
    try:
        return checked_block(Block(kind, value)).key
    except SettingsError as error:
        raise bad_parameter("value", f"cannot be blocked: {error}") from None


ENDPOINTS = (
    Endpoint("GET", "blocks", VIEWER, blocks, "Blocks in force, the newest first.", (LIMIT, CURSOR), answer=BlockPage),
    Endpoint(
        "PUT",
        "blocks/{kind}/{value}",
        OPERATOR,
        block,
        "Do not let in a client, a user or an address (`kind`: `client`, `user`, `address`), and end its connections.",
        body=BlockTerms,
        answer=ClientBlocked,
        conflicts="The block file is wrong, or cannot be written.",
    ),
    Endpoint(
        "DELETE",
        "blocks/{kind}/{value}",
        OPERATOR,
        unblock,
        "Let in again who was blocked.",
        body=Empty,
        answer=BlockInfo,
        conflicts="The block file is wrong, or cannot be written.",
    ),
)
