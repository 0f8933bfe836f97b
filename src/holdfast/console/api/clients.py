"""Clients, their sessions and subscriptions."""

from typing import Any

import msgspec

from holdfast.console.access.identity import parse_plain_filter
from holdfast.console.api.people import Empty
from holdfast.console.live.client_table import SORTS, ClientQuery
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import CURSOR, LIMIT, Call, Endpoint, Parameter
from holdfast.control.words import (
    ClientDetail,
    Kicked,
    KickRequest,
    Purged,
    SessionRequest,
    Subscriptions,
    SubscriptionsRequest,
)
from holdfast.model.errors import PeerError
from holdfast.model.roles import OPERATOR, READER, VIEWER
from holdfast.topics.names import check_topic_name

#: How far back refused clients are looked for.
_REFUSED_SINCE = "-24h"
_SORTS = tuple(sign + name for name in SORTS for sign in ("", "-"))
#: Longest reason for MQTT 5 clients that is passed on.
_MAX_REASON = 1000


class KickBody(msgspec.Struct, forbid_unknown_fields=True):
    #: What an MQTT 5 client is told.
    reason: str = ""


async def clients(call: Call) -> dict[str, Any]:
    given = call.parameters
    state = given.get("state", "")
    if state == "refused":
        return await _refused(call)
    query = ClientQuery(
        text=given.get("q", ""),
        state=state,
        user=given.get("user", ""),
        listener=given.get("listener", ""),
        sort=given["sort"],
        limit=given["limit"],
        cursor=given.get("cursor", ""),
    )
    page = await call.console.clients.page(query, is_connected=call.console.link.is_connected)
    blocks = await call.console.blocks.known()
    for item in page["items"]:
        item["blocked"] = blocks.find(item["session_id"], item["user"]) is not None if blocks is not None else None
    return page


async def _refused(call: Call) -> dict[str, Any]:
    """Clients whose connections were refused lately, from the events: an entry for each refusal."""
    parameters = [("reason", "connect_refused"), ("since", _REFUSED_SINCE)]
    parameters += [(name, value) for name, value in call.given if name in ("limit", "cursor")]
    if call.parameters.get("q"):
        parameters.append(("client", call.parameters["q"]))
    answer = await call.console.history.get("/events", parameters)
    items = [
        {
            "session_id": event.get("client") or "",
            "client_id": event.get("client") or "",
            "connected": False,
            "since_us": event.get("at_us"),
            "refused": event.get("count", 1),
            "detail": event.get("detail") or "",
        }
        for event in answer.get("events", ())
    ]
    return {
        "as_of_us": answer.get("as_of_us") or call.console.clock.wall_us(),
        "complete": True,
        "total": len(items),
        "matched": len(items),
        "items": items,
        "next_cursor": answer.get("next_cursor"),
    }


async def client(call: Call) -> dict[str, Any]:
    """A session that the broker has in memory, or one that history knows."""
    session_id = call.path["id"]
    console = call.console
    detail: dict[str, Any] | None = None
    why: ProblemError | None = None
    try:
        found = await console.link.request("client", SessionRequest(session_id))
        assert isinstance(found, ClientDetail)
        detail = msgspec.to_builtins(found)
    except ProblemError as error:
        why = error
    if detail is not None and detail["connection"] is not None:
        return {**detail, "session": None, "block": None}
    session: Any = None
    if console.history.has_past:
        try:
            session = await console.history.get("/session", [("id", session_id)])
        except ProblemError as error:
            why = why or error
    if detail is None and session is None:
        raise why or ProblemError(404, f"there is no client {session_id[:100]!r}")
    blocks = await console.blocks.known()
    user = (detail or session or {}).get("user") or ""
    block = None if blocks is None else blocks.find(session_id, user)
    shown = None if block is None else msgspec.to_builtins(block)
    return {"session_id": session_id, "connection": None, **(detail or {}), "session": session, "block": shown}


