"""The past: questions that are passed on to the history process, with their parameters checked."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from holdfast.console.past.answers import (
    CompareAnswer,
    EventPage,
    MessagePage,
    PatternRow,
    PlotAnswer,
    RetainedPage,
    ShownLease,
    StateAnswer,
    TopicsAnswer,
    ZonesAnswer,
)
from holdfast.console.past.history_link import HistoryAnswer
from holdfast.console.problems import ProblemError
from holdfast.console.web.endpoints import CURSOR, LIMIT, MAX_LIMIT, Call, Endpoint, Handler, Parameter
from holdfast.model.roles import READER, VIEWER

_FILTER = Parameter("filter", "Topics, as a filter without `$share` and `$replay`.", default="#")
_ZONE = Parameter("zone", "Of this zone only.")
_FROM = Parameter("from", "Begin: -1h, a time, microseconds since 1970, or `earliest`.")
_TO = Parameter("to", "End, in the same forms.")
#: Forms of an exported file, with their content types.
EXPORT_TYPES: Final = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
#: Seconds between two blocks of a file: a filter may match nothing in millions of messages.
_EXPORT_S: Final = 3600.0

_LOOK_BACK = Parameter("look_back_s", "How far to look back, in seconds.", "integer", None, 1, 10**9)


def _pass(path: str) -> Handler:
    """A handler that asks the history process, and passes its answer on as it comes."""

    async def ask(call: Call) -> Response:
        stack = AsyncExitStack()
        asker = call.request.headers.get("x-ask", "")[:100]
        if not asker.isascii() or not asker.isprintable():
            raise ProblemError(400, "the header X-Ask must be printable ASCII")
        answer = await stack.enter_async_context(call.console.history.ask(path, call.given, asker))
        return StreamingResponse(_parts(stack, answer), media_type=answer.content_type)

    return ask


async def _parts(stack: AsyncExitStack, answer: HistoryAnswer) -> AsyncIterator[bytes]:
    async with stack:
        async for part in answer.parts:
            yield part


async def export(call: Call) -> Response:
    """A file, passed on as the history process makes it. A failure half-way cuts it off without its last chunk."""
    stack = AsyncExitStack()
    answer = await stack.enter_async_context(call.console.history.ask("/export", call.given, answer_s=_EXPORT_S))
    headers = {"Content-Disposition": f'attachment; filename="holdfast-export.{call.parameters["format"]}"'}
    return StreamingResponse(_parts(stack, answer), media_type=answer.content_type, headers=headers)


async def events(call: Call) -> dict[str, Any]:
    answer: dict[str, Any] = await call.console.history.get("/events", call.given)
    answer["items"] = answer.pop("events", [])
    answer.setdefault("as_of_us", call.console.clock.wall_us())
    return answer


ENDPOINTS = (
    Endpoint(
        "GET",
        "history/density",
        READER,
        _pass("/density"),
        "How many messages lie in each part of a range: lines of JSON, each finer than the one before.",
        (_FILTER, _ZONE, _FROM, _TO, Parameter("buckets", "Parts of the range.", "integer", None, 1, 600)),
        topics="filter",
        content_types=("application/x-ndjson",),
    ),
    Endpoint(
        "GET",
        "history/messages",
        READER,
        _pass("/messages"),
        "Messages before or behind a moment.",
        (
            _FILTER,
            _ZONE,
            Parameter("at", "The moment: -1h, a time, microseconds since 1970, `earliest` or `latest`."),
            Parameter("direction", "From the moment on.", choices=("older", "newer")),
            LIMIT,
            CURSOR,
            Parameter("client", "Published by this client only."),
            Parameter("payload", "With this text, or such as `$.path > 5`."),
            _FROM,
            _TO,
            Parameter("full", "Whether long payloads are given whole.", "flag"),
        ),
        answer=MessagePage,
        topics="filter",
    ),
    Endpoint(
        "GET",
        "history/state",
        READER,
        _pass("/state"),
        "The newest message of each topic at a moment.",
        (
            _FILTER,
            _ZONE,
            Parameter("at", "The moment."),
            _LOOK_BACK,
            Parameter("retained", "Whether only retained messages count.", "flag"),
            Parameter("limit", "Topics.", "integer", None, 1, 10_000),
        ),
        answer=StateAnswer,
        topics="filter",
    ),
    Endpoint(
        "GET",
        "history/compare",
        READER,
        _pass("/compare"),
        "What came, fell silent and changed between two moments.",
        (
            _FILTER,
            _ZONE,
            Parameter("a", "A moment.", required=True),
            Parameter("b", "Another one.", required=True),
            _LOOK_BACK,
        ),
        answer=CompareAnswer,
        topics="filter",
    ),
    Endpoint(
        "GET",
        "history/plot",
        READER,
        _pass("/plot"),
        "A number of the payloads of topics over time: least, largest and last of each column.",
        (
            Parameter("topic", "A topic; up to 8.", required=True, most=8),
            Parameter("path", "Where the number is: `$`, or such as `$.a.b[0]`."),
            _FROM,
            _TO,
            Parameter("points", "Columns.", "integer", None, 1, 2000),
        ),
        answer=PlotAnswer,
        topics="topic",
    ),
    Endpoint(
        "GET",
        "history/topics",
        READER,
        _pass("/topics"),
        "Topics below a prefix, or with a text in their names.",
        (
            Parameter("under", "Levels in front."),
            Parameter("q", "Part of the name."),
            Parameter("limit", "Topics.", "integer", None, 1, MAX_LIMIT),
        ),
        answer=TopicsAnswer,
        shows_all_topics=True,
    ),
    Endpoint(
        "GET",
        "history/retained",
        READER,
        _pass("/retained"),
        "Retained messages of a filter.",
        (_FILTER, LIMIT, CURSOR),
        answer=RetainedPage,
        topics="filter",
    ),
    Endpoint(
        "GET",
        "history/zones",
        VIEWER,
        _pass("/zones"),
        "Zones of the log, with their filters and generations.",
        answer=ZonesAnswer,
        shows_all_topics=True,
    ),
    Endpoint(
        "GET",
        "history/patterns",
        VIEWER,
        _pass("/patterns"),
        "What was learned of topics.",
        answer=PatternRow,
        shows_all_topics=True,
        is_list=True,
    ),
    Endpoint(
        "GET",
        "history/leases",
        VIEWER,
        _pass("/leases"),
        "Leases of pipelines, which retention waits for.",
        answer=ShownLease,
        is_list=True,
    ),
    Endpoint(
        "GET",
        "history/export",
        READER,
        export,
        "Messages of a range as a file.",
        (
            _FILTER,
            _ZONE,
            _FROM,
            _TO,
            Parameter("client", "Published by this client only."),
            Parameter("format", "Form of the file.", default="jsonl", choices=tuple(EXPORT_TYPES)),
        ),
        topics="filter",
        content_types=tuple(EXPORT_TYPES.values()),
    ),
    Endpoint(
        "GET",
        "events",
        VIEWER,
        events,
        "What was dropped, refused or ended, and why.",
        (
            Parameter("since", "From when on: -1h, a time, or microseconds since 1970."),
            Parameter("until", "Until when."),
            Parameter("reason", "Of this reason only."),
            Parameter("client", "Of this client only."),
            Parameter("topic", "Of this topic only."),
            Parameter("buckets", "Also count in so many parts of the range: `density`.", "integer", None, 1, 600),
            LIMIT,
            CURSOR,
        ),
        answer=EventPage,
        topics="topic",
    ),
)
