"""Clients, their sessions and subscriptions."""

from typing import Any

import msgspec

from holdfast.console.access.identity import parse_plain_filter
from holdfast.console.api.people import Empty
from holdfast.console.cursors import decode_cursor, encode_cursor
from holdfast.console.live.client_table import SORTS, ClientQuery
from holdfast.console.past.answers import ExplainAnswer, OfflineSession, QueuePage
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import CURSOR, LIMIT, Call, Endpoint, Parameter
from holdfast.control.words import (
    BlockInfo,
    ClientDetail,
    ClientRow,
    InflightInfo,
    Kicked,
    KickRequest,
    Purged,
    SessionRequest,
    SubscriptionInfo,
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


class ClientKicked(msgspec.Struct, frozen=True):
    kicked: bool
    #: Where the client was connected from.
    address: str


class SessionEnded(msgspec.Struct, frozen=True):
    ended: bool


class QueuePurged(msgspec.Struct, frozen=True):
    #: Messages that were dropped.
    purged: int


class ClientItem(msgspec.Struct, kw_only=True):
    """A client or a session; of a refused connection, what is known of it."""

    session_id: str
    client_id: str
    connected: bool
    #: Since when it is connected, or offline, or when its connection was refused.
    since_us: int | None
    #: Whether a block keeps it out, as far as names tell; null if that is not known.
    blocked: bool | msgspec.UnsetType | None = msgspec.UNSET
    user: str | msgspec.UnsetType = msgspec.UNSET
    address: str | msgspec.UnsetType = msgspec.UNSET
    port: int | msgspec.UnsetType = msgspec.UNSET
    listener: str | msgspec.UnsetType = msgspec.UNSET
    transport: str | msgspec.UnsetType = msgspec.UNSET
    #: 3, 4 or 5: MQTT 3.1, 3.1.1, 5.0; 0 of one that is offline.
    version: int | msgspec.UnsetType = msgspec.UNSET
    keep_alive_s: int | msgspec.UnsetType = msgspec.UNSET
    expiry_s: int | msgspec.UnsetType = msgspec.UNSET
    subscriptions: int | msgspec.UnsetType = msgspec.UNSET
    inflight: int | msgspec.UnsetType = msgspec.UNSET
    #: Whether messages wait in its queue.
    behind: bool | msgspec.UnsetType = msgspec.UNSET
    #: At most so many messages wait.
    owed: int | msgspec.UnsetType = msgspec.UNSET
    disconnected_us: int | msgspec.UnsetType | None = msgspec.UNSET
    #: How often a connection was refused in that second, and why.
    refused: int | msgspec.UnsetType = msgspec.UNSET
    detail: str | msgspec.UnsetType = msgspec.UNSET


class ClientsAnswer(msgspec.Struct):
    #: When the broker told of connected clients; null if it never did.
    as_of_us: int | None
    #: False while the broker still tells of its clients.
    complete: bool
    total: int | None
    #: Those that the question finds.
    matched: int | None
    items: list[ClientItem]
    next_cursor: str | None
    offline_as_of_us: int | msgspec.UnsetType | None = msgspec.UNSET


class ClientAnswer(msgspec.Struct, kw_only=True):
    """A session: as the broker has it in memory, and of one that is offline as its files have it."""

    session_id: str
    #: Null if it is offline.
    connection: ClientRow | None
    #: Of one that is offline; null if it is connected.
    session: OfflineSession | None
    #: The block that keeps it out, as far as names tell.
    block: BlockInfo | None
    user: str | msgspec.UnsetType = msgspec.UNSET
    expiry_s: int | msgspec.UnsetType = msgspec.UNSET
    disconnected_us: int | msgspec.UnsetType = msgspec.UNSET
    subscriptions: tuple[SubscriptionInfo, ...] | msgspec.UnsetType = msgspec.UNSET
    subscription_count: int | msgspec.UnsetType = msgspec.UNSET
    inflight: tuple[InflightInfo, ...] | msgspec.UnsetType = msgspec.UNSET
    inflight_count: int | msgspec.UnsetType = msgspec.UNSET
    owed: int | msgspec.UnsetType = msgspec.UNSET
    has_will: bool | msgspec.UnsetType = msgspec.UNSET


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A subscription, or a group of shared ones."""

    #: As the client wrote it, `$share/…` and `$replay/…` included.
    filter: str
    qos: int
    session_id: str
    #: The session that has it; null for a group.
    client: str | None
    #: The group of a shared subscription.
    group: str | None
    members: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int
    #: From when on it gets messages: when it was made, or where its replay began; 1 for the earliest message there was.
    since_us: int | None
    #: How far its replay has come, if one is under way; 1 if it has just begun.
    replayed_us: int | None


class SubscriptionPage(msgspec.Struct, frozen=True):
    as_of_us: int
    items: list[SubscriptionRow]
    #: Whether there are others.
    more: bool
    next_cursor: str | None


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
    """Clients whose connections were refused lately, from the events, the newest first: an entry for each refusal."""
    for name, _value in call.given:
        if name not in ("state", "limit", "cursor"):
            detail = "is no parameter with state=refused; search with: events?reason=connect_refused&client=ID"
            raise bad_parameter(name, detail)
    # Why a connection was refused may name the topic of its will.
    call.identity.require_topics([], "state")
    parameters = [("reason", "connect_refused"), ("since", _REFUSED_SINCE)]
    parameters += [(name, value) for name, value in call.given if name != "state"]
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
        "total": answer.get("matched"),
        "matched": answer.get("matched"),
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


async def subscriptions(call: Call) -> SubscriptionPage:
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
    call.identity.require_topics([topic or under], "topic" if topic else "under")
    after: tuple[str, str] | None = None
    if cursor := call.parameters.get("cursor"):
        session_id, raw = decode_cursor(cursor, str, str)
        after = (session_id, raw)
    request = SubscriptionsRequest(topic, under, call.parameters["limit"], after)
    found = await call.console.link.request("subscriptions", request)
    assert isinstance(found, Subscriptions)
    items = [_shown_subscription(item) for item in found.items]
    # An older broker has the first page alone.
    goes_on = found.more and found.in_order and bool(found.items)
    next_cursor = encode_cursor([found.items[-1].session_id, found.items[-1].filter]) if goes_on else None
    return SubscriptionPage(call.console.clock.wall_us(), items, found.more, next_cursor)


def _shown_subscription(item: SubscriptionInfo) -> SubscriptionRow:
    fields = msgspec.structs.asdict(item)
    fields["client"] = item.session_id
    for name in ("client", "group", "since_us", "replayed_us"):
        fields[name] = fields[name] or None
    return SubscriptionRow(**fields)


def check_reason(reason: str) -> None:
    """ProblemError (400) if it is too long."""
    if len(reason) > _MAX_REASON:
        raise bad_parameter("reason", f"has {len(reason)} characters; at most {_MAX_REASON} are taken")


async def kick(call: Call) -> ClientKicked:
    body: KickBody = call.body
    session_id = call.path["id"]
    check_reason(body.reason)

    async def change() -> msgspec.Struct:
        return await call.console.link.request("kick", KickRequest(session_id, body.reason))

    kicked = await call.audited("kick", session_id, change, reason=body.reason)
    assert isinstance(kicked, Kicked)
    return ClientKicked(True, kicked.address)


async def end_session(call: Call) -> SessionEnded:
    session_id = call.path["id"]

    async def change() -> msgspec.Struct:
        return await call.console.link.request("end_session", SessionRequest(session_id))

    await call.audited("end session", session_id, change)
    return SessionEnded(True)


async def purge_queue(call: Call) -> QueuePurged:
    session_id = call.path["id"]

    async def change() -> msgspec.Struct:
        return await call.console.link.request("purge_queue", SessionRequest(session_id))

    purged = await call.audited("purge queue", session_id, change)
    assert isinstance(purged, Purged)
    return QueuePurged(purged.messages)


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
            Parameter(
                "state",
                "These only; `refused`: connections that were refused in the last day, not searched or sorted.",
                choices=("connected", "offline", "behind", "refused"),
            ),
            Parameter("user", "Of this user only."),
            Parameter("listener", "Connected through this listener only."),
            Parameter("sort", "What to sort by; `-` in front for the largest first.", default="client", choices=_SORTS),
            LIMIT,
            CURSOR,
        ),
        answer=ClientsAnswer,
    ),
    Endpoint(
        "GET",
        "clients/{id}",
        VIEWER,
        client,
        "A client, with its session, in flight and subscriptions.",
        answer=ClientAnswer,
        shows_all_topics=True,
    ),
    Endpoint(
        "POST",
        "clients/{id}/kick",
        OPERATOR,
        kick,
        "End the connection of a client.",
        body=KickBody,
        answer=ClientKicked,
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
            CURSOR,
        ),
        answer=SubscriptionPage,
    ),
    Endpoint(
        "DELETE",
        "sessions/{id}",
        OPERATOR,
        end_session,
        "End a session and its connection.",
        body=Empty,
        answer=SessionEnded,
    ),
    Endpoint(
        "DELETE",
        "sessions/{id}/queue",
        OPERATOR,
        purge_queue,
        "Empty the queue of a session.",
        body=Empty,
        answer=QueuePurged,
    ),
    Endpoint(
        "GET",
        "sessions/{id}/queue",
        READER,
        queue,
        "The messages that wait for a session.",
        (LIMIT, CURSOR),
        answer=QueuePage,
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
        answer=ExplainAnswer,
        topics="filter",
    ),
)