async def subscriptions(call: Call) -> dict[str, Any]:
    topic, under = call.parameters.get("topic", ""), call.parameters.get("under", "")
    if bool(topic) == bool(under):
        raise bad_parameter("topic", "and under: give one of them, a topic or a filter")
    if topic:
        try:
            check_topic_name(topic.encode())
        except PeerError as error:
            raise bad_parameter("topic", f"is no topic: {error.detail}") from None
    else:
        parse_plain_filter(under, "under")
    request = SubscriptionsRequest(topic, under, call.parameters["limit"])
    found = await call.console.link.request("subscriptions", request)
    assert isinstance(found, Subscriptions)
    items = [_shown_subscription(item) for item in msgspec.to_builtins(found.items)]
    return {
        "as_of_us": call.console.clock.wall_us(),
        "items": items,
        "more": found.more,
        "next_cursor": None,
    }


def _shown_subscription(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "client": item["session_id"] or None, "group": item["group"] or None}


def check_reason(reason: str) -> None:
    """ProblemError (400) if it is too long."""
    if len(reason) > _MAX_REASON:
        raise bad_parameter("reason", f"has {len(reason)} characters; at most {_MAX_REASON} are taken")


async def kick(call: Call) -> dict[str, Any]:
    body: KickBody = call.body
    session_id = call.path["id"]
    check_reason(body.reason)

    async def change() -> msgspec.Struct:
        return await call.console.link.request("kick", KickRequest(session_id, body.reason))

    kicked = await call.audited("kick", session_id, change, reason=body.reason)
    assert isinstance(kicked, Kicked)
    return {"kicked": True, "address": kicked.address}


async def end_session(call: Call) -> dict[str, Any]:
    session_id = call.path["id"]

    async def change() -> msgspec.Struct:
        return await call.console.link.request("end_session", SessionRequest(session_id))

    await call.audited("end session", session_id, change)
    return {"ended": True}


async def purge_queue(call: Call) -> dict[str, Any]:
    session_id = call.path["id"]

    async def change() -> msgspec.Struct:
        return await call.console.link.request("purge_queue", SessionRequest(session_id))

    purged = await call.audited("purge queue", session_id, change)
    assert isinstance(purged, Purged)
    return {"purged": purged.messages}


async def queue(call: Call) -> Any:
    parameters = [("id", call.path["id"]), *call.given]
    return await call.console.history.get("/queue", parameters)


async def explain(call: Call) -> Any:
    parameters = [("id", call.path["id"]), *call.given]
    return await call.console.history.get("/explain", parameters)


ENDPOINTS = (
    Endpoint(
        "GET",
        "clients",
        VIEWER,
        clients,
        "Clients and sessions, searched, filtered and sorted.",
        (
            Parameter("q", "Part of the client id, the user or the address."),
            Parameter("state", "These only.", choices=("connected", "offline", "behind", "refused")),
            Parameter("user", "Of this user only."),
            Parameter("listener", "Connected through this listener only."),
            Parameter("sort", "What to sort by; `-` in front for the largest first.", default="client", choices=_SORTS),
            LIMIT,
            CURSOR,
        ),
    ),
    Endpoint("GET", "clients/{id}", VIEWER, client, "A client, with its session, in flight and subscriptions."),
    Endpoint(
        "POST",
        "clients/{id}/kick",
        OPERATOR,
        kick,
        "End the connection of a client.",
        body=KickBody,
    ),
    Endpoint(
        "GET",
        "subscriptions",
        VIEWER,
        subscriptions,
        "Who gets a topic, or which subscriptions lie within a filter.",
        (
            Parameter("topic", "A topic: who gets it?"),
            Parameter("under", "A filter: what lies within it?"),
            LIMIT,
        ),
    ),
    Endpoint("DELETE", "sessions/{id}", OPERATOR, end_session, "End a session and its connection.", body=Empty),
    Endpoint("DELETE", "sessions/{id}/queue", OPERATOR, purge_queue, "Empty the queue of a session.", body=Empty),
    Endpoint(
        "GET",
        "sessions/{id}/queue",
        READER,
        queue,
        "The messages that wait for a session.",
        (LIMIT, CURSOR),
        shows_all_topics=True,
    ),
    Endpoint(
        "GET",
        "sessions/{id}/explain",
        READER,
        explain,
        "What became of each message for a client: acknowledged, in flight, owed, dropped.",
        (
            Parameter("filter", "Messages of these topics.", default="#"),
            Parameter("since", "From when on: -1h, a time, or microseconds.", default="-1h"),
            LIMIT,
        ),
        topics="filter",
    ),
)
