"""What a node answers to commands of an administrator, and the commands' side of it.

    request          body                                        answer, JSON
    ───────────────  ──────────────────────────────────────────  ─────────────────────────────────────────────
    claims           {"version": 1, "session": "…"}              {"version": 1, "claims": [{…}, …]}
    kick             {"version": 1, "session": "…"}              {"version": 1, "address": "…"}, empty for none

Both sides may be of different versions of Holdfast: a field that is not known is passed over, one that is missing is
empty. A body that cannot be read is answered with {"version": 1, "error": "…"}.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, fields
from typing import Any, Final

from holdfast.cluster.node_requests import NodeRequests
from holdfast.cluster.registry.claim_history import ClaimHistory, PastClaim
from holdfast.model.errors import PermanentError

#: Never change.
VERSION: Final = 1
CLAIMS: Final = "claims"
KICK: Final = "kick"
#: How long a command waits for the answer of a node.
ANSWER_S: Final = 2.0

_KICKED: Final = "an administrator closed the connection"

#: Ends the connection of a session, and says from where it came; empty if there is none.
Kick = Callable[[str, str], str]
Body = dict[str, Any]


class NodeService:
    """Answers on one node."""

    def __init__(self, claims: ClaimHistory, kick: Kick) -> None:
        self._claims: Final = claims
        self._kick: Final = kick

    async def start(self, requests: NodeRequests) -> None:
        await requests.serve(CLAIMS, _safely(self._claims_of))
        await requests.serve(KICK, _safely(self._kick_one))

    def _claims_of(self, body: Body) -> Body:
        return {"claims": [asdict(claim) for claim in self._claims.of(_session_of(body))]}

    def _kick_one(self, body: Body) -> Body:
        return {"address": self._kick(_session_of(body), _KICKED)}


def _safely(answer: Callable[[Body], Body]) -> Callable[[bytes], Awaitable[bytes]]:
    async def respond(body: bytes) -> bytes:
        try:
            found = answer(_decode(body))
        except PermanentError as error:
            found = {"error": str(error)}
        return _encode(found)

    return respond


def _session_of(body: Body) -> str:
    session_id = body.get("session")
    if not isinstance(session_id, str) or not session_id:
        raise PermanentError(f"the request names the session {session_id!r}; right would be a session id")
    return session_id


def _encode(body: Body) -> bytes:
    return json.dumps({"version": VERSION, **body}, ensure_ascii=False).encode()


def _decode(data: bytes) -> Body:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise PermanentError(f"{data[:80]!r} is no JSON object")
    if body.get("version") != VERSION:
        raise PermanentError(f"a body of version {body.get('version')!r} was sent; this node reads version {VERSION}")
    return body


# ---- the side of the commands


async def ask_all(requests: NodeRequests, nodes: Iterable[int], what: str, body: Body) -> dict[int, Body]:
    """The answers of nodes, by number; one that gives none, or one that cannot be read, is not there."""
    encoded = _encode(body)

    async def ask(node: int) -> tuple[int, Body | None]:
        answer = await requests.ask(node, what, encoded, ANSWER_S)
        try:
            return node, None if answer is None else _decode(answer)
        except PermanentError:
            return node, None

    answers = await asyncio.gather(*[ask(node) for node in nodes])
    return {node: answer for node, answer in answers if answer is not None and "error" not in answer}


def past_claims(answer: Body) -> list[PastClaim]:
    """Of the claims of a client id."""
    names = [field.name for field in fields(PastClaim)]
    found = answer.get("claims")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [PastClaim(**{name: row[name] for name in names}) for row in rows if all(name in row for name in names)]
